"""What the real API server makes of a machine that somebody wrote wrongly: the message names the field."""

from __future__ import annotations

from typing import Any

import pytest

from libs.endpoint import InvalidEndpointError, parse_endpoint
from tests.peers.cluster import DEPLOY
from tests.peers.kube_api import MACHINES, KubeApi
from tests.peers.tools import Tool

COLLECTION = f"/{MACHINES}/namespaces/nodetrail/talosmachines"
PIN = "q" * 43 + "="
SECRET = {"name": "worker", "key": "config"}
IDENTITY = {"uuid": "11111111-2222-3333-4444-555555555555", "macAddresses": ["52:54:00:12:34:56"]}

GOOD_ENDPOINTS = [
    "10.0.0.1",
    "10.0.0.1:50000",
    "10.0.0.1:1",
    "10.0.0.1:65535",
    "2001:db8::1",
    "[2001:db8::1]",
    "[2001:db8::1]:50000",
    "fe80::1",
    "node-1",
    "node-1.example.com",
    "node-1.example.com.",
    "Node_1.Example.COM:443",
    "1node.example",
    "a" * 63 + ".example",
    "10.0.0.example",
]
BAD_ENDPOINTS = [
    "",
    ":50000",
    "10.0.0.256",
    "10.0.0",
    "10.0.0.01",
    "10.0.0.1:",
    "10.0.0.1:0",
    "10.0.0.1:65536",
    "10.0.0.1:123456",
    "10.0.0.1:-1",
    "10.0.0.1:http",
    "10.0.0.1:50000:1",
    "[10.0.0.1]:50000",
    "[2001:db8::1",
    "[2001:db8::1]50000",
    "[2001:db8::1]:0",
    "[2001:db8::1]:",
    "[]:50000",
    "2001:db8::1::2",
    "fe80::1%eth0",
    "-node.example",
    "node-.example",
    "node..example",
    "node.example.42",
    "a" * 64 + ".example",
    ".".join(["a" * 60] * 5),
    "https://10.0.0.1",
    "10.0.0.1/24",
    "node example",
]


def refusal(api: KubeApi, spec: dict[str, Any]) -> str:
    """Create a machine tentatively and return why it is refused, or nothing."""
    status, answer = api.admin.ask(
        "POST", f"{COLLECTION}?dryRun=All&fieldValidation=Strict", machine(spec, "tentative")
    )
    assert status in {201, 422}, answer
    return "" if status == 201 else str(answer["message"])


def machine(spec: dict[str, Any], name: str = "box-1") -> dict[str, Any]:
    return {
        "apiVersion": "nodetrail.dev/v1alpha1",
        "kind": "TalosMachine",
        "metadata": {"name": name},
        "spec": spec,
    }


def parses(text: str) -> bool:
    try:
        parse_endpoint(text)
    except InvalidEndpointError:
        return False
    return True


@pytest.mark.parametrize("endpoint", GOOD_ENDPOINTS)
def test_accepts_what_can_be_dialled(kube_apiserver: KubeApi, endpoint: str) -> None:
    assert parses(endpoint)
    assert refusal(kube_apiserver, {"endpoint": endpoint}) == ""


@pytest.mark.parametrize("endpoint", BAD_ENDPOINTS)
def test_refuses_what_cannot_be_dialled(kube_apiserver: KubeApi, endpoint: str) -> None:
    assert not parses(endpoint)
    assert "spec.endpoint" in refusal(kube_apiserver, {"endpoint": endpoint})


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(
            {"identity": {"uuid": "Not Present", "serialNumber": "To be filled by O.E.M."}}, id="odd firmware"
        ),
        pytest.param({"identity": {"uuid": "F" * 64}}, id="longest uuid"),
        pytest.param({"identity": {"macAddresses": ["52-54-00-AB-CD-EF"]}}, id="mac with dashes"),
        pytest.param({"identity": {"macAddresses": [":".join(["a0"] * 20)]}}, id="InfiniBand"),
        pytest.param({"hostname": "node-1.example.com"}, id="full hostname"),
        pytest.param({"hostname": "", "maintenanceFingerprint": ""}, id="empty is absent"),
        pytest.param({"approved": True, "maintenanceFingerprint": PIN}, id="pinned"),
        pytest.param({"configuration": {"secretRef": SECRET, "apply": "Auto", "enforce": True}}, id="configuration"),
        pytest.param({"talosconfig": {"secretRef": SECRET}, "operation": None}, id="talosconfig, null operation"),
        pytest.param({"operation": {"id": "2026-01-01_reboot.1", "action": "Reset"}}, id="operation"),
    ],
)
def test_accepts(kube_apiserver: KubeApi, fields: dict[str, Any]) -> None:
    assert refusal(kube_apiserver, {"endpoint": "10.0.0.1", **fields}) == ""


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"identity": {"uuid": "F" * 65}}, "spec.identity.uuid: Too long"),
        ({"identity": {"macAddresses": ["52:54:00:12:34"]}}, "spec.identity.macAddresses: write each as pairs"),
        ({"identity": {"macAddresses": ["52:54:00:12:34:5g"]}}, "spec.identity.macAddresses: write each as pairs"),
        ({"hostname": "Node 1"}, "spec.hostname must be the name of a Kubernetes Node"),
        ({"maintenanceFingerprint": "q" * 44}, "spec.maintenanceFingerprint must be the 44 characters"),
        ({"maintenanceFingerprint": PIN[1:]}, "spec.maintenanceFingerprint must be the 44 characters"),
        ({"configuration": {"apply": "Auto"}}, "spec.configuration.secretRef: Required"),
        ({"configuration": {"secretRef": SECRET, "apply": "Never"}}, "spec.configuration.apply: Unsupported value"),
        ({"configuration": {"secretRef": {"name": "a b", "key": "c"}}}, "secretRef.name must be the name of a Secret"),
        ({"talosconfig": {"secretRef": {"name": "a", "key": "c d"}}}, "secretRef.key must be a key of the Secret"),
        ({"operation": {"id": "", "action": "Reboot"}}, "spec.operation.id"),
        ({"operation": {"id": "-1", "action": "Reboot"}}, "spec.operation.id must be letters"),
        ({"operation": {"id": "1", "action": "Explode"}}, "spec.operation.action: Unsupported value"),
    ],
)
def test_refuses_and_names_the_field(kube_apiserver: KubeApi, fields: dict[str, Any], message: str) -> None:
    assert message in refusal(kube_apiserver, {"endpoint": "10.0.0.1", **fields})


