"""Fingerprints are what talosctl prints."""

from __future__ import annotations

import base64
import hashlib

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from libs import talos
from libs.talos.leaf import same_fingerprint
from tests.libs.talos import pki

PUBLIC_KEY = (
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEfRrObuSW5T7q5CnSEqefEmtH4CCv6+5EckuriNr1CjfVvqzwfAhopXkLrq45EQm8vkmf7W96"
    "XJhC7ZM0dYi1/g=="
)
"""The key in the certificate for which Talos's own test expects the fingerprint below."""
FINGERPRINT = "pnduMqbUZ/sQyDW1o4kP6c1u1PoB2gRQu8KEV38guAM="


def test_the_fingerprint_is_that_of_talos_own_test() -> None:
    key = serialization.load_der_public_key(base64.b64decode(PUBLIC_KEY))
    assert isinstance(key, ec.EllipticCurvePublicKey)
    by = pki.authority("ec")
    template = pki.issue(by).certificate
    builder = x509.CertificateBuilder(
        template.issuer,
        template.subject,
        key,
        template.serial_number,
        template.not_valid_before_utc,
        template.not_valid_after_utc,
    )
    certificate = builder.sign(by.key, hashes.SHA256())
    assert talos.fingerprint(certificate.public_bytes(Encoding.DER)) == FINGERPRINT


@pytest.mark.parametrize("kind", ["ed25519", "ec", "rsa"])
def test_the_fingerprint_is_of_the_key_and_not_of_the_certificate(kind: str) -> None:
    by = pki.authority()
    key = pki.make_key(kind)
    one, other = (pki.issue(by, name, key=key) for name in ("a", "b"))
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    expected = base64.b64encode(hashlib.sha256(public).digest()).decode()
    assert talos.fingerprint(one.der) == talos.fingerprint(other.der) == expected


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (FINGERPRINT, FINGERPRINT, True),
        (FINGERPRINT, f" {FINGERPRINT}\n", True),
        (FINGERPRINT, FINGERPRINT.lower(), False),
        (FINGERPRINT, FINGERPRINT[:-1], False),
        (FINGERPRINT, "", False),
        (FINGERPRINT, "not base64", False),
    ],
)
def test_fingerprints_are_compared_by_their_bytes(one: str, other: str, same: bool) -> None:
    assert same_fingerprint(one, other) is same


def test_a_long_name_is_cut() -> None:
    from libs.talos.leaf import read_leaf

    assert read_leaf(pki.issue(pki.authority(), "x" * 60).der).common_name == "x" * 60


def test_garbage_is_no_certificate() -> None:
    with pytest.raises(ValueError, match="certificate"):
        talos.fingerprint(b"\x30\x03garbage")
