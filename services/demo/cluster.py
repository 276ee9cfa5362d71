"""A cluster's secrets for the demo: a Talos CA, configurations and a talosconfig, shaped as `talosctl gen config` does.

`talosctl` is not asked for, so that the demo needs nothing but Python. The configurations are as short as a
configuration may be; they carry a real CA key, which is what a twin must never be sent.
"""

from __future__ import annotations

import base64
import secrets
from datetime import UTC, datetime, timedelta

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


class Cluster:
    """One cluster's CA and what is made with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._ca_key = Ed25519PrivateKey.generate()
        self._ca = _certificate(
            subject=x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "talos")]),
            key=self._ca_key,
            issuer=None,
            signing_key=self._ca_key,
            lifetime=timedelta(days=3650),
        )
        # A letter that is no digit's neighbour in any number, so that no reader of YAML takes it for one.
        self._token = f"t{secrets.token_hex(3)[:5]}.{secrets.token_hex(8)}"

    def configuration(self, hostname: str) -> str:
        """Return a control plane's machine configuration."""
        machine = {
            "version": "v1alpha1",
            "machine": {
                "type": "controlplane",
                "token": self._token,
                "ca": {"crt": _base64(_pem(self._ca)), "key": _base64(_key_pem(self._ca_key))},
                "install": {"disk": "/dev/sda"},
            },
            "cluster": {
                "clusterName": self.name,
                "controlPlane": {"endpoint": f"https://{self.name}.example:6443"},
                "token": self._token,
            },
        }
        name = {"apiVersion": "v1alpha1", "kind": "HostnameConfig", "hostname": hostname, "auto": "off"}
        return yaml.safe_dump_all([machine, name], sort_keys=False)

    def talosconfig(self) -> str:
        """Return a talosconfig with an administrator's certificate."""
        key = Ed25519PrivateKey.generate()
        certificate = _certificate(
            subject=x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "os:admin")]),
            key=key,
            issuer=self._ca,
            signing_key=self._ca_key,
            lifetime=timedelta(days=365),
        )
        context = {
            "endpoints": [],
            "ca": _base64(_pem(self._ca)),
            "crt": _base64(_pem(certificate)),
            "key": _base64(_key_pem(key)),
        }
        return yaml.safe_dump({"context": self.name, "contexts": {self.name: context}}, sort_keys=False)


def _certificate(
    *,
    subject: x509.Name,
    key: Ed25519PrivateKey,
    issuer: x509.Certificate | None,
    signing_key: Ed25519PrivateKey,
    lifetime: timedelta,
) -> x509.Certificate:
    """A CA when there is no issuer, else a client certificate with exactly `clientAuth`, as Talos demands."""
    now = datetime.now(UTC)
    is_ca = issuer is None
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if is_ca:
        usages.insert(0, ExtendedKeyUsageOID.SERVER_AUTH)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + lifetime)
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                key_cert_sign=is_ca,
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
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if issuer is not None:
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key())
        builder = builder.add_extension(authority, critical=False)
    return builder.sign(signing_key, None)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: Ed25519PrivateKey) -> bytes:
    """PKCS#8 under the label that Talos writes and OpenSSL does not know."""
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return pem.replace(b" PRIVATE KEY", b" ED25519 PRIVATE KEY")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
