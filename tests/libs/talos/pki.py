"""Certificates of every kind and with every fault, for the tests of the client."""

from __future__ import annotations

import base64
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
DAY = timedelta(days=1)
MAINTENANCE = "maintenance-service.talos.dev"


def make_key(kind: str) -> Key:
    if kind == "ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    return ec.generate_private_key(ec.SECP256R1()) if kind == "ec" else rsa.generate_private_key(65537, 2048)


@dataclass(frozen=True)
class Issued:
    certificate: x509.Certificate
    key: Key

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def server_context(self, clients: Issued | None = None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["h2"])
        context.num_tickets = 0
        with tempfile.NamedTemporaryFile() as file:
            file.write(self.pem + self.key_pem)
            file.flush()
            context.load_cert_chain(file.name)
        if clients:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=clients.pem.decode())
        return context


def authority(kind: str = "ed25519", *, organization: str | None = "talos") -> Issued:
    """A cluster's authority; without an organization, that of one boot in maintenance mode."""
    key = make_key(kind)
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    name = x509.Name(attributes)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = _builder(name, name, key, DAY, is_authority=True).add_extension(identifier, critical=False)
    return Issued(builder.sign(key, _digest(key)), key)


def issue(
    by: Issued,
    common_name: str = "node-1",
    *,
    kind: str = "ed25519",
    usage: x509.ObjectIdentifier | None = ExtendedKeyUsageOID.SERVER_AUTH,
    lifetime: timedelta = DAY,
    starts_in: timedelta = -DAY,
    is_authority: bool = False,
    key: Key | None = None,
) -> Issued:
    key = key or make_key(kind)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)] if common_name else [])
    builder = _builder(
        name, by.certificate.subject, key, lifetime, is_authority=is_authority, starts_in=starts_in, usage=usage
    )
    # All of Talos's authorities share one name: only the key identifier tells them apart.
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(by.key.public_key())
    return Issued(builder.add_extension(signer, critical=False).sign(by.key, _digest(by.key)), key)


def client(by: Issued, *, kind: str = "ed25519", lifetime: timedelta = DAY) -> Issued:
    return issue(
        by, "", kind=kind, usage=ExtendedKeyUsageOID.CLIENT_AUTH, lifetime=lifetime, starts_in=-DAY - abs(lifetime)
    )


def talosconfig(authorities: bytes, ours: Issued, **changed: str | None) -> bytes:
    """The text as talosctl writes it, keys under Talos's own label; `changed` replaces or removes a field."""
    key = ours.key_pem
    if isinstance(ours.key, ed25519.Ed25519PrivateKey):
        key = key.replace(b"PRIVATE KEY", b"ED25519 PRIVATE KEY")
    fields = {
        "ca": base64.b64encode(authorities).decode(),
        "crt": base64.b64encode(ours.pem).decode(),
        "key": base64.b64encode(key).decode(),
    }
    kept = {name: value for name, value in {**fields, **changed}.items() if value is not None}
    config = {"context": "test", "contexts": {"other": {}, "test": {"endpoints": ["10.0.0.1"]} | kept}}
    return yaml.safe_dump(config).encode()


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: Key,
    lifetime: timedelta,
    *,
    is_authority: bool,
    starts_in: timedelta = -DAY,
    usage: x509.ObjectIdentifier | None = None,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + starts_in)
        .not_valid_after(now + lifetime)
    )
    if is_authority:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False) if usage else builder


def _digest(key: Key) -> hashes.SHA256 | None:
    return None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
