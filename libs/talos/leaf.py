"""The leaf certificate that a node presents: its fingerprint, and which mode of Talos it stands for."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

MAINTENANCE_NAME = "maintenance-service.talos.dev"
"""The common name of every maintenance leaf, and of no other."""

_NAME_MAX = 253


@dataclass(frozen=True)
class Leaf:
    """A presented certificate. `fingerprint` is in the form that `talosctl` prints, and changes with every leaf."""

    der: bytes
    fingerprint: str
    common_name: str
    not_after: datetime

    @property
    def maintenance(self) -> bool:
        """Whether the leaf is that of a node without a configuration; anybody can claim that name."""
        return self.common_name == MAINTENANCE_NAME


def fingerprint(der: bytes) -> str:
    """Return base64 of SHA-256 over the certificate's SubjectPublicKeyInfo; `ValueError` if it cannot be read."""
    return read_leaf(der).fingerprint


def read_leaf(der: bytes) -> Leaf:
    """Read a certificate that a stranger may have made; `ValueError` if it cannot be read."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        not_after = certificate.not_valid_after_utc
    except Exception as error:  # the parser has many ways to refuse what a hostile box presents
        raise ValueError("not a certificate that can be read") from error
    common_name = str(names[-1].value)[:_NAME_MAX] if names else ""
    return Leaf(der, base64.b64encode(hashlib.sha256(key).digest()).decode(), common_name, not_after)


def same_fingerprint(one: str, other: str) -> bool:
    """Compare as Talos does, by the bytes; text that is no base64 equals nothing."""
    try:
        return base64.b64decode(one.strip(), validate=True) == base64.b64decode(other.strip(), validate=True)
    except binascii.Error:
        return False
