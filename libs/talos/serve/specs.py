"""The specs of the resources that a node shows, in both forms that travel: encoded, and as YAML with Talos's keys."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from libs.talos.pb import common_pb2, specs_pb2
from libs.talos.serve.resources import Key, Spec

KINDS = {"unknown": 0, "init": 1, "controlplane": 2, "worker": 3}
"""Machine types by the word that configurations use."""
STAGES = (
    "unknown",
    "booting",
    "installing",
    "maintenance",
    "running",
    "rebooting",
    "shutting down",
    "resetting",
    "upgrading",
)

_UP_FLAGS = 1 | 2 | 64 | 4096 | 65536
_PERMANENT = 128
_INET4, _INET6 = 2, 10


@dataclass(frozen=True)
class Link:
    """A network link; a physical one is of type `ether` and has no kind. Addresses are colon hex, or empty."""

    name: str
    hardware_address: str
    permanent_address: str
    kind: str = ""
    slave_kind: str = ""
    bus_path: str = ""
    driver: str = ""


def system_information(*, uuid: str, serial: str, manufacturer: str, product: str, version: str) -> dict[Key, Spec]:
    proto = specs_pb2.SystemInformation(
        manufacturer=manufacturer,
        product_name=product,
        version=version,
        serial_number=serial,
        uuid=uuid,
        wake_up_type="Power Switch",
    )
    fields = {
        "manufacturer": manufacturer,
        "productName": product,
        "version": version,
        "serialnumber": serial,
        "uuid": uuid,
        "wakeUpType": "Power Switch",
    }
    shown = {key: value for key, value in fields.items() if value}
    key = Key("hardware", "SystemInformations.hardware.talos.dev", "systeminformation")
    return {key: _spec(proto, shown)}


def loopback_status() -> dict[Key, Spec]:
    proto = specs_pb2.LinkStatus(
        index=1,
        type=specs_pb2.LINK_TYPE_LOOPBACK,
        flags=_UP_FLAGS,
        mtu=65536,
        queue_disc="noqueue",
        operational_state=specs_pb2.OPERATIONAL_STATE_UNKNOWN,
        link_state=True,
        port=255,
        duplex=255,
    )
    shown = _link_yaml(proto, kind="loopback", state="unknown", addresses=("", ""))
    return {Key("network", "LinkStatuses.net.talos.dev", "lo"): _spec(proto, shown)}


def link_status(index: int, link: Link) -> dict[Key, Spec]:
    proto = specs_pb2.LinkStatus(
        index=index,
        type=specs_pb2.LINK_TYPE_ETHER,
        flags=_UP_FLAGS,
        hardware_addr=_mac(link.hardware_address),
        permanent_addr=_mac(link.permanent_address),
        broadcast_addr=b"\xff" * 6,
        mtu=1500,
        queue_disc="pfifo_fast",
        operational_state=specs_pb2.OPERATIONAL_STATE_UP,
        kind=link.kind,
        slave_kind=link.slave_kind,
        bus_path=link.bus_path,
        driver=link.driver,
        link_state=True,
        speed_megabits=1000,
        port=0,
        duplex=1,
    )
    shown = _link_yaml(proto, kind="ether", state="up", addresses=(link.hardware_address, link.permanent_address))
    return {Key("network", "LinkStatuses.net.talos.dev", link.name): _spec(proto, shown)}


def _link_yaml(proto: specs_pb2.LinkStatus, *, kind: str, state: str, addresses: tuple[str, str]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "index": proto.index,
        "type": kind,
        "linkIndex": proto.link_index,
        "flags": "UP,BROADCAST,RUNNING,MULTICAST,LOWER_UP",
        "hardwareAddr": addresses[0],
        "permanentAddr": addresses[1],
        "broadcastAddr": "ff:ff:ff:ff:ff:ff" if proto.broadcast_addr else "",
        "mtu": proto.mtu,
        "queueDisc": proto.queue_disc,
        "operationalState": state,
        "kind": proto.kind,
        "slaveKind": proto.slave_kind,
    }
    optional = {"busPath": proto.bus_path, "driver": proto.driver, "speedMbit": proto.speed_megabits}
    shown |= {key: value for key, value in optional.items() if value}
    # What the driver says first: whether there is a carrier.
    return shown | {
        "linkState": proto.link_state,
        "port": "TwistedPair" if proto.port == 0 else "Other",
        "duplex": "Full" if proto.duplex == 1 else "Unknown",
    }


def address_status(index: int, link: str, prefix: str) -> dict[Key, Spec]:
    interface = ipaddress.ip_interface(prefix)
    is_v4 = interface.version == 4
    proto = specs_pb2.AddressStatus(
        address=_prefix(prefix),
        local=common_pb2.NetIP(ip=interface.ip.packed),
        link_index=index,
        link_name=link,
        family=_INET4 if is_v4 else _INET6,
        flags=_PERMANENT,
    )
    shown = {
        "address": prefix,
        "local": str(interface.ip),
        "linkIndex": index,
        "linkName": link,
        "family": "inet4" if is_v4 else "inet6",
        "scope": "global",
        "flags": "permanent",
        "priority": 0,
    }
    return {Key("network", "AddressStatuses.net.talos.dev", f"{link}/{prefix}"): _spec(proto, shown)}


def node_addresses(*, current: Sequence[str], accumulative: Sequence[str]) -> dict[Key, Spec]:
    """The four plain views of the node's addresses, given as prefixes."""
    views = {"default": current[:1], "current": current, "routed": current, "accumulative": accumulative}
    return {
        Key("network", "NodeAddresses.net.talos.dev", name): _spec(
            specs_pb2.NodeAddress(addresses=[_prefix(prefix) for prefix in prefixes]),
            {"addresses": list(prefixes), "sortAlgorithm": "v1"},
        )
        for name, prefixes in views.items()
        if prefixes
    }


