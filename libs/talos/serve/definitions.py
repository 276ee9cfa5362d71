"""The registered kinds of resources: who may read them, and how `talosctl get` names and prints them."""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from libs.talos.pb import meta_pb2
from libs.talos.serve.resources import Key, Spec


@dataclass(frozen=True)
class Definition:
    """One kind; the display name is the singular that COSI derives from the type."""

    namespace: str
    type: str
    display: str
    columns: tuple[tuple[str, str], ...] = ()
    aliases: tuple[str, ...] = ()
    sensitive: bool = False
    """Only an administrator may read it."""

    @property
    def short_aliases(self) -> tuple[str, ...]:
        """The aliases that are shown: those given, the singular, and the capitals."""
        capitals = "".join(letter for letter in self._name if letter.isupper()).lower()
        short = (capitals, *(() if capitals.endswith("s") else (f"{capitals}s",))) if len(capitals) > 1 else ()
        return (*self.aliases, self.display.lower(), *short)

    @property
    def all_aliases(self) -> tuple[str, ...]:
        """Whatever may stand for the type on a command line."""
        name, *suffix = self.type.split(".")
        dotted = (".".join([name.lower(), *suffix[:count]]) for count in range(1, len(suffix)))
        return (name.lower(), *dotted, *self.short_aliases)

    @property
    def _name(self) -> str:
        return self.type.partition(".")[0]


_IDENTITY = (
    ("Manufacturer", "{.manufacturer}"),
    ("ProductName", "{.productName}"),
    ("Version", "{.version}"),
    ("SerialNumber", "{.serialnumber}"),
    ("UUID", "{.uuid}"),
    ("WakeUpType", "{.wakeUpType}"),
    ("SKUNumber", "{.skuNumber}"),
)
_LINK = (
    ("Alias", "{.alias}"),
    ("Type", "{.type}"),
    ("Kind", "{.kind}"),
    ("Hw Addr", "{.hardwareAddr}"),
    ("Oper State", "{.operationalState}"),
    ("Link State", "{.linkState}"),
)
_MEMBER = (
    ("Hostname", "{.hostname}"),
    ("Machine Type", "{.machineType}"),
    ("OS", "{.operatingSystem}"),
    ("Addresses", "{.addresses}"),
)

