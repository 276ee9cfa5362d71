"""Updating: optimistic locking, generation, and the split between status and the rest."""

from __future__ import annotations

from tests.contracts.kube_api.client import JSON_PATCH, STRATEGIC, Machines


async def test_put_replaces_and_counts_up(machines: Machines) -> None:
    made = await machines.create(labels={"site": "x"})
    body = {**made.body, "spec": {"endpoint": "192.0.2.2"}}
    body["metadata"] = {key: value for key, value in made.body["metadata"].items() if key != "labels"}
    put = await machines.api.must("PUT", f"{machines.path}/a", body)
    assert put.body["spec"] == {"endpoint": "192.0.2.2"}
    assert "labels" not in put.body["metadata"]
    assert put.body["metadata"]["uid"] == made.body["metadata"]["uid"]
    assert put.body["metadata"]["creationTimestamp"] == made.body["metadata"]["creationTimestamp"]
    assert put.body["metadata"]["generation"] == 2
    assert int(put.version) > int(made.version)


async def test_a_stale_put_is_a_conflict(machines: Machines) -> None:
    made = await machines.create()
    await machines.merge({"spec": {"approved": True}})
    answer = await machines.api.ask("PUT", f"{machines.path}/a", {**made.body, "spec": {"endpoint": "192.0.2.2"}})
    assert (answer.code, answer.reason) == (409, "Conflict")
    assert "the object has been modified" in answer.message
    assert (await machines.get()).body["spec"]["endpoint"] == "192.0.2.1"


async def test_a_put_names_the_version_that_it_replaces(machines: Machines) -> None:
    await machines.create()
    answer = await machines.api.ask("PUT", f"{machines.path}/a", machines.body(spec={"endpoint": "192.0.2.2"}))
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.causes[0]["field"] == "metadata.resourceVersion"


async def test_a_put_creates_nothing(machines: Machines) -> None:
    answer = await machines.api.ask("PUT", f"{machines.path}/a", machines.body())
    assert (answer.code, answer.reason) == (404, "NotFound")


async def test_another_uid_is_another_object(machines: Machines) -> None:
    made = await machines.create()
    await machines.api.must("DELETE", f"{machines.path}/a")
    await machines.create()
    answer = await machines.merge({"metadata": {"uid": made.body["metadata"]["uid"]}, "spec": {"approved": True}})
    assert (answer.code, answer.reason, answer.causes[0]["field"]) == (422, "Invalid", "metadata.uid")


async def test_what_changes_nothing_gets_no_new_version(machines: Machines) -> None:
    made = await machines.create()
    assert (await machines.api.must("PUT", f"{machines.path}/a", made.body)).version == made.version
    assert (await machines.merge({"spec": {"endpoint": "192.0.2.1"}})).version == made.version
    assert (await machines.status({"nodeName": "n"})).version != made.version
    assert (await machines.status({"nodeName": "n"})).version == (await machines.get()).version


async def test_generation_moves_with_the_spec_only(machines: Machines) -> None:
    await machines.create()
    assert (await machines.merge({"metadata": {"labels": {"a": "b"}}})).body["metadata"]["generation"] == 1
    assert (await machines.status({"nodeName": "n"})).body["metadata"]["generation"] == 1
    assert (await machines.merge({"spec": {"approved": True}})).body["metadata"]["generation"] == 2
    assert (await machines.merge({"spec": {"approved": True}})).body["metadata"]["generation"] == 2
    forced = await machines.merge({"metadata": {"generation": 9}})
    assert forced.body["metadata"]["generation"] == 2


async def test_the_main_resource_leaves_status_alone(machines: Machines) -> None:
    await machines.create()
    await machines.status({"nodeName": "n"})
    live = (await machines.get()).body
    await machines.merge({"status": {"nodeName": "other"}, "spec": {"approved": True}})
    await machines.api.must("PUT", f"{machines.path}/a", {
        **live, "status": {}, "metadata": (await machines.get()).body["metadata"],
    })  # fmt: skip
    found = (await machines.get()).body
    assert found["status"] == {"nodeName": "n"}
    assert "approved" not in found["spec"]


async def test_the_status_resource_leaves_everything_else_alone(machines: Machines) -> None:
    made = await machines.create()
    answer = await machines.merge(
        {"spec": {"endpoint": "192.0.2.9"}, "metadata": {"labels": {"a": "b"}}, "status": {"nodeName": "n"}},
        sub="/status",
    )
    assert answer.body["spec"] == made.body["spec"]
    assert "labels" not in answer.body["metadata"]
    assert answer.body["status"] == {"nodeName": "n"}
    put = await machines.api.must("PUT", f"{machines.path}/a/status", {
        **answer.body, "spec": {"endpoint": "192.0.2.9"}, "status": {"nodeName": "m"},
    })  # fmt: skip
    assert (put.body["spec"], put.body["status"]) == (made.body["spec"], {"nodeName": "m"})
    assert (await machines.api.must("GET", f"{machines.path}/a/status")).body == put.body


