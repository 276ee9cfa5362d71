"""What we read of a node: who it is, its active configuration, its names."""

from __future__ import annotations

import re

from libs.identity import MACS_MAX, SERIAL_MAX, UUID_MAX, Identity
from libs.talos.connection import Connection
from libs.talos.pb import specs_pb2

IDENTITY_BYTES_MAX = 1024 * 1024
CONFIGURATION_BYTES_MAX = 8 * 1024 * 1024
"""Of the whole answer, in which the configuration travels twice."""
_NODE_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_USB_PATH = re.compile(r"^(usb-|\d+-[\d.]+:\d+\.\d+$)")
_USB_DRIVERS = ("cdc_", "rndis", "r815", "ax88", "asix", "usb")


async def identity(connection: Connection) -> Identity:
    """Read both signals on this connection; a box without SMBIOS has an identity of MACs only."""
    system = await connection.get(
        "hardware",
        "SystemInformations.hardware.talos.dev",
        "systeminformation",
        specs_pb2.SystemInformation,
        bytes_max=IDENTITY_BYTES_MAX,
    )
    links = await connection.list(
        "network", "LinkStatuses.net.talos.dev", specs_pb2.LinkStatus, bytes_max=IDENTITY_BYTES_MAX
    )
    macs = permanent_addresses(links)
    uuid, serial = (system.uuid, system.serial_number) if system else ("", "")
    if len(uuid) > UUID_MAX or len(serial) > SERIAL_MAX or len(macs) > MACS_MAX:
        raise connection.strange("read the identity", "no hardware has a name that long or that many links")
    return Identity(uuid=uuid, serial_number=serial, mac_addresses=macs)


async def machine_configuration(connection: Connection) -> bytes:
    """Read the active configuration, byte for byte as it was submitted."""
    kind = "MachineConfigs.config.talos.dev"
    spec = await connection.get("config", kind, "v1alpha1", specs_pb2.MachineConfig, bytes_max=CONFIGURATION_BYTES_MAX)
    if spec is None:
        raise connection.strange(f"read {kind}", "it has no active configuration")
    return spec.yaml_marshalled


async def nodename(connection: Connection) -> str:
    """Read the name under which it registers with Kubernetes, or nothing while it has none that is one."""
    spec = await connection.get(
        "k8s",
        "Nodenames.kubernetes.talos.dev",
        "nodename",
        specs_pb2.Nodename,
        bytes_max=IDENTITY_BYTES_MAX,
    )
    return spec.nodename if spec and _NODE_NAME.fullmatch(spec.nodename) else ""


def permanent_addresses(links: list[specs_pb2.LinkStatus]) -> tuple[str, ...]:
    """Return the permanent MACs of physical links, sorted; a link that reports none has none.

    The current address says nothing: the ports of a bond all show the bond's.
    """
    found = {link.permanent_addr for link in links if _is_physical(link)}
    return tuple(sorted(mac.hex(":") for mac in found if len(mac) == 6 and any(mac)))


def _is_physical(link: specs_pb2.LinkStatus) -> bool:
    """USB links do not count: they move between boxes, and BMCs give all of a series the same address."""
    on_usb = _USB_PATH.match(link.bus_path) or link.driver.lower().startswith(_USB_DRIVERS)
    return link.type == specs_pb2.LINK_TYPE_ETHER and not link.kind and not on_usb
