"""What a node takes as a machine configuration, and what it refuses without quoting it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from services.simulator.configuration import InvalidConfigurationError, parse
from tests.services.simulator.sites import Cluster, encoded

CLUSTER = Cluster()


def test_a_control_plane_brings_its_authority_and_names() -> None:
    data = CLUSTER.configuration(hostname="cp-1", certSANs=["10.1.1.1", "cp.example"])

    found = parse(data)

    assert (found.kind, found.hostname, found.is_complete) == ("controlplane", "cp-1", True)
    assert found.authority is not None
    assert (found.san_addresses, found.san_names) == (("10.1.1.1",), ("cp.example",))
    assert found.data == data


def test_a_worker_brings_no_key_and_several_accepted_authorities() -> None:
    other = Cluster()
    accepted = [{"crt": encoded(other.authority.certificate_pem)}]

    found = parse(CLUSTER.configuration("worker", acceptedCAs=accepted, network={"hostname": "w-1"}))

    assert (found.kind, found.hostname, found.authority) == ("worker", "w-1", None)
    assert found.accepted_pem == (CLUSTER.authority.certificate_pem, other.authority.certificate_pem)


def test_documents_without_the_main_one_are_not_complete() -> None:
    assert not parse(b"apiVersion: v1alpha1\nkind: SideroLinkConfig\n").is_complete


def test_what_talosctl_generates_is_complete() -> None:
    """Comments, nulls and documents of other kinds are part of it."""
    text = CLUSTER.configuration().decode() + "---\napiVersion: v1alpha1\nkind: HostnameConfig # a name\nauto: stable\n"
    assert parse(text.encode()).is_complete


def changed(**parts: Any) -> bytes:
    document: dict[str, Any] = yaml.safe_load(CLUSTER.configuration())
    for path, value in parts.items():
        *above, last = path.split("__")
        parent = document
        for key in above:
            parent = parent[key]
        parent[last] = value
    return yaml.safe_dump(document).encode()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        pytest.param(b"{", "not YAML", id="no yaml"),
        pytest.param(b"\xff\xfe\x00", "not YAML", id="no text"),
        pytest.param(b"", "no documents", id="empty"),
        pytest.param(b"- a\n", "no mappings", id="list"),
        pytest.param(changed(machine__type="toaster"), "machine.type", id="type"),
        pytest.param(changed(machine__ca={}), "machine.ca.crt", id="no authority"),
        pytest.param(changed(machine__ca__key=""), "machine.ca.key", id="no key"),
        pytest.param(changed(machine__ca__key=encoded(Cluster().authority.key_pem)), "belong", id="other key"),
        pytest.param(changed(machine__ca__crt=encoded(b"-----BEGIN CERTIFICATE-----")), "not PEM", id="broken pem"),
        pytest.param(changed(machine__acceptedCAs="x"), "acceptedCAs must be a list", id="accepted"),
        pytest.param(changed(cluster={"controlPlane": {}}), "endpoint is required", id="no endpoint"),
        pytest.param(changed(machine__network={"hostname": "a" * 64}), "too long", id="long name"),
    ],
)
def test_what_is_wrong_is_named_and_never_quoted(data: bytes, said: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=said) as refused:
        parse(data)
    assert "abcdef.0123456789abcdef" not in str(refused.value)
    assert "PRIVATE KEY" not in str(refused.value)


def test_its_repr_shows_no_secret() -> None:
    assert "abcdef" not in repr(parse(CLUSTER.configuration()))
