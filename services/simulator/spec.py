"""What can be put on a site: nodes, hostile boxes and the fleet file that lists them.

Every entry is validated before anything is started, and an error names the entry.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import yaml

from libs.endpoint import DEFAULT_PORT, InvalidEndpointError, normalise_address
from libs.talos import serve
from services.simulator.configuration import HOSTNAME_MAX, InvalidConfigurationError, parse

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")

T = TypeVar("T")


class FleetError(ValueError):
    """An entry is not usable; the text names it and what is wrong."""


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=False):
    """Base of all entries."""


class LinkSpec(_Entry, frozen=True, kw_only=True):
    """A network link, for those who want more than one plain Ethernet port for each MAC."""

    name: str
    mac: str = ""
    permanent_mac: str | None = None
    """The MAC when left out; empty where the driver does not tell one."""
    kind: str = ""
    """Empty for a physical link, else `bond`, `bridge`, `vlan` and the like."""
    slave_kind: str = ""
    bus_path: str = "0000:00:03.0"
    driver: str = "virtio_net"


class RefuseApply(_Entry, frozen=True, kw_only=True):
    """Refuses configurations with a gRPC status."""

    code: str = "INVALID_ARGUMENT"
    message: str = "refused by the simulated node"
    times: int = 1


class Troubles(_Entry, frozen=True, kw_only=True):
    """What is wrong with a node."""

    refuse_apply: RefuseApply | None = None
    hold_apply: bool = False
    """Configurations wait unanswered until this is taken back."""
    silent: bool = False
    """Connections are accepted, and then nothing is said."""
    drop_after_handshake: bool = False
    clock_offset_seconds: float = 0.0
    """How far the node's clock is ahead; its certificates carry its own time."""


class KubeletSpec(_Entry, frozen=True, kw_only=True):
    """How the node's kubelet behaves, where the simulator plays it."""

    enabled: bool = True
    delay_seconds: float = 0.0
    """From the node's being up, or its new address, to what the Kubernetes Node says about it."""
    addresses: tuple[str, ...] | None = None
    """What the Node is to list at once, whether anything answers there or not; null means the node's own."""


class NodeSpec(_Entry, frozen=True, kw_only=True):
    """One simulated node. Identity that is left out is made from the seed; an empty text means the box has none."""

    name: str
    addresses: tuple[str, ...]
    port: int = DEFAULT_PORT
    prefix_length: int = 24
    uuid: str | None = None
    serial: str | None = None
    macs: tuple[str, ...] | None = None
    """One physical Ethernet port for each, in this order; `links` says more."""
    links: tuple[LinkSpec, ...] = ()
    smbios: bool = True
    """False: the box tells neither UUID nor serial."""
    manufacturer: str = "Nodetrail"
    product: str = "Simulated Box"
    product_version: str = "1.0"
    hostname: str = ""
    """The name that DHCP gives; a configuration's own name wins."""
    power: bool | Literal["on", "off"] = True
    configuration: str = ""
    """A file with the machine configuration that the box already has, relative to the fleet file."""
    configuration_text: str = ""
    install_seconds: float = 0.3
    """From the last word of maintenance mode to the first of the configured node."""
    install_reboots: bool = False
    boot_seconds: float = 0.0
    troubles: Troubles = Troubles()
    kubelet: KubeletSpec = KubeletSpec()

    @property
    def is_on(self) -> bool:
        return self.power in (True, "on")


class HostileKind(StrEnum):
    """What an address may do instead of answering."""

    GARBAGE = "garbage"
    SILENT = "silent"
    ENDLESS = "endless"
    SLOW_LORIS = "slow-loris"
    RESETS = "resets"
    HUGE_CERTIFICATE = "huge-certificate"
    GARBAGE_HTTP2 = "garbage-h2"
    HUGE_ANSWER = "huge-answer"
    WRONG_TYPES = "wrong-types"


class HostileSpec(_Entry, frozen=True, kw_only=True):
    """Something broken at an address."""

    address: str
    kind: HostileKind
    port: int = DEFAULT_PORT


class ClusterCa(_Entry, frozen=True, kw_only=True):
    """A cluster's authority as configurations carry it (base64 of PEM), for workers without a control plane here."""

    crt: str
    key: str


class FleetFile(_Entry, frozen=True, kw_only=True):
    """The whole site."""

    nodes: tuple[NodeSpec, ...] = ()
    hostile: tuple[HostileSpec, ...] = ()
    cluster_ca: ClusterCa | None = None