_ALL = (
    Definition("meta", "Namespaces.meta.cosi.dev", "Namespace", aliases=("ns",)),
    Definition(
        "meta",
        "ResourceDefinitions.meta.cosi.dev",
        "ResourceDefinition",
        (("Aliases", "{.aliases[:]}"),),
        ("api-resources",),
    ),
    Definition("hardware", "SystemInformations.hardware.talos.dev", "SystemInformation", _IDENTITY),
    Definition("network", "LinkStatuses.net.talos.dev", "LinkStatus", _LINK, ("link", "links")),
    Definition("network", "HardwareAddresses.net.talos.dev", "HardwareAddress"),
    Definition(
        "network",
        "AddressStatuses.net.talos.dev",
        "AddressStatus",
        (("Address", "{.address}"), ("Link", "{.linkName}")),
        ("address", "addresses"),
    ),
    Definition(
        "network",
        "NodeAddresses.net.talos.dev",
        "NodeAddress",
        (("Addresses", "{.addresses}"), ("SortAlgorithm", "{.sortAlgorithm}")),
    ),
    Definition(
        "network",
        "HostnameStatuses.net.talos.dev",
        "HostnameStatus",
        (("Hostname", "{.hostname}"), ("Domainname", "{.domainname}")),
        ("hostname",),
    ),
    Definition("network", "NetworkStatuses.net.talos.dev", "NetworkStatus", aliases=("netstatus", "netstatuses")),
    Definition("network", "LinkSpecs.net.talos.dev", "LinkSpec", sensitive=True),
    Definition("network", "OperatorSpecs.net.talos.dev", "OperatorSpec", sensitive=True),
    Definition("network", "DeviceConfigSpecs.net.talos.dev", "DeviceConfigSpec", sensitive=True),
    Definition("k8s", "Nodenames.kubernetes.talos.dev", "Nodename", (("Nodename", "{.nodename}"),)),
    Definition(
        "runtime",
        "MachineStatuses.runtime.talos.dev",
        "MachineStatus",
        (("Stage", "{.stage}"), ("Ready", "{.status.ready}")),
    ),
    Definition("config", "MachineTypes.config.talos.dev", "MachineType", (("Type", "{@}"),)),
    Definition("config", "MachineConfigs.config.talos.dev", "MachineConfig", sensitive=True),
    Definition("cluster", "Identities.cluster.talos.dev", "Identity", (("ID", "{.nodeId}"),)),
    Definition("cluster", "Members.cluster.talos.dev", "Member", _MEMBER),
    Definition("cluster", "Affiliates.cluster.talos.dev", "Affiliate"),
    Definition("cluster", "Infos.cluster.talos.dev", "Info"),
    Definition("runtime", "Versions.runtime.talos.dev", "Version", (("Name", "{.name}"), ("Version", "{.version}"))),
    Definition("runtime", "PlatformMetadatas.talos.dev", "PlatformMetadata"),
    Definition("runtime", "MetaKeys.runtime.talos.dev", "MetaKey", (("Value", "{.value}"),), ("meta",)),
    Definition("runtime", "UniqueMachineTokens.runtime.talos.dev", "UniqueMachineToken"),
    Definition("runtime", "MaintenanceServiceRequests.runtime.talos.dev", "MaintenanceServiceRequest"),
    Definition("runtime", "MaintenanceServiceConfigs.runtime.talos.dev", "MaintenanceServiceConfig"),
    Definition("runtime", "APIServiceConfigs.runtime.talos.dev", "APIServiceConfig"),
    Definition("runtime", "Disks.block.talos.dev", "Disk"),
    Definition("runtime", "SystemDisks.block.talos.dev", "SystemDisk"),
    Definition("secrets", "ApiCertificates.secrets.talos.dev", "ApiCertificate", sensitive=True),
    Definition("secrets", "OSRootSecrets.secrets.talos.dev", "OSRootSecret", sensitive=True),
    Definition("secrets", "MaintenanceRootSecrets.secrets.talos.dev", "MaintenanceRootSecret", sensitive=True),
)

DEFINITIONS = {definition.type.lower(): definition for definition in _ALL}
NAMESPACES = frozenset(definition.namespace for definition in _ALL) | {"network-config", "cluster-raw"}


def definition_specs() -> dict[Key, Spec]:
    """Return the definitions as resources: what `talosctl get` reads before anything else."""
    return {
        Key("meta", "ResourceDefinitions.meta.cosi.dev", id_): _spec(definition)
        for id_, definition in DEFINITIONS.items()
    }


def _spec(definition: Definition) -> Spec:
    proto = meta_pb2.ResourceDefinitionSpec(
        resource_type=definition.type,
        display_type=definition.display,
        default_namespace=definition.namespace,
        aliases=definition.short_aliases,
        all_aliases=definition.all_aliases,
        print_columns=[
            meta_pb2.ResourceDefinitionSpec.PrintColumn(name=name, json_path=path) for name, path in definition.columns
        ],
        sensitivity=(
            meta_pb2.ResourceDefinitionSpec.SENSITIVE
            if definition.sensitive
            else meta_pb2.ResourceDefinitionSpec.NON_SENSITIVE
        ),
    )
    shown = {
        "type": definition.type,
        "displayType": definition.display,
        "defaultNamespace": definition.namespace,
        "aliases": list(definition.short_aliases),
        "allAliases": list(definition.all_aliases),
        "printColumns": [{"name": name, "jsonPath": path} for name, path in definition.columns],
        "sensitivity": "sensitive" if definition.sensitive else "",
    }
    return Spec(proto.SerializeToString(), yaml.safe_dump(shown, sort_keys=False))
