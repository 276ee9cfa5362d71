"""The built-in kinds that nodetrail uses: Nodes, Secrets, Events, Leases, Namespaces."""

from __future__ import annotations

import base64
import uuid
from collections.abc import AsyncIterator

import pytest

from tests.contracts.kube_api.client import APPLY, JSON, MERGE, STRATEGIC, Client, Item, Machines

NODES = "api/v1/nodes"


@pytest.fixture
async def node(api: Client) -> AsyncIterator[str]:
    """A bare Node of the test's own, as a kubelet registers it; yields its path."""
    name = f"node-{uuid.uuid4().hex[:8]}"
    await api.must("POST", NODES, {"metadata": {"name": name}}, account="kubelet")
    yield f"{NODES}/{name}"
    await api.ask("DELETE", f"{NODES}/{name}")


def addresses(*pairs: tuple[str, str]) -> Item:
    return {"status": {"addresses": [{"type": kind, "address": address} for kind, address in pairs]}}


async def test_a_node_tells_its_addresses_and_uuid_in_status(api: Client, node: str) -> None:
    change = addresses(("InternalIP", "192.0.2.1")) | {}
    change["status"]["nodeInfo"] = {"systemUUID": "4c4c4544-0000-1010-8000-000000000001"}
    answer = await api.must("PATCH", f"{node}/status", change, STRATEGIC, account="kubelet")
    assert answer.body["status"]["addresses"] == change["status"]["addresses"]
    assert answer.body["status"]["nodeInfo"]["systemUUID"] == change["status"]["nodeInfo"]["systemUUID"]


async def test_strategic_merge_knows_addresses_and_conditions_by_type(api: Client, node: str) -> None:
    ready = {"type": "Ready", "status": "True"}
    change = addresses(("InternalIP", "192.0.2.1"), ("Hostname", "h"))
    change["status"]["conditions"] = [ready]
    await api.must("PATCH", f"{node}/status", change, STRATEGIC)
    moved = addresses(("InternalIP", "192.0.2.2"))
    moved["status"]["conditions"] = [{"type": "DiskPressure", "status": "False"}]
    status = (await api.must("PATCH", f"{node}/status", moved, STRATEGIC)).body["status"]
    found = {(address["type"], address["address"]) for address in status["addresses"]}
    assert found == {("InternalIP", "192.0.2.2"), ("Hostname", "h")}
    assert {(c["type"], c["status"]) for c in status["conditions"]} == {("Ready", "True"), ("DiskPressure", "False")}
    gone = {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}
    status = (await api.must("PATCH", f"{node}/status", gone, STRATEGIC)).body["status"]
    assert [c["type"] for c in status["conditions"]] == ["DiskPressure"]


async def test_merge_patch_replaces_a_nodes_lists(api: Client, node: str) -> None:
    await api.must("PATCH", f"{node}/status", addresses(("InternalIP", "192.0.2.1"), ("Hostname", "h")), MERGE)
    answer = await api.must("PATCH", f"{node}/status", addresses(("InternalIP", "192.0.2.2")), MERGE)
    assert answer.body["status"]["addresses"] == [{"type": "InternalIP", "address": "192.0.2.2"}]


async def test_several_internal_addresses_are_kept_in_order(api: Client, node: str) -> None:
    change = addresses(("InternalIP", "192.0.2.2"), ("InternalIP", "2001:db8::1"), ("ExternalIP", "203.0.113.1"))
    answer = await api.must("PATCH", f"{node}/status", change, MERGE)
    assert answer.body["status"]["addresses"] == change["status"]["addresses"]


async def test_a_nodes_status_and_spec_keep_apart(api: Client, node: str) -> None:
    await api.must("PATCH", f"{node}/status", addresses(("InternalIP", "192.0.2.1")), MERGE)
    await api.must("PATCH", node, {"spec": {"unschedulable": True}, **addresses(("InternalIP", "192.0.2.9"))}, MERGE)
    found = (await api.must("GET", node)).body
    assert found["spec"]["unschedulable"] is True
    assert found["status"]["addresses"] == [{"type": "InternalIP", "address": "192.0.2.1"}]
    labelled = await api.must(
        "PATCH", f"{node}/status", {"metadata": {"labels": {"a": "b"}}, "spec": {"unschedulable": False}}, MERGE
    )
    assert labelled.body["metadata"]["labels"]["a"] == "b", "a built-in kind's status resource takes labels"
    assert labelled.body["spec"]["unschedulable"] is True


async def test_a_node_can_be_registered_with_its_status(api: Client) -> None:
    name = f"node-{uuid.uuid4().hex[:8]}"
    body = {"metadata": {"name": name, "labels": {"x": "y"}}, **addresses(("InternalIP", "192.0.2.1"))}
    made = await api.must("POST", NODES, body, account="kubelet")
    assert made.body["status"]["addresses"] == [{"type": "InternalIP", "address": "192.0.2.1"}]
    await api.must("DELETE", f"{NODES}/{name}")


async def test_a_heartbeat_that_says_nothing_new_is_no_event(api: Client, node: str) -> None:
    change = addresses(("InternalIP", "192.0.2.1"))
    first = await api.must("PATCH", f"{node}/status", change, STRATEGIC)
    assert (await api.must("PATCH", f"{node}/status", change, STRATEGIC)).version == first.version