def read_fleet(path: Path) -> FleetFile:
    """Read a fleet file; relative paths in it are taken from its own folder."""
    try:
        raw = yaml.safe_load(path.read_text())
    except OSError as error:
        raise FleetError(f"cannot read the fleet file {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise FleetError(f"the fleet file {path} is not YAML: {_first_line(error)}") from error
    return fleet_from(raw or {}, folder=path.parent)


def fleet_from(raw: Any, *, folder: Path) -> FleetFile:
    """Validate a fleet, each entry by itself so that an error names it."""
    if not isinstance(raw, Mapping):
        raise FleetError("a fleet is a mapping with `nodes`, `hostile` and `cluster_ca`")
    nodes = tuple(
        node_from(entry, folder=folder, where=f"nodes[{index}]") for index, entry in enumerate(_list(raw, "nodes"))
    )
    hostile = tuple(hostile_from(entry, where=f"hostile[{index}]") for index, entry in enumerate(_list(raw, "hostile")))
    rest = {key: value for key, value in raw.items() if key not in ("nodes", "hostile")}
    fleet = msgspec.structs.replace(_convert(rest, FleetFile, "the fleet"), nodes=nodes, hostile=hostile)
    names = [node.name for node in nodes]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise FleetError(f"nodes: the name {twice[0]!r} is given more than once")
    return fleet


def node_from(raw: Any, *, folder: Path, where: str = "node") -> NodeSpec:
    """Validate one node as a fleet file or the control API gives it."""
    name = raw.get("name") if isinstance(raw, Mapping) else None
    where = f"{where} ({name})" if isinstance(name, str) else where
    return checked(_convert(raw, NodeSpec, where), folder=folder, where=where)


def checked(spec: NodeSpec, *, folder: Path = Path(), where: str = "node") -> NodeSpec:
    """Return the entry in its canonical form, its configuration read, or raise `FleetError`."""
    if not _NAME.fullmatch(spec.name):
        raise FleetError(f"{where}: the name must be lower-case letters, digits, dots and dashes")
    if spec.hostname and not (_NAME.fullmatch(spec.hostname) and len(spec.hostname) <= HOSTNAME_MAX):
        raise FleetError(f"{where}: the hostname must be a DNS name of {HOSTNAME_MAX} characters at most")
    if not spec.addresses:
        raise FleetError(f"{where}: at least one address is wanted")
    return msgspec.structs.replace(
        spec,
        addresses=addresses_from(spec.addresses, where),
        macs=None if spec.macs is None else tuple(_mac(mac, where) for mac in spec.macs),
        links=tuple(_link(link, where) for link in spec.links),
        configuration="",
        configuration_text=_configuration(spec, folder, where),
        troubles=troubles_from(msgspec.to_builtins(spec.troubles), where),
        kubelet=kubelet_from(msgspec.to_builtins(spec.kubelet), where),
    )


def hostile_from(raw: Any, *, where: str = "hostile") -> HostileSpec:
    spec = _convert(raw, HostileSpec, where)
    return msgspec.structs.replace(spec, address=addresses_from([spec.address], where)[0])


def kubelet_from(raw: Any, where: str) -> KubeletSpec:
    spec = _convert(raw, KubeletSpec, f"{where}: kubelet")
    if spec.addresses is None:
        return spec
    return msgspec.structs.replace(spec, addresses=addresses_from(spec.addresses, f"{where}: kubelet"))


def troubles_from(raw: Any, where: str) -> Troubles:
    troubles = _convert(raw, Troubles, f"{where}: troubles")
    if troubles.refuse_apply and troubles.refuse_apply.code not in serve.Code.__members__:
        raise FleetError(f"{where}: {troubles.refuse_apply.code!r} is not a gRPC status code such as INVALID_ARGUMENT")
    return troubles


def authority_from(given: ClusterCa | None) -> serve.Authority | None:
    """Return the cluster's authority, if the fleet has one."""
    if given is None:
        return None
    try:
        return serve.Authority.from_pem(base64.b64decode(given.crt), base64.b64decode(given.key))
    except (serve.UnusableAuthorityError, binascii.Error) as error:
        raise FleetError(f"cluster_ca: {error}") from None


def addresses_from(texts: Any, where: str) -> tuple[str, ...]:
    """Return addresses in their canonical form, each once."""
    try:
        return tuple(dict.fromkeys(normalise_address(text) for text in texts))
    except InvalidEndpointError as error:
        raise FleetError(f"{where}: {error}") from error


def _list(raw: Mapping[str, Any], key: str) -> list[Any]:
    value = raw.get(key) or []
    if not isinstance(value, list):
        raise FleetError(f"{key}: must be a list")
    return value


def _convert(raw: Any, kind: type[T], where: str) -> T:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise FleetError(f"{where}: {error}") from error


def _configuration(spec: NodeSpec, folder: Path, where: str) -> str:
    text = spec.configuration_text
    if spec.configuration:
        try:
            text = (folder / spec.configuration).read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise FleetError(f"{where}: cannot read its configuration {spec.configuration}: {error}") from error
    if text:
        try:
            parse(text.encode())
        except InvalidConfigurationError as error:
            raise FleetError(f"{where}: its configuration: {error}") from None
    return text


def _link(link: LinkSpec, where: str) -> LinkSpec:
    where = f"{where}: link {link.name}"
    return msgspec.structs.replace(
        link,
        mac=link.mac and _mac(link.mac, where),
        permanent_mac=link.permanent_mac and _mac(link.permanent_mac, where),
    )


def _mac(text: str, where: str) -> str:
    lower = text.lower().replace("-", ":")
    if not _MAC.fullmatch(lower):
        raise FleetError(f"{where}: {text!r} is not a MAC address")
    return lower


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
