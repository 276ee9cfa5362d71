"""Server-side apply, by which both writers of status write: owners, conflicts, removal, and when nothing happens."""

from __future__ import annotations

import pytest

from tests.contracts.kube_api.client import Item, Machines, next_second

READY: Item = {"type": "Ready", "status": "True", "reason": "R"}
OBSERVED = {"observedEndpoint": "192.0.2.9", "observedEndpointFor": "192.0.2.1"}
WRITER = "status-writer"


async def test_an_apply_creates_what_is_not_there(machines: Machines) -> None:
    made = await machines.apply({"spec": {"endpoint": "192.0.2.1"}}, labels={"site": "x"})
    assert made.code == 201
    assert made.body["metadata"]["managedFields"] == [
        {
            "manager": "alice",
            "operation": "Apply",
            "apiVersion": "nodetrail.dev/v1alpha1",
            "time": made.body["metadata"]["creationTimestamp"],
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:site": {}}}, "f:spec": {"f:endpoint": {}}},
        }
    ]
    assert (await machines.apply({"spec": {"endpoint": "192.0.2.1"}}, labels={"site": "x"})).code == 200


async def test_status_cannot_be_applied_to_nobody(machines: Machines) -> None:
    answer = await machines.apply({"status": {"nodeName": "n"}}, sub="/status")
    assert (answer.code, answer.reason) == (404, "NotFound")


async def test_a_manager_must_be_named(machines: Machines) -> None:
    answer = await machines.apply({"spec": {"endpoint": "192.0.2.1"}}, manager="")
    assert (answer.code, answer.causes[0]["field"]) == (422, "fieldManager")


async def test_managed_fields_cannot_be_applied(machines: Machines) -> None:
    answer = await machines.apply({"spec": {"endpoint": "192.0.2.1"}}, managedFields=[{}])
    assert (answer.code, answer.message) == (400, "metadata.managedFields must be nil")


async def test_unknown_fields_cannot_be_applied(machines: Machines) -> None:
    answer = await machines.apply({"spec": {"endpoint": "192.0.2.1", "colour": "red"}})
    assert answer.code == 500
    assert ".spec.colour: field not declared in schema" in answer.message


async def test_status_has_its_own_entry(machines: Machines) -> None:
    await machines.create()
    answer = await machines.apply({"status": {"nodeName": "n", "conditions": [READY]}}, sub="/status", force=True)
    entry = answer.entry("alice", "status")
    assert entry is not None
    assert entry["operation"] == "Apply"
    assert entry["fieldsV1"] == {
        "f:status": {
            "f:nodeName": {},
            "f:conditions": {'k:{"type":"Ready"}': {".": {}, "f:type": {}, "f:status": {}, "f:reason": {}}},
        }
    }
    spec = answer.entry("contract")
    assert spec is not None
    assert (spec["operation"], spec["fieldsV1"]) == ("Update", {"f:spec": {".": {}, "f:endpoint": {}}})


async def test_an_apply_that_changes_nothing_gets_no_version_and_no_time(machines: Machines) -> None:
    await machines.create()
    first = await machines.apply({"status": {"nodeName": "n"}}, sub="/status", force=True)
    entry = first.entry("alice", "status")
    assert entry is not None
    await next_second(entry["time"])
    again = await machines.apply({"status": {"nodeName": "n"}}, sub="/status", force=True)
    assert again.body == first.body


async def test_the_time_of_an_entry_moves_with_what_its_manager_changes(machines: Machines) -> None:
    """Rule 5 of the status writer lives by this: `time` of the manager that owns spec.endpoint."""
    made = await machines.create()
    first = made.entry("contract")
    assert first is not None
    await next_second(first["time"])
    status = await machines.status({"nodeName": "n"})
    unmoved = status.entry("contract")
    assert unmoved is not None
    assert unmoved["time"] == first["time"], "a status write has its own entry"
    same = await machines.merge({"spec": {"endpoint": "192.0.2.1"}})
    assert same.entry("contract") == unmoved, "a write of the same value is none"
    labelled = await machines.merge({"metadata": {"labels": {"a": "b"}}})
    moved = labelled.entry("contract")
    assert moved is not None
    assert moved["time"] > first["time"], "a label is enough"
    assert moved["fieldsV1"]["f:spec"] == {".": {}, "f:endpoint": {}}
    await next_second(moved["time"])
    other = await machines.merge({"metadata": {"labels": {"c": "d"}}}, fieldManager="other")
    assert other.entry("contract") == moved, "somebody else's label is not"


