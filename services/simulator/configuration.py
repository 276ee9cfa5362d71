"""A machine configuration as far as a simulated node reads it: what makes it complete, and what certificates need."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from libs.endpoint import InvalidEndpointError, normalise_address
from libs.talos import serve

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KINDS = ("controlplane", "worker")
HOSTNAME_MAX = 63


class InvalidConfigurationError(ValueError):
    """The node would not take this; the text never quotes the configuration."""


@dataclass(frozen=True)
class Configuration:
    """A parsed configuration; `data` is the text byte for byte as it was sent."""

    data: bytes
    kind: str
    """`controlplane` or `worker`; `unknown` when there is no v1alpha1 document, which is not enough to boot with."""
    hostname: str = ""
    authority: serve.Authority | None = None
    """The cluster's authority with its key: a control plane signs its own certificates."""
    authority_pem: bytes = b""
    accepted_pem: tuple[bytes, ...] = ()
    """Every authority that clients may come from."""
    san_addresses: tuple[str, ...] = ()
    san_names: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        return self.kind in _KINDS

    def __repr__(self) -> str:
        return f"Configuration({self.kind}, {len(self.data)} bytes)"


def parse(data: bytes) -> Configuration:
    """Read a configuration or raise `InvalidConfigurationError`."""
    documents = _documents(data)
    hostname = _hostname(documents)
    main = next((d for d in documents if d.get("version") == "v1alpha1" and "kind" not in d), None)
    if main is None:
        return Configuration(data, "unknown", hostname)
    machine = _mapping(main, "machine")
    kind = "controlplane" if machine.get("type") == "init" else machine.get("type", "worker")
    if kind not in _KINDS:
        raise InvalidConfigurationError("machine.type is neither controlplane nor worker")
    hostname = hostname or str(_optional(machine, "network").get("hostname") or "")
    certificate = _certificate(_mapping(machine, "ca"), "machine.ca.crt")
    accepted = [_certificate(entry, "machine.acceptedCAs.crt") for entry in _mappings(machine, "acceptedCAs")]
    if not _mapping(_mapping(main, "cluster"), "controlPlane").get("endpoint"):
        raise InvalidConfigurationError("cluster.controlPlane.endpoint is required")
    named = machine.get("certSANs") or ()
    sans = [str(san) for san in named] if isinstance(named, list) else []
    if not all(map(str.isascii, (hostname, *sans))) or len(hostname) > HOSTNAME_MAX:
        raise InvalidConfigurationError("a host name or certSAN is too long or not ASCII")
    addresses = tuple(san for san in sans if _is_address(san))
    return Configuration(
        data,
        kind,
        hostname,
        authority=_authority(certificate, machine) if kind == "controlplane" else None,
        authority_pem=certificate,
        accepted_pem=(certificate, *accepted),
        san_addresses=addresses,
        san_names=tuple(san for san in sans if san not in addresses),
    )


def _documents(data: bytes) -> list[Mapping[str, Any]]:
    try:
        loaded = list(yaml.load_all(data, Loader=_Loader))
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        raise InvalidConfigurationError("the configuration is not YAML") from None
    documents = [document for document in loaded if document is not None]
    if not documents or not all(isinstance(document, Mapping) for document in documents):
        raise InvalidConfigurationError("the configuration holds no documents, or some that are no mappings")
    return documents


def _hostname(documents: list[Mapping[str, Any]]) -> str:
    names = (d.get("hostname") for d in documents if d.get("kind") == "HostnameConfig")
    return next((str(name) for name in names if name), "")


def _authority(certificate: bytes, machine: Mapping[str, Any]) -> serve.Authority:
    key = _pem(_mapping(machine, "ca").get("key"), "machine.ca.key")
    try:
        return serve.Authority.from_pem(certificate, key)
    except serve.UnusableAuthorityError as error:
        raise InvalidConfigurationError(f"machine.ca: {error}") from None


def _certificate(parent: Mapping[str, Any], where: str) -> bytes:
    pem = _pem(parent.get("crt"), where)
    try:
        serve.load_certificate(pem)
    except serve.UnusableAuthorityError as error:
        raise InvalidConfigurationError(f"{where}: {error}") from None
    return pem


def _pem(text: Any, where: str) -> bytes:
    try:
        pem = base64.b64decode(str(text or ""), validate=True)
    except binascii.Error:
        pem = b""
    if b"-----BEGIN" not in pem:
        raise InvalidConfigurationError(f"{where} is required, as base64 of PEM")
    return pem


def _mapping(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = parent.get(key)
    if not isinstance(value, Mapping):
        raise InvalidConfigurationError(f"{key} is required")
    return value


def _optional(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = parent.get(key)
    return value if isinstance(value, Mapping) else {}


def _mappings(parent: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = parent.get(key) or []
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        raise InvalidConfigurationError(f"{key} must be a list of mappings")
    return value


def _is_address(text: str) -> bool:
    try:
        normalise_address(text)
    except InvalidEndpointError:
        return False
    return True
