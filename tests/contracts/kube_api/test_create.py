"""Creating: what the server sets, what it refuses, and in which words clients look for the reason."""

from __future__ import annotations

import re

import pytest

from tests.contracts.kube_api.client import Client, Item, Machines

RFC3339_SECONDS = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")


async def test_the_server_sets_uid_version_generation_and_time(machines: Machines) -> None:
    made = await machines.create()
    assert made.code == 201
    metadata = made.body["metadata"]
    assert re.fullmatch(r"[0-9a-f-]{36}", metadata["uid"])
    assert metadata["resourceVersion"].isdecimal()
    assert metadata["generation"] == 1
    assert RFC3339_SECONDS.match(metadata["creationTimestamp"])
    assert metadata["namespace"] == machines.namespace
    assert made.body["spec"] == {"endpoint": "192.0.2.1"}
    assert (await machines.get()).body == made.body


async def test_versions_only_grow(machines: Machines) -> None:
    first, second = await machines.create("a"), await machines.create("b")
    assert int(second.version) > int(first.version)


async def test_what_is_there_already_is_a_conflict(machines: Machines) -> None:
    await machines.create()
    answer = await machines.api.ask("POST", machines.path, machines.body())
    assert (answer.code, answer.reason) == (409, "AlreadyExists")
    assert answer.body["kind"] == "Status"
    assert answer.body["details"] == {"name": "a", "group": "nodetrail.dev", "kind": "talosmachines"}
    assert answer.message == 'talosmachines.nodetrail.dev "a" already exists'