async def test_transition_rules_compare_with_what_was(machines: Machines) -> None:
    await machines.create(spec={"endpoint": "192.0.2.1", "identity": {"uuid": "one"}})
    for change in ({"identity": {"uuid": "two"}}, {"identity": None}, {"identity": {"serialNumber": "s"}}):
        answer = await machines.merge({"spec": change})
        assert (answer.code, answer.reason) == (422, "Invalid"), change
        assert "spec.identity is set at creation and never changed" in answer.message
    assert (await machines.merge({"spec": {"endpoint": "192.0.2.2"}})).code == 200
    await machines.create("b")
    assert (await machines.merge({"spec": {"identity": {"uuid": "late"}}}, "b")).code == 422


async def test_an_invalid_change_is_refused(machines: Machines) -> None:
    await machines.create()
    answer = await machines.merge({"spec": {"endpoint": None}})
    assert (answer.code, answer.reason, answer.causes[0]["field"]) == (422, "Invalid", "spec.endpoint")
    wrong = await machines.status({"conditions": [{"type": "Ready", "status": "Maybe", "reason": "R"}]})
    assert (wrong.code, wrong.causes[0]["field"]) == (422, "status.conditions[0].status")
    wrong = await machines.status({"lastRead": "yesterday"})
    assert (wrong.code, wrong.causes[0]["field"]) == (422, "status.lastRead")
    twice = [{"type": "Ready", "status": "True", "reason": "R"}] * 2
    wrong = await machines.status({"conditions": twice})
    assert (wrong.code, wrong.causes[0]["field"]) == (422, "status.conditions[1]")


class TestMergePatch:
    async def test_null_removes_and_objects_merge(self, machines: Machines) -> None:
        await machines.create(
            spec={"endpoint": "192.0.2.1", "hostname": "h", "configuration": {"secretRef": {"name": "s", "key": "k"}}}
        )
        answer = await machines.merge({"spec": {"hostname": None, "configuration": {"enforce": True}}})
        assert answer.body["spec"] == {
            "endpoint": "192.0.2.1",
            "configuration": {"secretRef": {"name": "s", "key": "k"}, "enforce": True},
        }

    async def test_a_version_makes_it_conditional(self, machines: Machines) -> None:
        made = await machines.create()
        condition = {"metadata": {"resourceVersion": made.version}}
        assert (await machines.merge({**condition, "status": {"nodeName": "n"}}, sub="/status")).code == 200
        answer = await machines.merge({**condition, "status": {"nodeName": "m"}}, sub="/status")
        assert (answer.code, answer.reason) == (409, "Conflict")

    async def test_on_nobody(self, machines: Machines) -> None:
        assert (await machines.merge({"spec": {}})).code == 404

    async def test_the_writer_is_named_or_known_by_its_program(self, machines: Machines) -> None:
        await machines.create()
        answer = await machines.merge({"spec": {"approved": True}}, fieldManager="me")
        mine = answer.entry("me")
        assert mine is not None
        assert mine["operation"] == "Update"
        assert mine["fieldsV1"] == {"f:spec": {"f:approved": {}}}
        answer = await machines.status({"nodeName": "n"})
        ours = answer.entry("contract", "status")
        assert ours is not None
        assert ours["fieldsV1"] == {"f:status": {".": {}, "f:nodeName": {}}}


class TestJsonPatch:
    async def test_operations(self, machines: Machines) -> None:
        await machines.create(labels={"a/b": "c"})
        answer = await machines.api.must("PATCH", f"{machines.path}/a", [
            {"op": "test", "path": "/spec/endpoint", "value": "192.0.2.1"},
            {"op": "replace", "path": "/spec/endpoint", "value": "192.0.2.2"},
            {"op": "add", "path": "/spec/hostname", "value": "h"},
            {"op": "remove", "path": "/metadata/labels/a~1b"},
            {"op": "add", "path": "/metadata/labels/new", "value": "x"},
        ], JSON_PATCH)  # fmt: skip
        assert answer.body["spec"] == {"endpoint": "192.0.2.2", "hostname": "h"}
        assert answer.body["metadata"]["labels"] == {"new": "x"}

    async def test_a_failed_test_changes_nothing(self, machines: Machines) -> None:
        made = await machines.create()
        for operations in (
            [
                {"op": "replace", "path": "/spec/endpoint", "value": "192.0.2.2"},
                {"op": "test", "path": "/spec/endpoint", "value": "x"},
            ],
            [{"op": "remove", "path": "/spec/nothing"}],
        ):
            answer = await machines.api.ask("PATCH", f"{machines.path}/a", operations, JSON_PATCH)
            assert answer.code == 422, operations
        assert (await machines.get()).version == made.version


async def test_custom_kinds_have_no_strategic_merge(machines: Machines) -> None:
    await machines.create()
    answer = await machines.api.ask("PATCH", f"{machines.path}/a", {"spec": {"approved": True}}, STRATEGIC)
    assert (answer.code, answer.reason) == (415, "UnsupportedMediaType")