async def test_conditions_of_a_node_can_be_applied(api: Client, node: str) -> None:
    name = node.rpartition("/")[2]
    config = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "r"}]},
    }
    answer = await api.must("PATCH", f"{node}/status", config, APPLY, fieldManager="k")
    entry = answer.entry("k", "status")
    assert entry is not None
    assert 'k:{"type":"Ready"}' in entry["fieldsV1"]["f:status"]["f:conditions"]


async def test_a_put_of_a_node_needs_no_version(api: Client, node: str) -> None:
    live = (await api.must("GET", node)).body
    body = {"metadata": {"name": live["metadata"]["name"], "labels": {"put": "yes"}}}
    answer = await api.must("PUT", node, body)
    assert answer.body["metadata"]["labels"]["put"] == "yes"
    assert answer.body["metadata"]["uid"] == live["metadata"]["uid"]


async def test_secrets_hold_base64_and_take_text(machines: Machines) -> None:
    path = f"api/v1/namespaces/{machines.namespace}/secrets"
    body: Item = {
        "metadata": {"name": "s"},
        "data": {"a": base64.b64encode(b"\0\xff").decode()},
        "stringData": {"b": "text"},
    }
    made = (await machines.api.must("POST", path, body)).body
    assert made["type"] == "Opaque"
    assert made["data"] == {"a": body["data"]["a"], "b": base64.b64encode(b"text").decode()}
    assert "stringData" not in made
    changed = await machines.api.must("PATCH", f"{path}/s", {"stringData": {"b": "new"}}, MERGE)
    assert base64.b64decode(changed.body["data"]["b"]) == b"new"
    wrong = await machines.api.ask("POST", path, {"metadata": {"name": "t"}, "data": {"a": "***"}})
    assert (wrong.code, wrong.reason) == (400, "BadRequest")
    read = await machines.api.ask("GET", f"{path}/s", account="machine-reconciler")
    assert read.code == 403, "only where the namespace has a binding"


async def test_events_are_created_counted_and_found(machines: Machines) -> None:
    made = await machines.create()
    path = f"api/v1/namespaces/{machines.namespace}/events"
    event = {
        "metadata": {"name": "a.1", "namespace": machines.namespace},
        "involvedObject": {
            "apiVersion": "nodetrail.dev/v1alpha1",
            "kind": "TalosMachine",
            "name": "a",
            "namespace": machines.namespace,
            "uid": made.body["metadata"]["uid"],
        },
        "type": "Normal",
        "reason": "Recorded",
        "message": "m",
        "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "source": {"component": "nodetrail-test"},
        "reportingComponent": "nodetrail-test",
    }
    await machines.api.must("POST", path, event, account="machine-reconciler")
    change = {"count": 2, "lastTimestamp": "2026-01-01T00:00:01Z"}
    answer = await machines.api.must("PATCH", f"{path}/a.1", change, MERGE, account="machine-reconciler")
    assert (answer.body["count"], answer.body["lastTimestamp"]) == (2, "2026-01-01T00:00:01Z")
    for selector, found in (
        ("involvedObject.name=a", 1),
        ("involvedObject.name=b", 0),
        ("reason=Recorded,type=Normal", 1),
    ):
        listed = await machines.api.must("GET", path, fieldSelector=selector)
        assert len(listed.body["items"]) == found, selector


async def test_a_lease_is_renewed_by_whoever_read_it_last(machines: Machines) -> None:
    path = f"apis/coordination.k8s.io/v1/namespaces/{machines.namespace}/leases"
    spec = {"holderIdentity": "one", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
    made = await machines.api.must("POST", path, {"metadata": {"name": "l"}, "spec": spec})
    renewed = {**made.body, "spec": {**spec, "renewTime": "2026-01-01T00:00:05.000000Z"}}
    answer = await machines.api.must("PUT", f"{path}/l", renewed)
    assert answer.body["spec"]["renewTime"] == "2026-01-01T00:00:05.000000Z"
    stale = await machines.api.ask("PUT", f"{path}/l", {**renewed, "spec": {**spec, "holderIdentity": "two"}})
    assert (stale.code, stale.reason) == (409, "Conflict")
    blind = await machines.api.ask("PUT", f"{path}/l", {"metadata": {"name": "l"}, "spec": spec})
    assert (blind.code, blind.reason) == (422, "Invalid")
    other = await machines.api.must("PUT", f"{path}/m", {"metadata": {"name": "m"}, "spec": spec})
    assert other.code == 201, "a PUT makes a Lease that is not there"
    await machines.api.must("DELETE", path)


async def test_namespaces_are_there_or_made(api: Client, machines: Machines) -> None:
    listed = (await api.must("GET", "api/v1/namespaces")).body["items"]
    names = {item["metadata"]["name"] for item in listed}
    assert {"default", "kube-system", "nodetrail", "nodetrail-system", machines.namespace} <= names
    made = next(item for item in listed if item["metadata"]["name"] == machines.namespace)
    assert made["status"]["phase"] == "Active"
    wrong = await api.ask("POST", "api/v1/namespaces", {"metadata": {"name": "a.b"}})
    assert (wrong.code, wrong.reason) == (422, "Invalid")


async def test_yaml_bodies(api: Client, machines: Machines) -> None:
    body = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c, namespace: {machines.namespace}}}\ndata: {{a: b}}\n"
    path = f"api/v1/namespaces/{machines.namespace}/configmaps"
    made = await api.must("POST", path, body.encode(), "application/yaml")
    assert made.body["data"] == {"a": "b"}
    refused = await api.ask("POST", path, body.encode(), "text/plain")
    assert (refused.code, refused.reason) == (415, "UnsupportedMediaType")
    await api.must("DELETE", f"{path}/c", media=JSON)