def hostname_status(hostname: str) -> dict[Key, Spec]:
    proto = specs_pb2.HostnameStatus(hostname=hostname)
    key = Key("network", "HostnameStatuses.net.talos.dev", "hostname")
    return {key: _spec(proto, {"hostname": hostname, "domainname": ""})}


def nodename(name: str) -> dict[Key, Spec]:
    proto = specs_pb2.Nodename(nodename=name, hostname_version="1")
    shown = {"nodename": name, "hostnameVersion": "1", "skipNodeRegistration": False}
    return {Key("k8s", "Nodenames.kubernetes.talos.dev", "nodename"): _spec(proto, shown)}


def machine_status(stage: str, unmet: Sequence[tuple[str, str]] = ()) -> dict[Key, Spec]:
    """The stage by its word, with the conditions (name, reason) that keep it from being ready."""
    proto = specs_pb2.MachineStatus(
        stage=specs_pb2.MachineStage.ValueType(STAGES.index(stage)),
        status=specs_pb2.MachineStatusStatus(
            ready=not unmet,
            unmet_conditions=[specs_pb2.UnmetCondition(name=name, reason=reason) for name, reason in unmet],
        ),
    )
    conditions = [{"name": name, "reason": reason} for name, reason in unmet]
    shown = {"stage": stage, "status": {"ready": not unmet, "unmetConditions": conditions}}
    return {Key("runtime", "MachineStatuses.runtime.talos.dev", "machine"): _spec(proto, shown)}


def machine_type(kind: str) -> dict[Key, Spec]:
    """The machine's type by its word; `unknown` encodes to no bytes at all."""
    proto = specs_pb2.MachineType(machine_type=specs_pb2.MachineKind.ValueType(KINDS[kind]))
    spec = Spec(proto.SerializeToString(), f"{kind}\n")
    return {Key("config", "MachineTypes.config.talos.dev", "machine-type"): spec}


def machine_config(id_: str, data: bytes) -> dict[Key, Spec]:
    """A machine configuration byte for byte; its YAML form is one string that holds the whole text."""
    proto = specs_pb2.MachineConfig(yaml_marshalled=data)
    text = yaml.safe_dump(data.decode(), default_style='"', width=2**31, allow_unicode=True)
    spec = Spec(proto.SerializeToString(), text, annotations=(("talos.dev/yaml-spec", "1"),))
    return {Key("config", "MachineConfigs.config.talos.dev", id_): spec}


def version(tag: str) -> dict[Key, Spec]:
    proto = specs_pb2.Version(version=tag, name="Talos")
    key = Key("runtime", "Versions.runtime.talos.dev", "version")
    return {key: _spec(proto, {"name": "Talos", "version": tag})}


def api_service_config(*, in_maintenance: bool) -> dict[Key, Spec]:
    proto = specs_pb2.APIServiceConfig(
        listen_address=":50000",
        node_routing_disabled=in_maintenance,
        readonly_role_mode=in_maintenance,
        skip_verifying_client_cert=in_maintenance,
    )
    shown = {
        "listenAddress": ":50000",
        "nodeRoutingDisabled": in_maintenance,
        "readonlyRoleMode": in_maintenance,
        "skipVerifyingClientCert": in_maintenance,
    }
    return {Key("runtime", "APIServiceConfigs.runtime.talos.dev", "apid"): _spec(proto, shown)}


def maintenance_request() -> dict[Key, Spec]:
    """Exists only while maintenance is asked for; it says nothing."""
    return {Key("runtime", "MaintenanceServiceRequests.runtime.talos.dev", "maintenance"): Spec(b"", "{}\n")}


def _spec(proto: Any, shown: dict[str, Any]) -> Spec:
    return Spec(proto.SerializeToString(), yaml.safe_dump(shown, sort_keys=False, indent=4))


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _prefix(text: str) -> common_pb2.NetIPPrefix:
    interface = ipaddress.ip_interface(text)
    return common_pb2.NetIPPrefix(ip=interface.ip.packed, prefix_length=interface.network.prefixlen)