class TestChanges:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            pytest.param(IDENTITY, {**IDENTITY, "uuid": "other"}, id="changed"),
            pytest.param(IDENTITY, {**IDENTITY, "serialNumber": "S1"}, id="signal added"),
            pytest.param(IDENTITY, {**IDENTITY, "macAddresses": None}, id="signal removed"),
            pytest.param(None, IDENTITY, id="added"),
            pytest.param(IDENTITY, None, id="removed"),
        ],
    )
    def test_identity_is_for_ever(
        self, clean_kube: KubeApi, before: dict[str, Any] | None, after: dict[str, Any] | None
    ) -> None:
        clean_kube.admin.must("POST", COLLECTION, machine({"endpoint": "10.0.0.1", "identity": before}))
        assert "spec.identity is set at creation" in self.patched(clean_kube, {"identity": after})

    def test_everything_else_may_change(self, clean_kube: KubeApi) -> None:
        clean_kube.admin.must("POST", COLLECTION, machine({"endpoint": "10.0.0.1", "identity": IDENTITY}))
        spec = {"endpoint": "10.0.0.2", "approved": True, "maintenanceFingerprint": PIN, "identity": IDENTITY}
        assert self.patched(clean_kube, spec) == ""

    def test_another_action_needs_another_id(self, clean_kube: KubeApi) -> None:
        spec = {"endpoint": "10.0.0.1", "operation": {"id": "1", "action": "Reboot"}}
        clean_kube.admin.must("POST", COLLECTION, machine(spec))
        assert "needs a new spec.operation.id" in self.patched(clean_kube, {"operation": {"action": "Reset"}})
        assert self.patched(clean_kube, {"operation": {"id": "2", "action": "Reset"}}) == ""
        assert self.patched(clean_kube, {"operation": None}) == ""

    @staticmethod
    def patched(api: KubeApi, spec: dict[str, Any]) -> str:
        status, answer = api.admin.ask("PATCH", f"{COLLECTION}/box-1", {"spec": spec}, "application/merge-patch+json")
        assert status in {200, 422}, answer
        return "" if status == 200 else str(answer["message"])


def test_a_person_reads_endpoint_and_readiness_at_a_glance(clean_kube: KubeApi, kubectl: Tool) -> None:
    clean_kube.admin.must("POST", COLLECTION, machine({"endpoint": "10.0.0.1"}))
    status = {
        "nodeName": "node-1",
        "conditions": [{"type": "Ready", "status": "False", "reason": "AwaitingApproval", "message": ""}],
    }
    clean_kube.admin.must("PATCH", f"{COLLECTION}/box-1/status", {"status": status}, "application/merge-patch+json")
    header, line = kubectl("get", "tm", "-n", "nodetrail").splitlines()
    assert header.split() == ["NAME", "ENDPOINT", "OBSERVED", "READY", "REASON", "NODE", "AGE"]
    assert line.split()[:5] == ["box-1", "10.0.0.1", "False", "AwaitingApproval", "node-1"]
    assert "box-1" in kubectl("get", "nodetrail", "-n", "nodetrail")


def test_applying_again_changes_nothing(kube_apiserver: KubeApi, kubectl: Tool) -> None:
    for folder in ("crds", "accounts"):
        answers = kubectl("apply", "-k", DEPLOY / folder).splitlines()
        assert [line for line in answers if not line.endswith("unchanged")] == []