async def test_two_managers_keep_their_own_fields(machines: Machines) -> None:
    await machines.create()
    await machines.apply({"status": OBSERVED}, sub="/status", manager=WRITER, account="status-writer", force=True)
    await machines.apply({"status": {"nodeName": "n", "conditions": [READY]}}, sub="/status", manager="reconciler")
    await machines.apply({"status": {"conditions": [READY]}}, sub="/status", manager="reconciler", force=True)
    last = await machines.apply(
        {"status": {**OBSERVED, "observedEndpoint": "192.0.2.10"}},
        sub="/status", manager=WRITER, account="status-writer", force=True,
    )  # fmt: skip
    assert last.body["status"] == {**OBSERVED, "observedEndpoint": "192.0.2.10", "conditions": [READY]}


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        pytest.param({"nodeName": "n", "lastRead": "2026-01-01T00:00:00Z"}, {"nodeName": "n"}, {"nodeName": "n"}, id="field"),
        pytest.param({"nodeName": "n", "operation": {"id": "1"}}, {"nodeName": "n"}, {"nodeName": "n"}, id="object"),
        pytest.param(
            {"operation": {"id": "1", "message": "m"}}, {"operation": {"id": "1"}}, {"operation": {"id": "1"}}, id="nested"
        ),
        pytest.param(
            {"conditions": [READY, {**READY, "type": "AddressFlapping"}]}, {"conditions": [READY]},
            {"conditions": [READY]}, id="list item",
        ),
        pytest.param({"nodeName": "n", "conditions": [READY]}, {"nodeName": "n"}, {"nodeName": "n"}, id="whole list"),
        pytest.param({"nodeName": "n", "nodeAddresses": ["1"]}, {"nodeName": "n"}, {"nodeName": "n"}, id="atomic list"),
        pytest.param({"nodeName": "n"}, {}, None, id="everything"),
    ],
)  # fmt: skip
async def test_what_is_no_longer_applied_is_removed(machines: Machines, before: Item, after: Item, left: Item) -> None:
    await machines.create()
    await machines.apply({"status": before}, sub="/status", force=True)
    answer = await machines.apply({"status": after} if after else {}, sub="/status", force=True)
    assert answer.body.get("status") == left
    assert (answer.entry("alice", "status") is None) == (left is None)


async def test_what_others_own_too_stays(machines: Machines) -> None:
    await machines.create()
    for manager in ("alice", "bob"):
        answer = await machines.apply({"status": {"nodeName": "n"}}, sub="/status", manager=manager)
        assert answer.code == 200, "the same value is no conflict"
    answer = await machines.apply({}, sub="/status")
    assert answer.body["status"] == {"nodeName": "n"}
    assert answer.entry("alice", "status") is None
    answer = await machines.apply({}, sub="/status", manager="bob")
    assert "status" not in answer.body


async def test_what_an_update_set_stays(machines: Machines) -> None:
    await machines.create()
    await machines.status({"nodeName": "n"})
    await machines.apply({"status": {"operation": {"id": "1"}}}, sub="/status")
    answer = await machines.apply({"status": {"operation": {"message": "m"}}}, sub="/status")
    assert answer.body["status"] == {"nodeName": "n", "operation": {"message": "m"}}


async def test_another_value_is_a_conflict_unless_forced(machines: Machines) -> None:
    await machines.apply({"spec": {"endpoint": "192.0.2.1"}})
    answer = await machines.apply({"spec": {"endpoint": "192.0.2.2"}}, manager="bob")
    assert (answer.code, answer.reason) == (409, "Conflict")
    assert answer.message == 'Apply failed with 1 conflict: conflict with "alice": .spec.endpoint'
    assert answer.causes == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "alice"', "field": ".spec.endpoint"}
    ]
    forced = await machines.apply({"spec": {"endpoint": "192.0.2.2"}}, manager="bob", force=True)
    assert forced.body["spec"]["endpoint"] == "192.0.2.2"
    assert forced.entry("alice") is None, "who lost all fields has no entry"
    assert forced.entry("bob") is not None


