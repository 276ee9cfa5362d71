"""Certificates made by the rules of Talos: the authority of one boot or one cluster, and the leaves it signs.

Every leaf has a brand-new key, so its fingerprint stands for one leaf and never for a machine. Keys follow the
kind of the authority's key, and the maintenance authority has an empty subject, as upstream's has.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

MAINTENANCE_NAME = "maintenance-service.talos.dev"
LEAF_LIFETIME = timedelta(hours=24)
AUTHORITY_LIFETIME = timedelta(days=3650)
CLIENT_LIFETIME = timedelta(days=365)

PrivateKey = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

_TALOS_LABEL = b"ED25519 PRIVATE KEY"
_PLAIN_LABEL = b"PRIVATE KEY"


class UnusableAuthorityError(ValueError):
    """The text is not a certificate authority that can sign leaves."""


@dataclass(frozen=True)
class Leaf:
    """A certificate with its private key, both as PEM that OpenSSL reads, and what a client sees of it."""

    certificate_pem: bytes
    key_pem: bytes
    fingerprint: str
    common_name: str


class Authority:
    """A certificate authority that signs leaves for nodes and for clients."""

    def __init__(self, certificate: x509.Certificate, key: PrivateKey) -> None:
        self.certificate = certificate
        self._key = key

    @classmethod
    def for_maintenance(cls) -> Authority:
        """Make the authority of one boot: an empty subject, never shown to anybody."""
        return cls._self_signed(x509.Name([]), LEAF_LIFETIME)

    @classmethod
    def for_cluster(cls, organization: str = "talos") -> Authority:
        """Make a cluster's authority, as `talosctl gen config` does."""
        name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)])
        return cls._self_signed(name, AUTHORITY_LIFETIME)

    @classmethod
    def from_pem(cls, certificate: bytes, key: bytes) -> Authority:
        """Read an authority as a machine configuration carries it; the error never holds the text itself."""
        loaded = load_certificate(certificate)
        try:
            private = serialization.load_pem_private_key(key.replace(_TALOS_LABEL, _PLAIN_LABEL), None)
        except (ValueError, TypeError):
            raise UnusableAuthorityError("the key is not an unencrypted PEM private key") from None
        if not isinstance(private, PrivateKey):
            raise UnusableAuthorityError("the key is neither Ed25519, ECDSA nor RSA")
        if spki(loaded) != _public_der(private):
            raise UnusableAuthorityError("the key does not belong to the certificate")
        return cls(loaded, private)

    @classmethod
    def _self_signed(cls, name: x509.Name, lifetime: timedelta) -> Authority:
        key = ed25519.Ed25519PrivateKey.generate()
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = _builder(name, name, key, lifetime, usages=usages, is_authority=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        return cls(builder.sign(key, None), key)

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The private key as Talos writes it: PKCS#8, for Ed25519 under a label of its own."""
        pem = _key_pem(self._key)
        return pem.replace(_PLAIN_LABEL, _TALOS_LABEL) if isinstance(self._key, ed25519.Ed25519PrivateKey) else pem

    def issue_server(
        self, common_name: str, *, addresses: Iterable[str], names: Iterable[str] = (), now: datetime | None = None
    ) -> Leaf:
        """Sign a node's leaf, valid for a day from `now` on, which is the node's own clock.

        Loopback is always among its addresses, and the common name is not a SAN by itself.
        """
        alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in dict.fromkeys(names)]
        alternatives += [
            x509.IPAddress(ipaddress.ip_address(address)) for address in dict.fromkeys((*addresses, "127.0.0.1", "::1"))
        ]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        return self._issue(subject, LEAF_LIFETIME, [ExtendedKeyUsageOID.SERVER_AUTH], alternatives, now)

    def issue_client(
        self,
        roles: Iterable[str],
        *,
        lifetime: timedelta = CLIENT_LIFETIME,
        usages: Iterable[x509.ObjectIdentifier] = (ExtendedKeyUsageOID.CLIENT_AUTH,),
    ) -> Leaf:
        """Sign a client's certificate: one organization for each role, no common name."""
        subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, role) for role in roles])
        return self._issue(subject, lifetime, list(usages), [], None)

    def _issue(
        self,
        subject: x509.Name,
        lifetime: timedelta,
        usages: list[x509.ObjectIdentifier],
        alternatives: list[x509.GeneralName],
        now: datetime | None,
    ) -> Leaf:
        key = _like(self._key)
        builder = _builder(subject, self.certificate.subject, key, lifetime, usages=usages, is_authority=False, now=now)
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        builder = builder.add_extension(self._authority_identifier(), critical=False)
        certificate = builder.sign(self._key, _digest(self._key))
        return Leaf(
            certificate_pem=certificate.public_bytes(serialization.Encoding.PEM),
            key_pem=_key_pem(key),
            fingerprint=base64.b64encode(hashlib.sha256(spki(certificate)).digest()).decode(),
            common_name=_common_name(subject),
        )

    def _authority_identifier(self) -> x509.AuthorityKeyIdentifier:
        """The identifier is copied from the authority: Talos makes it of random bytes, not of the key."""
        try:
            own = self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        except x509.ExtensionNotFound:
            return x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def load_certificate(pem: bytes) -> x509.Certificate:
    """Read one PEM certificate."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise UnusableAuthorityError("the certificate is not PEM") from None


def spki(certificate: x509.Certificate) -> bytes:
    """Return the DER SubjectPublicKeyInfo: what a fingerprint is taken of, and what makes two authorities one."""
    return certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _public_der(key: PrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _like(key: PrivateKey) -> PrivateKey:
    if isinstance(key, rsa.RSAPrivateKey):
        return rsa.generate_private_key(65537, 2048)
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return ec.generate_private_key(ec.SECP256R1())
    return ed25519.Ed25519PrivateKey.generate()


def _digest(key: PrivateKey) -> hashes.SHA256 | None:
    return None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()


def _key_pem(key: PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _common_name(subject: x509.Name) -> str:
    attributes = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(attributes[0].value) if attributes else ""


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: PrivateKey,
    lifetime: timedelta,
    *,
    usages: list[x509.ObjectIdentifier],
    is_authority: bool,
    now: datetime | None = None,
) -> x509.CertificateBuilder:
    now = now or datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # A lifetime that is over already makes an expired certificate, which a test may want to show.
        .not_valid_before(min(now, now + lifetime - LEAF_LIFETIME))
        .not_valid_after(now + lifetime)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                key_cert_sign=is_authority,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                crl_sign=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
    )
    if is_authority:  # upstream's leaves carry no basic constraints at all
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False) if usages else builder
