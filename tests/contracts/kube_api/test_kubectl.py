"""kubectl as the operator's tool: what the README and the demo tell people to type."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.peers.build import Peers
from tests.peers.cluster import DEPLOY
from tests.peers.tools import Tool

MACHINE = {"apiVersion": "nodetrail.dev/v1alpha1", "kind": "TalosMachine", "metadata": {"name": "m"}}


@pytest.fixture
def kubectl_as(kubeconfigs: dict[str, Path], peers: Peers, tmp_path: Path) -> Callable[[str], Tool]:
    """Kubectl as an account. Over plain HTTP it sends no token of a kubeconfig, so there the URL holds it."""

    def made(account: str) -> Tool:
        config = yaml.safe_load(kubeconfigs[account].read_text())
        cluster = config["clusters"][0]["cluster"]
        token = config["users"][0]["user"]["token"]
        cluster["server"] = cluster["server"].replace("http://", f"http://kubectl:{token}@")
        path = tmp_path / f"{account}.yaml"
        path.write_text(yaml.safe_dump(config))
        return Tool(peers.kubectl, "--kubeconfig", path, home=tmp_path / "home")

    return made


@pytest.fixture
def kubectl(kubectl_as: Callable[[str], Tool]) -> Iterator[Tool]:
    """Kubectl as admin, with a namespace of the test's own as default."""
    admin = kubectl_as("admin")
    name = f"test-{uuid.uuid4().hex[:8]}"
    admin("create", "namespace", name)
    admin("config", "set-context", "--current", f"--namespace={name}")
    yield admin
    admin("delete", "tm,secrets", "--all")
    admin("delete", "namespace", name, "--wait=false")


def apply(kubectl: Tool, spec: dict[str, object], *options: str) -> str:
    return kubectl("apply", *options, "-f", "-", stdin=json.dumps({**MACHINE, "spec": spec}))


def test_our_manifests_apply_again_and_again(kubectl: Tool) -> None:
    for folder in ("crds", "accounts"):
        kubectl("apply", "-k", DEPLOY / folder)
        again = kubectl("apply", "-k", DEPLOY / folder).splitlines()
        assert all(line.endswith("unchanged") for line in again), again
    kubectl("wait", "--for=condition=Established", "crd/talosmachines.nodetrail.dev", "--timeout=10s")


def test_a_machine_is_applied_shown_and_explained(kubectl: Tool) -> None:
    assert "created" in apply(kubectl, {"endpoint": "192.0.2.1"})
    assert "unchanged" in apply(kubectl, {"endpoint": "192.0.2.1"})
    assert "configured" in apply(kubectl, {"endpoint": "192.0.2.2"})
    head, row = kubectl("get", "tm").splitlines()
    assert head.split() == ["NAME", "ENDPOINT", "OBSERVED", "READY", "REASON", "NODE", "AGE"]
    assert row.split()[:2] == ["m", "192.0.2.2"]
    described = kubectl("describe", "tm", "m")
    assert "Endpoint:  192.0.2.2" in described
    assert "Events:" in described
    assert "IP address or DNS name" in kubectl("explain", "talosmachine.spec.endpoint")
    assert kubectl("get", "tm", "m", "-o", "jsonpath={.spec.endpoint}") == "192.0.2.2"


def test_mistakes_are_told(kubectl: Tool) -> None:
    wrong = json.dumps({**MACHINE, "spec": {"endpoint": "192.0.2.1", "colour": "red"}})
    assert 'unknown field "spec.colour"' in kubectl.refused("apply", "-f", "-", stdin=wrong)
    wrong = json.dumps({**MACHINE, "spec": {"endpoint": "a b"}})
    assert "spec.endpoint must be an IP address or a DNS name" in kubectl.refused("apply", "-f", "-", stdin=wrong)
    assert 'talosmachines.nodetrail.dev "m" not found' in kubectl.refused("get", "tm", "m")


def test_a_machine_is_approved_and_its_status_is_not_ours_to_write(kubectl: Tool) -> None:
    apply(kubectl, {"endpoint": "192.0.2.1"}, "--server-side")
    kubectl("patch", "tm", "m", "--type=merge", "-p", '{"spec": {"approved": true}}')
    kubectl("patch", "tm", "m", "--type=json", "-p", '[{"op": "add", "path": "/spec/hostname", "value": "h"}]')
    kubectl("patch", "tm", "m", "--subresource=status", "--type=merge", "-p", '{"status": {"nodeName": "n"}}')
    change = '{"status": {"observedEndpoint": "192.0.2.9"}}'
    refused = kubectl.refused("patch", "tm", "m", "--subresource=status", "--type=merge", "-p", change)
    assert "status.observedEndpoint is written by the status writer only" in refused
    found = json.loads(kubectl("get", "tm", "m", "-o", "json"))
    assert (found["spec"]["approved"], found["spec"]["hostname"], found["status"]) == (True, "h", {"nodeName": "n"})
    other = kubectl.refused("apply", "--server-side", "--field-manager=other", "-f", "-",
                            stdin=json.dumps({**MACHINE, "spec": {"endpoint": "192.0.2.3"}}))  # fmt: skip
    assert 'conflict with "kubectl": .spec.endpoint' in other


def test_secrets_labels_and_waiting(kubectl: Tool) -> None:
    kubectl("create", "secret", "generic", "s", "--from-literal=config=version: v1alpha1")
    assert "config:  17 bytes" in kubectl("describe", "secret", "s")
    apply(kubectl, {"endpoint": "192.0.2.1"})
    kubectl("label", "tm", "m", "site=x")
    assert "talosmachine.nodetrail.dev/m" in kubectl("get", "tm", "-l", "site=x", "-o", "name")
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Converged"}]}}
    kubectl("patch", "tm", "m", "--subresource=status", "--type=merge", "-p", json.dumps(ready))
    kubectl("wait", "--for=condition=Ready", "tm/m", "--timeout=10s")
    kubectl("delete", "tm", "m")
    kubectl("wait", "--for=delete", "tm/m", "--timeout=10s")


def test_accounts_can_ask_who_they_are(kubectl_as: Callable[[str], Tool]) -> None:
    writer = kubectl_as("status-writer")
    assert "system:serviceaccount:nodetrail-system:status-writer" in writer("auth", "whoami")
    assert writer("auth", "can-i", "patch", "talosmachines", "--subresource=status").strip() == "yes"
    assert "Forbidden" in writer.refused("get", "secrets", "-A")