async def test_updates_conflict_with_applies_too(machines: Machines) -> None:
    await machines.create()
    await machines.status({"conditions": [READY]}, fieldManager="legacy")
    answer = await machines.apply({"status": {"conditions": [{**READY, "status": "False"}]}}, sub="/status")
    assert answer.code == 409
    assert '"legacy" with subresource "status" using nodetrail.dev/v1alpha1' in answer.message
    assert '.status.conditions[type="Ready"].status' in answer.message
    await machines.apply({"status": {"conditions": [{**READY, "status": "False"}]}}, sub="/status", force=True)
    taken = await machines.status({"conditions": [READY]}, fieldManager="legacy")
    entry = taken.entry("alice", "status")
    assert entry is not None, "an update takes only the fields that it changes"
    ready = entry["fieldsV1"]["f:status"]["f:conditions"]['k:{"type":"Ready"}']
    assert ready == {".": {}, "f:reason": {}, "f:type": {}}


async def test_a_version_makes_an_apply_conditional(machines: Machines) -> None:
    made = await machines.create()
    options: Item = {"sub": "/status", "force": True, "resourceVersion": made.version}
    assert (await machines.apply({"status": {"nodeName": "n"}}, **options)).code == 200
    answer = await machines.apply({"status": {"nodeName": "m"}}, **options)
    assert (answer.code, answer.reason) == (409, "Conflict")
    assert "the object has been modified" in answer.message
    same = await machines.apply({"status": {"nodeName": "n"}}, **options)
    assert (same.code, same.reason) == (409, "Conflict"), "even when it would change nothing"


async def test_the_endpoints_stay_apart_in_an_apply(machines: Machines) -> None:
    await machines.create()
    both = {"spec": {"endpoint": "192.0.2.9"}, "status": {"nodeName": "n"}}
    answer = await machines.apply(both, sub="/status", force=True)
    assert answer.body["spec"]["endpoint"] == "192.0.2.1"
    entry = answer.entry("alice", "status")
    assert entry is not None
    assert entry["fieldsV1"] == {"f:status": {"f:nodeName": {}}}
    answer = await machines.apply({**both, "status": {"nodeName": "other"}}, force=True)
    assert answer.body["spec"]["endpoint"] == "192.0.2.9"
    assert answer.body["status"] == {"nodeName": "n"}


async def test_the_result_of_an_apply_is_validated(machines: Machines) -> None:
    await machines.apply({"spec": {"endpoint": "192.0.2.1"}})
    answer = await machines.apply({"spec": {"endpoint": "a b"}})
    assert (answer.code, answer.reason, answer.causes[0]["field"]) == (422, "Invalid", "spec.endpoint")
    answer = await machines.apply({})
    assert (answer.code, answer.reason, answer.causes[0]["field"]) == (422, "Invalid", "spec")


async def test_lists_merge_by_their_key(machines: Machines) -> None:
    await machines.create()
    await machines.apply({"status": {"conditions": [READY]}}, sub="/status", manager="one")
    answer = await machines.apply(
        {"status": {"conditions": [{**READY, "type": "AddressFlapping", "status": "False"}]}},
        sub="/status",
        manager="two",
    )
    assert [condition["type"] for condition in answer.body["status"]["conditions"]] == ["Ready", "AddressFlapping"]


async def test_yaml_is_understood(machines: Machines) -> None:
    config = b"""
apiVersion: nodetrail.dev/v1alpha1
kind: TalosMachine
metadata: {name: a}
spec:
  endpoint: 192.0.2.1
"""
    path = f"{machines.path}/a"
    answer = await machines.api.must("PATCH", path, config, "application/apply-patch+yaml", fieldManager="y")
    assert answer.body["spec"] == {"endpoint": "192.0.2.1"}
