"""talosconfigs: what is wrong is named by its field, and never quoted."""

from __future__ import annotations

import base64
import ssl
import subprocess
import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from libs import talos
from tests.libs.talos import pki
from tests.libs.talos.fake_node import open_files
from tests.peers.build import Peers

CLUSTER = pki.authority()
OURS = pki.client(CLUSTER)
GOOD = pki.talosconfig(CLUSTER.pem, OURS)


def encoded(text: bytes) -> str:
    return base64.b64encode(text).decode()


def test_what_talosctl_writes_is_read(peers: Peers, tmp_path: Path) -> None:
    subprocess.run(
        [peers.talosctl, "gen", "config", "test", "https://10.0.0.1:6443", "-o", tmp_path], check=True, timeout=60
    )
    credentials = talos.parse_talosconfig((tmp_path / "talosconfig").read_bytes())
    assert not credentials.expired()
    assert credentials.context.verify_mode is ssl.CERT_REQUIRED
    for name in ("controlplane.yaml", "worker.yaml"):
        talos.check_configuration((tmp_path / name).read_bytes())


@pytest.mark.parametrize("kind", ["ed25519", "ec", "rsa"])
def test_every_kind_of_key_is_read_also_in_its_traditional_form(kind: str) -> None:
    ours = pki.client(CLUSTER, kind=kind)
    talos.parse_talosconfig(pki.talosconfig(CLUSTER.pem, ours))
    if kind != "ed25519":
        traditional = ours.key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        talos.parse_talosconfig(pki.talosconfig(CLUSTER.pem, ours, key=encoded(traditional)))


def test_base64_may_be_folded_over_lines() -> None:
    text = encoded(OURS.pem)
    folded = "\n".join(text[start : start + 76] for start in range(0, len(text), 76))
    talos.parse_talosconfig(pki.talosconfig(CLUSTER.pem, OURS, crt=folded))


@pytest.mark.parametrize(
    ("data", "names"),
    [
        pytest.param(b"", "mapping", id="empty"),
        pytest.param(b"- a\n", "mapping", id="list"),
        pytest.param(b"a: ]", "line 1", id="no YAML"),
        pytest.param(b"\xff\xfe\x00", "YAML", id="binary"),
        pytest.param(b"contexts: {}\n", "`context`", id="no context"),
        pytest.param(b"context: a\n", "`contexts`", id="no contexts"),
        pytest.param(b"context: a\ncontexts: {b: {}}\n", "`contexts`", id="not that context"),
        pytest.param(b"context: a\ncontexts: {a: {}}\n", "`ca`", id="nothing in it"),
        pytest.param(GOOD + b"#" * 1024 * 1024, "bytes", id="too long"),
        pytest.param(b"a: &a [x]\nb: *a\n", "alias in line 2", id="alias"),
        pytest.param(b"[" * 200 + b"]" * 200, "deep", id="deep"),
        pytest.param(b"[" * 100_000, "YAML", id="deeper"),
        pytest.param(b"- a\n" * 60_000, "more keys", id="long list"),
        pytest.param(b"a: " + b"1:" * 200_000 + b"1", "number", id="number in sixties"),
        pytest.param(b"a: 2024-99-99", "YAML", id="no date"),
        pytest.param(b"a: !!python/object/apply:os.getcwd []", "YAML", id="code"),
    ],
)
def test_text_that_is_no_talosconfig(data: bytes, names: str) -> None:
    with pytest.raises(talos.InvalidCredentials, match=names):
        talos.parse_talosconfig(data)


@pytest.mark.parametrize("field", ["ca", "crt", "key"])
@pytest.mark.parametrize("value", [None, "", "hunter2!", encoded(b"hunter2"), encoded(CLUSTER.pem[:200])])
def test_a_missing_or_broken_field_is_named_and_not_quoted(field: str, value: str | None) -> None:
    with pytest.raises(talos.InvalidCredentials) as caught:
        talos.parse_talosconfig(pki.talosconfig(CLUSTER.pem, OURS, **{field: value}))
    text = str(caught.value)
    assert f"`{field}`" in text
    assert "hunter2" not in text
    assert value is None or len(value) < 8 or value not in text
    assert caught.value.__cause__ is None  # a cause would be printed along


def test_the_key_must_be_that_of_the_certificate() -> None:
    other = pki.client(CLUSTER)
    with pytest.raises(talos.InvalidCredentials, match="`key`"):
        talos.parse_talosconfig(pki.talosconfig(CLUSTER.pem, OURS, key=encoded(other.key_pem)))


def test_an_encrypted_key_does_not_ask_on_the_terminal() -> None:
    locked = OURS.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    with pytest.raises(talos.InvalidCredentials, match="unencrypted"):
        talos.parse_talosconfig(pki.talosconfig(CLUSTER.pem, OURS, key=encoded(locked)))


def test_nothing_of_the_key_is_kept_or_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = open_files()
    credentials = talos.parse_talosconfig(GOOD)
    assert open_files() == before
    assert list(tmp_path.iterdir()) == []
    assert "PRIVATE" not in repr(vars(credentials))


@pytest.mark.parametrize(("lifetime", "expired"), [(timedelta(hours=1), False), (timedelta(seconds=-1), True)])
def test_our_own_certificate_expires(lifetime: timedelta, expired: bool) -> None:
    ours = pki.client(CLUSTER, lifetime=lifetime)
    assert talos.parse_talosconfig(pki.talosconfig(CLUSTER.pem, ours)).expired() is expired
