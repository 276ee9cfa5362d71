"""The server's own limits and promises, where a real API server cannot be brought to the same point quickly."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from services.devapi import discovery
from services.devapi.builtin import EVENTS_MAX
from services.devapi.refusal import Refusal
from services.devapi.server import Answer, Request, Server
from services.devapi.users import Users

NODES = "/api/v1/nodes"
CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.dev"},
    "spec": {
        "group": "example.dev",
        "scope": "Cluster",
        "names": {"kind": "Thing", "plural": "things"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"size": {"type": "integer", "default": 3}},
        }}}],
    },
}  # fmt: skip
THINGS = "/apis/example.dev/v1/things"


def ask(server: Server, method: str, path: str, body: object = None, media: str = "", **options: str) -> Answer:
    data = b"" if body is None else json.dumps(body).encode()
    return server.answer(Request(method=method, path=path, options=options, body=data, content_type=media))


def body(answer: Answer) -> Any:
    return json.loads(answer.data)


async def lines(answer: Answer) -> list[Any]:
    assert answer.lines is not None
    return [json.loads(line) async for chunk in answer.lines for line in chunk.splitlines()]


async def one(answer: Answer) -> tuple[Any, AsyncIterator[bytes]]:
    assert answer.lines is not None
    return json.loads(await anext(answer.lines)), answer.lines


@pytest.fixture
def server() -> Server:
    return Server(Users(None), history=4)


def node(server: Server, name: str) -> str:
    made = body(ask(server, "POST", NODES, {"metadata": {"name": name}}))
    return str(made["metadata"]["resourceVersion"])


async def test_who_is_too_far_behind_has_to_list_again(server: Server) -> None:
    first = node(server, "a")
    for name in "bcdef":
        node(server, name)
    watch = ask(server, "GET", NODES, watch="true", resourceVersion=first, timeoutSeconds="1")
    (event,) = await lines(watch)
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_a_watch_that_stops_reading_is_told_when_it_goes_on(server: Server) -> None:
    since = node(server, "a")
    node(server, "b")
    event, rest = await one(ask(server, "GET", NODES, watch="true", resourceVersion=since, timeoutSeconds="5"))
    assert event["object"]["metadata"]["name"] == "b"
    for name in "cdefgh":
        node(server, name)
    (gone,) = [json.loads(line) async for line in rest]
    assert gone["object"]["code"] == 410


async def test_other_kinds_do_not_push_a_watch_out(server: Server) -> None:
    since = node(server, "a")
    for name in "bcdefghi":
        ask(server, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    node(server, "b")
    event, _ = await one(ask(server, "GET", NODES, watch="true", resourceVersion=since))
    assert event["object"]["metadata"]["name"] == "b"


def test_an_expired_continuation_is_gone(server: Server) -> None:
    for name in "ab":
        node(server, name)
    token = body(ask(server, "GET", NODES, limit="1"))["metadata"]["continue"]
    for name in "cdefg":
        node(server, name)
    with pytest.raises(Refusal) as refused:
        ask(server, "GET", NODES, **{"continue": token})
    assert (refused.value.code, refused.value.reason) == (410, "Expired")


async def test_stopping_ends_watches_without_an_error(server: Server) -> None:
    since = node(server, "a")
    watch = ask(server, "GET", NODES, watch="true", resourceVersion=since)
    server.reads.stop()
    assert await lines(watch) == []


async def test_versions_of_an_earlier_run_are_too_old() -> None:
    before = Server(Users(None), history=10)
    since = node(before, "a")
    after = Server(Users(None), history=10)
    after.store.revision = before.store.revision + 10_000  # as if some seconds had passed
    after.store.drop(("", "nodes"))
    node(after, "b")
    (event,) = await lines(ask(after, "GET", NODES, watch="true", resourceVersion=since, timeoutSeconds="1"))
    assert event["object"]["code"] == 410


def test_old_events_are_forgotten(server: Server) -> None:
    path = "/api/v1/namespaces/default/events"
    for number in range(EVENTS_MAX + 3):
        ask(server, "POST", path, {"metadata": {"name": f"e{number}"}, "involvedObject": {}})
    assert len(server.store.collection(("", "events")).entries) == EVENTS_MAX
    with pytest.raises(Refusal):
        ask(server, "GET", f"{path}/e2")


def test_an_object_may_be_as_large_as_etcd_takes(server: Server) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    ask(server, "POST", path, {"metadata": {"name": "a"}, "data": {"x": "y" * 1_000_000}})
    with pytest.raises(Refusal) as refused:
        ask(server, "POST", path, {"metadata": {"name": "b"}, "data": {"x": "y" * 1_500_000}})
    assert refused.value.code == 413


async def test_definitions_make_kinds_that_come_and_go(server: Server) -> None:
    with pytest.raises(Refusal):
        ask(server, "GET", THINGS)
    ask(server, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
    made = body(ask(server, "POST", THINGS, {"metadata": {"name": "t"}, "other": 1}))
    assert made["size"] == 3
    assert "other" not in made
    watch = ask(server, "GET", THINGS, watch="true", resourceVersion=made["metadata"]["resourceVersion"])
    ask(server, "DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.dev")
    (event,) = await lines(watch)
    assert event["object"]["code"] == 410
    with pytest.raises(Refusal) as refused:
        ask(server, "GET", THINGS)
    assert refused.value.code == 404


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"versions": CRD["spec"]["versions"] * 2}, "more than one version"),
        ({"scope": ""}, "spec.scope"),
        ({"names": {"kind": "Thing", "plural": "others"}}, "must be spec.names.plural"),
        ({"versions": [{"name": "v1", "served": True, "schema": {"openAPIV3Schema": {
            "x-kubernetes-validations": [{"rule": "unheardOf(self)"}]}}}]}, "unheardOf"),
    ],
)  # fmt: skip
def test_a_definition_that_would_not_be_served_as_written_is_refused(
    server: Server, change: dict[str, Any], text: str
) -> None:
    definition = {**CRD, "spec": {**CRD["spec"], **change}}
    with pytest.raises(Refusal, match=text):
        ask(server, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)


@pytest.mark.parametrize("spec", [{"paramKind": {"kind": "X"}}, {"validations": [{"expression": "unheardOf()"}]}])
def test_a_policy_that_would_not_be_kept_as_written_is_refused(server: Server, spec: dict[str, Any]) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    with pytest.raises(Refusal):
        ask(server, "POST", path, {"metadata": {"name": "p"}, "spec": spec})


def policy(server: Server, expression: str, **spec: Any) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["nodes"]}
    constraints = {"resourceRules": [rule], **spec.pop("constraints", {})}
    validations = [{"expression": expression, "message": "no"}]
    ask(
        server,
        "POST",
        f"{path}ies",
        {"metadata": {"name": "p"}, "spec": {"matchConstraints": constraints, "validations": validations, **spec}},
    )
    ask(
        server,
        "POST",
        f"{path}ybindings",
        {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}},
    )


@pytest.mark.parametrize(
    ("expression", "spec", "allowed"),
    [
        ("object.metadata.name != 'a'", {}, False),
        ("object.metadata.name == 'a'", {}, True),
        ("object.nothing == 1", {}, False),
        ("object.nothing == 1", {"failurePolicy": "Ignore"}, True),
        ("false", {"matchConditions": [{"name": "c", "expression": "request.operation == 'UPDATE'"}]}, True),
        ("false", {"matchConditions": [{"name": "c", "expression": "object.nothing"}]}, False),
        ("variables.v", {"variables": [{"name": "v", "expression": "variables.w"}, {"name": "w", "expression": "false"}]}, False),
        ("false", {"constraints": {"objectSelector": {"matchLabels": {"x": "y"}}}}, True),
        ("false", {"constraints": {"excludeResourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]}}, True),
    ],
)  # fmt: skip
def test_policies_in_their_variety(server: Server, expression: str, spec: dict[str, Any], *, allowed: bool) -> None:
    policy(server, expression, **spec)
    if allowed:
        node(server, "a")
        return
    with pytest.raises(Refusal) as refused:
        node(server, "a")
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")


def test_a_policy_ends_with_its_binding(server: Server) -> None:
    policy(server, "false")
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/b"
    ask(server, "DELETE", path)
    node(server, "a")


def test_a_namespace_ends_with_everything_in_it(server: Server) -> None:
    ask(server, "POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})
    path = "/api/v1/namespaces/n/configmaps"
    ask(server, "POST", path, {"metadata": {"name": "free"}})
    ask(server, "POST", path, {"metadata": {"name": "held", "finalizers": ["x.dev/y"]}})
    going = body(ask(server, "DELETE", "/api/v1/namespaces/n"))
    assert going["status"]["phase"] == "Terminating"
    assert [item["metadata"]["name"] for item in body(ask(server, "GET", path))["items"]] == ["held"]
    with pytest.raises(Refusal, match="being terminated"):
        ask(server, "POST", path, {"metadata": {"name": "late"}})
    ask(server, "PATCH", f"{path}/held", {"metadata": {"finalizers": None}}, "application/merge-patch+json")
    with pytest.raises(Refusal, match='namespaces "n" not found'):
        ask(server, "GET", "/api/v1/namespaces/n")


def test_what_is_left_out_is_said(server: Server) -> None:
    version = body(ask(server, "GET", "/version"))
    assert version["gitVersion"].endswith("+nodetrail-devapi")
    assert version["nodetrailDevapi"] == discovery.LEFT_OUT
    with pytest.raises(Refusal, match="devapi does not offer"):
        ask(server, "GET", NODES, watch="true", sendInitialEvents="true")


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("POST", "/version", 405),
        ("GET", "/", 404),
        ("GET", "/apis/x/y/z/a/b/c/d", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 405),
        ("GET", "/api/v1/namespaces/default/nodes/a", 404),
        ("GET", "/api/v1/secrets/a", 404),
        ("POST", "/api/v1/secrets", 405),
        ("GET", "/api/v1/nodes/a/log", 404),
        ("BREW", "/api/v1/nodes", 405),
        ("GET", "/openapi/v3/apis/nothing/v1", 404),
        ("GET", "/openapi/v2", 404),
    ],
)
def test_paths_that_lead_nowhere(server: Server, method: str, path: str, code: int) -> None:
    with pytest.raises(Refusal) as refused:
        ask(server, method, path)
    assert refused.value.code == code


def test_openapi_tells_what_kubectl_asks(server: Server) -> None:
    ask(server, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
    places = body(ask(server, "GET", "/openapi/v3"))["paths"]
    document = body(ask(server, "GET", places["apis/example.dev/v1"]["serverRelativeURL"]))
    patch = document["paths"]["/apis/example.dev/v1/things/{name}"]["patch"]
    assert patch["parameters"][0]["name"] == "fieldValidation"
    assert document["components"]["schemas"]["dev.example.v1.Thing"]["properties"]["size"]["type"] == "integer"