async def test_names_are_generated(machines: Machines) -> None:
    body = {**machines.body(), "metadata": {"generateName": "box-"}}
    names = {(await machines.api.must("POST", machines.path, body)).body["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(re.fullmatch(r"box-[a-z0-9]{5}", name) for name in names)


@pytest.mark.parametrize("name", ["UPPER", "under_score", "-dash", "a..b", "x" * 254])
async def test_names_are_checked(machines: Machines, name: str) -> None:
    answer = await machines.api.ask("POST", machines.path, machines.body(name))
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.causes[0]["field"] == "metadata.name"
    assert answer.causes[0]["reason"] == "FieldValueInvalid"


async def test_a_name_is_needed(machines: Machines) -> None:
    answer = await machines.api.ask("POST", machines.path, {**machines.body(), "metadata": {}})
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.causes[0]["field"] == "metadata.name"


async def test_labels_are_checked(machines: Machines) -> None:
    answer = await machines.api.ask("POST", machines.path, machines.body(labels={"site": "not a value"}))
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.causes[0]["field"] == "metadata.labels"


async def test_a_namespace_must_be_there(api: Client, machines: Machines) -> None:
    path = "apis/nodetrail.dev/v1alpha1/namespaces/nowhere/talosmachines"
    answer = await api.ask("POST", path, machines.body())
    assert (answer.code, answer.reason) == (404, "NotFound")
    assert 'namespaces "nowhere" not found' in answer.message


async def test_body_and_path_must_agree(machines: Machines) -> None:
    for wrong in ({**machines.body(), "apiVersion": "nodetrail.dev/v9"}, machines.body(namespace="default")):
        answer = await machines.api.ask("POST", machines.path, wrong)
        assert (answer.code, answer.reason) == (400, "BadRequest"), wrong
    answer = await machines.api.ask("POST", machines.path, {**machines.body(), "kind": "Secret"})
    assert (answer.code, answer.reason, answer.causes[0]["field"]) == (422, "Invalid", "kind")


async def test_a_body_must_be_an_object(machines: Machines) -> None:
    for wrong in (b"{", b"[]", b"7", b""):
        answer = await machines.api.ask("POST", machines.path, wrong)
        assert answer.code == 400, wrong
        assert answer.body["kind"] == "Status"


async def test_status_sent_with_a_create_is_dropped(machines: Machines) -> None:
    body = machines.body() | {"status": {"nodeName": "sneaky"}}
    assert "status" not in (await machines.api.must("POST", machines.path, body)).body


async def test_unknown_fields_are_pruned_with_a_warning(machines: Machines) -> None:
    body = machines.body(spec={"endpoint": "192.0.2.1", "colour": "red"})
    made = await machines.api.must("POST", machines.path, body)
    assert "colour" not in made.body["spec"]
    assert made.headers["Warning"] == '299 - "unknown field \\"spec.colour\\""'
    strict = await machines.api.ask("POST", machines.path, body | {"metadata": {"name": "b"}}, fieldValidation="Strict")
    assert (strict.code, strict.reason) == (400, "BadRequest")
    assert 'strict decoding error: unknown field "spec.colour"' in strict.message


async def test_a_dry_run_stores_nothing(machines: Machines) -> None:
    answer = await machines.api.must("POST", machines.path, machines.body(), dryRun="All")
    assert answer.code == 201
    assert answer.body["metadata"]["uid"]
    assert (await machines.api.ask("GET", f"{machines.path}/a")).code == 404


async def test_what_is_not_there_is_not_found(machines: Machines) -> None:
    answer = await machines.api.ask("GET", f"{machines.path}/nobody")
    assert (answer.code, answer.reason) == (404, "NotFound")
    assert answer.message == 'talosmachines.nodetrail.dev "nobody" not found'


def machine(**spec: object) -> Item:
    return {"endpoint": "192.0.2.1", **spec}


SECRET = {"secretRef": {"name": "s", "key": "k"}}


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        pytest.param({}, "spec.endpoint", "Required value", id="required"),
        pytest.param({"endpoint": ""}, "spec.endpoint", "spec.endpoint in body should be at least 1 chars long", id="short"),
        pytest.param({"endpoint": "x" * 300}, "spec.endpoint", "Too long: may not be more than 262", id="long"),
        pytest.param({"endpoint": 7}, "spec.endpoint", "spec.endpoint in body must be of type string", id="type"),
        pytest.param(machine(approved="yes"), "spec.approved", "must be of type boolean", id="boolean"),
        pytest.param(
            machine(configuration={**SECRET, "apply": "Now"}),
            "spec.configuration.apply",
            'Unsupported value: "Now": supported values: "Auto", "Initial", "NoReboot"',
            id="enum",
        ),
        pytest.param(machine(configuration={}), "spec.configuration.secretRef", "Required value", id="nested"),
        pytest.param(
            machine(identity={"macAddresses": ["52:54:00:12:34:56"] * 257}),
            "spec.identity.macAddresses",
            "Too many: 257: must have at most 256 items",
            id="items",
        ),
        pytest.param({"endpoint": "a b"}, "spec.endpoint", "spec.endpoint must be an IP address or a DNS name", id="cel"),
        pytest.param({"endpoint": "192.0.2.1:70000"}, "spec.endpoint", "the port must be a number", id="cel port"),
        pytest.param({"endpoint": "[192.0.2.1]:1"}, "spec.endpoint", "spec.endpoint must be an IP", id="cel family"),
        pytest.param({"endpoint": "1.2.3"}, "spec.endpoint", "spec.endpoint must be an IP", id="cel digits"),
        pytest.param(
            machine(identity={"macAddresses": ["52:54:00:12:34:56", "x"]}),
            "spec.identity.macAddresses[1]",
            "write each as pairs of hexadecimal digits",
            id="cel item",
        ),
        pytest.param(machine(hostname="A_b"), "spec.hostname", "must be the name of a Kubernetes Node", id="cel format"),
        pytest.param(machine(maintenanceFingerprint="x"), "spec.maintenanceFingerprint", "44 characters", id="cel pin"),
        pytest.param(
            machine(operation={"id": "!", "action": "Reboot"}), "spec.operation.id", "must be letters", id="cel id"
        ),
    ],
)  # fmt: skip
async def test_an_invalid_machine_is_refused_with_its_field(
    machines: Machines, spec: Item, field: str, message: str
) -> None:
    answer = await machines.api.ask("POST", machines.path, machines.body(spec=spec))
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.body["details"]["kind"] == "TalosMachine"
    assert answer.message.startswith('TalosMachine.nodetrail.dev "a" is invalid: ')
    found = [cause for cause in answer.causes if cause["field"] == field]
    assert found, answer.causes
    assert any(message in cause["message"] for cause in found), found


@pytest.mark.parametrize(
    "endpoint",
    ["192.0.2.1", "192.0.2.1:50000", "2001:db8::1", "[2001:db8::1]:50000", "[2001:db8::1]", "node.example",
     "node.example.:1", "a_b.example"],
)  # fmt: skip
async def test_good_endpoints_pass(machines: Machines, endpoint: str) -> None:
    await machines.create(spec={"endpoint": endpoint})
