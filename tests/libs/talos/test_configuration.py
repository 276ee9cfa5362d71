"""Machine configurations: which text may be sent, and which texts say the same."""

from __future__ import annotations

import hashlib
from contextlib import suppress

import pytest

from libs import talos

GOOD = b"""\
# a comment
version: v1alpha1
debug: false
machine:
  type: worker
  token: hunter2
---
apiVersion: v1alpha1
kind: HostnameConfig
hostname: node-1
"""


@pytest.mark.parametrize(
    "data",
    [
        GOOD,
        GOOD.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + GOOD,
        b"---\n" + GOOD,
        GOOD + b"---\n",
        b"version: v1alpha1\nmachine: {}\n",
    ],
)
def test_a_configuration_with_its_main_document_may_be_sent(data: bytes) -> None:
    talos.check_configuration(data)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(b"", "empty", id="empty"),
        pytest.param(b"---\n# hunter2\n", "empty", id="comments"),
        pytest.param(b"hunter2", "document 1 .* not a mapping", id="text"),
        pytest.param(GOOD + b"---\n- hunter2\n", "document 3 .* not a mapping", id="list"),
        pytest.param(b"machine: {}\n", "neither `version` nor `apiVersion`", id="no version"),
        pytest.param(b"version: v1beta1\nmachine: {}\n", "not v1alpha1", id="other version"),
        pytest.param(b"version: v1alpha1\n", "`machine`", id="no machine"),
        pytest.param(b"version: v1alpha1\nmachine: hunter2\n", "`machine`", id="no machine mapping"),
        pytest.param(b"apiVersion: v1alpha1\nkind: HostnameConfig\n", "0 documents", id="partial"),
        pytest.param(GOOD + b"---\n" + GOOD, "2 documents", id="twice"),
        pytest.param(b"apiVersion: v1\nkind: Secret\n", "0 documents", id="something else"),
        pytest.param(GOOD + b"\ta: {", "line", id="no YAML"),
        pytest.param(GOOD + b"---\na: &x hunter2\nb: *x\n", "alias", id="alias"),
        pytest.param(GOOD + b"#" * 1024 * 1024, "bytes", id="too long"),
        pytest.param(b"\x00\xff", "YAML", id="binary"),
    ],
)
def test_anything_else_may_not_and_is_not_quoted(data: bytes, text: str) -> None:
    with pytest.raises(talos.InvalidConfiguration, match=text) as caught:
        talos.check_configuration(data)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_the_hash_is_of_the_bytes() -> None:
    assert talos.configuration_hash(GOOD) == hashlib.sha256(GOOD).hexdigest()


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(GOOD, id="itself"),
        pytest.param(GOOD.replace(b"# a comment\n", b""), id="comment"),
        pytest.param(GOOD.replace(b"\n", b"\r\n"), id="line ends"),
        pytest.param(GOOD.replace(b"debug: false", b"debug: no"), id="spelling"),
        pytest.param(b"---\n".join(reversed(GOOD.split(b"---\n"))), id="order of documents"),
        pytest.param(
            GOOD.replace(b"  type: worker\n  token: hunter2\n", b"  token: 'hunter2'\n  type: worker\n"),
            id="order of keys",
        ),
    ],
)
def test_the_same_in_other_words(other: bytes) -> None:
    assert talos.same_configuration(GOOD, other)
    assert talos.same_configuration(other, GOOD)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(GOOD.replace(b"hunter2", b"hunter3"), id="value"),
        pytest.param(GOOD.replace(b"debug: false", b"debug: 0"), id="type"),
        pytest.param(GOOD.replace(b"debug: false\n", b""), id="key"),
        pytest.param(GOOD.split(b"---\n")[0], id="document"),
        pytest.param(GOOD.replace(b"kind: HostnameConfig", b"kind: HostnameConfig\nname: x"), id="name"),
        pytest.param(GOOD + b"---\napiVersion: v1alpha1\nkind: HostnameConfig\nhostname: node-1\n", id="twice"),
        pytest.param(b"", id="nothing"),
        pytest.param(GOOD + b"---\n[", id="no YAML"),
    ],
)
def test_not_the_same(other: bytes) -> None:
    assert not talos.same_configuration(GOOD, other)
    assert not talos.same_configuration(other, GOOD)


@pytest.mark.parametrize("tag", ["bool", "int", "float", "timestamp", "binary", "set", "omap", "null", "unknown"])
def test_a_value_that_does_not_fit_its_own_tag_raises_nothing_that_quotes_it(tag: str) -> None:
    data = f"version: v1alpha1\nmachine:\n  type: worker\n  token: !!{tag} hunter2\n".encode()
    with suppress(talos.InvalidConfiguration):  # anything else would carry the value into a log
        talos.check_configuration(data)


@pytest.mark.parametrize("key", ["apiVersion", "kind", "name"])
def test_a_document_named_by_something_else_than_text_equals_no_other(key: str) -> None:
    odd = f"---\napiVersion: v1alpha1\nkind: X\nname: a\n{key}: 0x{'f' * 5000}\n".encode()
    assert not talos.same_configuration(GOOD, GOOD + odd)


def test_what_cannot_be_read_equals_itself() -> None:
    assert talos.same_configuration(b"[", b"[")
    assert not talos.same_configuration(b"[", b"[ ")


def test_the_order_of_a_list_matters() -> None:
    one = b"version: v1alpha1\nmachine: {a: [1, 2]}\n"
    assert not talos.same_configuration(one, one.replace(b"1, 2", b"2, 1"))
