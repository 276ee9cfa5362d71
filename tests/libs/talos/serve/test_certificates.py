"""Certificates have the shape that Talos's have."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from libs import talos
from libs.talos import serve


def read(leaf: serve.Leaf) -> x509.Certificate:
    return x509.load_pem_x509_certificate(leaf.certificate_pem)


def der(leaf: serve.Leaf) -> bytes:
    return read(leaf).public_bytes(serialization.Encoding.DER)


def test_a_maintenance_leaf_has_the_fixed_name_and_an_empty_issuer() -> None:
    authority = serve.Authority.for_maintenance()
    leaf = authority.issue_server(serve.MAINTENANCE_NAME, addresses=["10.0.0.1", "fd00::1"], names=["box"])

    certificate = read(leaf)
    assert certificate.subject.rfc4514_string() == "CN=maintenance-service.talos.dev"
    assert certificate.issuer.rfc4514_string() == ""
    assert isinstance(certificate.public_key(), ed25519.Ed25519PublicKey)
    san = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(ip) for ip in san.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "fd00::1", "127.0.0.1", "::1"]
    assert san.get_values_for_type(x509.DNSName) == ["box"]
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert certificate.not_valid_after_utc - certificate.not_valid_before_utc == timedelta(hours=24)
    certificate.verify_directly_issued_by(authority.certificate)


def test_every_leaf_has_a_key_of_its_own_and_its_fingerprint_is_the_clients() -> None:
    authority = serve.Authority.for_maintenance()
    one, two = (authority.issue_server("node", addresses=["10.0.0.1"]) for _ in range(2))
    assert one.fingerprint != two.fingerprint
    assert one.fingerprint == talos.fingerprint(der(one))
    assert one.fingerprint == base64.b64encode(hashlib.sha256(serve.spki(read(one))).digest()).decode()


def test_a_client_certificate_carries_roles_and_nothing_else() -> None:
    certificate = read(serve.Authority.for_cluster().issue_client(["os:reader", "os:operator"]))
    assert sorted(certificate.subject.rfc4514_string().split(",")) == ["O=os:operator", "O=os:reader"]
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_an_expired_certificate_can_be_had() -> None:
    certificate = read(serve.Authority.for_cluster().issue_client(["os:admin"], lifetime=timedelta(hours=-1)))
    assert certificate.not_valid_before_utc < certificate.not_valid_after_utc < datetime.now(UTC)


def test_the_nodes_clock_dates_its_leaf() -> None:
    then = datetime(2020, 1, 1, tzinfo=UTC)
    leaf = serve.Authority.for_maintenance().issue_server("node", addresses=[], now=then)
    assert read(leaf).not_valid_after_utc == then + timedelta(hours=24)


def test_an_authority_survives_the_way_through_a_configuration() -> None:
    authority = serve.Authority.for_cluster()
    assert b"BEGIN ED25519 PRIVATE KEY" in authority.key_pem
    again = serve.Authority.from_pem(authority.certificate_pem, authority.key_pem)
    read(again.issue_server("node", addresses=[])).verify_directly_issued_by(authority.certificate)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (rsa.generate_private_key(65537, 2048), rsa.RSAPublicKey),
        (ec.generate_private_key(ec.SECP256R1()), ec.EllipticCurvePublicKey),
    ],
)
def test_leaves_follow_the_kind_of_their_authority(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, kind: type[object]
) -> None:
    name = x509.Name([])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2040, 1, 1, tzinfo=UTC))
        .sign(key, hashes.SHA256())
    )
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    authority = serve.Authority.from_pem(certificate.public_bytes(serialization.Encoding.PEM), text)
    leaf = read(authority.issue_server("node", addresses=[]))
    assert isinstance(leaf.public_key(), kind)
    leaf.verify_directly_issued_by(certificate)


def test_an_authority_that_cannot_sign_is_refused_without_being_quoted() -> None:
    one, other = serve.Authority.for_cluster(), serve.Authority.for_cluster()
    for certificate, key, said in (
        (b"nonsense", one.key_pem, "certificate is not PEM"),
        (one.certificate_pem, b"nonsense", "key is not an unencrypted PEM"),
        (one.certificate_pem, other.key_pem, "does not belong"),
    ):
        with pytest.raises(serve.UnusableAuthorityError, match=said) as refused:
            serve.Authority.from_pem(certificate, key)
        assert "nonsense" not in str(refused.value)
