"""Deleting: finalizers, preconditions, whole collections."""

from __future__ import annotations

from tests.contracts.kube_api.client import Machines


async def test_a_deletion_answers_with_a_status(machines: Machines) -> None:
    made = await machines.create()
    answer = await machines.api.must("DELETE", f"{machines.path}/a")
    assert (answer.code, answer.body["kind"], answer.body["status"]) == (200, "Status", "Success")
    assert answer.body["details"] == {
        "name": "a", "group": "nodetrail.dev", "kind": "talosmachines", "uid": made.body["metadata"]["uid"],
    }  # fmt: skip
    again = await machines.api.ask("DELETE", f"{machines.path}/a")
    assert (again.code, again.reason) == (404, "NotFound")


async def test_finalizers_hold_an_object(machines: Machines) -> None:
    await machines.create(finalizers=["nodetrail.dev/test"])
    answer = await machines.api.must("DELETE", f"{machines.path}/a")
    assert answer.body["kind"] == "TalosMachine"
    metadata = (await machines.get()).body["metadata"]
    assert metadata["deletionTimestamp"]
    assert metadata["deletionGracePeriodSeconds"] == 0
    assert metadata["generation"] == 2
    again = await machines.api.must("DELETE", f"{machines.path}/a")
    assert again.body["metadata"]["resourceVersion"] == metadata["resourceVersion"]
    released = await machines.merge({"metadata": {"finalizers": None}})
    assert released.code == 200
    assert (await machines.api.ask("GET", f"{machines.path}/a")).code == 404


async def test_preconditions(machines: Machines) -> None:
    made = await machines.create()
    for wrong in ({"uid": "00000000-0000-0000-0000-000000000000"}, {"resourceVersion": "1"}):
        answer = await machines.api.ask("DELETE", f"{machines.path}/a", {"preconditions": wrong})
        assert (answer.code, answer.reason) == (409, "Conflict"), wrong
    right = {"uid": made.body["metadata"]["uid"], "resourceVersion": made.version}
    await machines.api.must("DELETE", f"{machines.path}/a", {"preconditions": right})


async def test_a_collection_is_deleted_by_selector(machines: Machines) -> None:
    for name, site in (("a", "x"), ("b", "y"), ("c", "x")):
        await machines.create(name, labels={"site": site})
    answer = await machines.api.must("DELETE", machines.path, labelSelector="site=x")
    assert answer.body["kind"] == "TalosMachineList"
    listed = (await machines.api.must("GET", machines.path)).body["items"]
    assert [item["metadata"]["name"] for item in listed] == ["b"]
    await machines.api.must("DELETE", machines.path)
    assert (await machines.api.must("GET", machines.path)).body["items"] == []


async def test_a_dry_run_deletes_nothing(machines: Machines) -> None:
    await machines.create()
    await machines.api.must("DELETE", f"{machines.path}/a", dryRun="All")
    assert (await machines.get()).code == 200


async def test_a_name_can_be_used_again(machines: Machines) -> None:
    first = await machines.create()
    await machines.api.must("DELETE", f"{machines.path}/a")
    second = await machines.create()
    assert second.body["metadata"]["uid"] != first.body["metadata"]["uid"]
    assert int(second.version) > int(first.version)
