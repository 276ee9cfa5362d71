"""Who may do what: tokens, RBAC of nodetrail's accounts, and the two invariants that admission policies keep."""

from __future__ import annotations

import pytest

from tests.contracts.kube_api.client import GROUP, Client, Item, Machines

WRITER = "system:serviceaccount:nodetrail-system:status-writer"


async def test_an_unknown_token_is_nobody(api: Client) -> None:
    answer = await api.ask("GET", f"{GROUP}/talosmachines", token="wrong")
    assert (answer.code, answer.reason) == (401, "Unauthorized")
    assert answer.body["kind"] == "Status"


async def test_without_a_token_nothing_is_shown(api: Client) -> None:
    answer = await api.ask("GET", f"{GROUP}/talosmachines", token="")
    assert (answer.code, answer.reason) == (403, "Forbidden")
    assert 'User "system:anonymous" cannot list resource "talosmachines"' in answer.message


async def test_a_refusal_names_user_verb_and_resource(api: Client) -> None:
    answer = await api.ask("GET", "api/v1/namespaces/default/secrets/s", account="status-writer")
    assert (answer.code, answer.reason) == (403, "Forbidden")
    assert answer.message == (
        f'secrets "s" is forbidden: User "{WRITER}" cannot get resource "secrets" in API group "" in the namespace "default"'
    )
    answer = await api.ask("GET", "api/v1/nodes", account="status-writer")
    assert 'cannot list resource "nodes" in API group "" at the cluster scope' in answer.message


@pytest.mark.parametrize(
    ("account", "verb", "group", "resource", "namespace", "allowed"),
    [
        ("status-writer", "get", "nodetrail.dev", "talosmachines", "x", True),
        ("status-writer", "patch", "nodetrail.dev", "talosmachines/status", "x", True),
        ("status-writer", "patch", "nodetrail.dev", "talosmachines", "x", False),
        ("status-writer", "update", "nodetrail.dev", "talosmachines/status", "x", False),
        ("status-writer", "get", "", "secrets", "nodetrail", False),
        ("machine-reconciler", "create", "nodetrail.dev", "talosmachines", "x", True),
        ("machine-reconciler", "delete", "nodetrail.dev", "talosmachines", "x", False),
        ("machine-reconciler", "get", "", "secrets", "nodetrail", True),
        ("machine-reconciler", "get", "", "secrets", "default", False),
        ("machine-reconciler", "create", "", "events", "x", True),
        ("node-watcher", "watch", "", "nodes", "", True),
        ("node-watcher", "patch", "", "nodes", "", False),
        ("node-watcher", "get", "nodetrail.dev", "talosmachines", "x", False),
        ("gateway", "create", "authentication.k8s.io", "tokenreviews", "", True),
        ("admin", "delete", "anything.example", "things", "x", True),
    ],
)
async def test_accounts_have_the_verbs_that_they_need(
    *, api: Client, account: str, verb: str, group: str, resource: str, namespace: str, allowed: bool
) -> None:
    plural, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": plural, "subresource": subresource, "namespace": namespace}
    path = "apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = await api.must("POST", path, {"spec": {"resourceAttributes": attributes}}, account=account)
    assert answer.code == 201
    assert answer.body["status"]["allowed"] is allowed


async def test_others_access_can_be_reviewed(api: Client) -> None:
    attributes = {"verb": "list", "group": "nodetrail.dev", "resource": "talosmachines"}
    path = "apis/authorization.k8s.io/v1/subjectaccessreviews"
    for user, allowed in ((WRITER, True), ("stranger", False)):
        body = {"spec": {"user": user, "resourceAttributes": attributes}}
        answer = await api.must("POST", path, body, account="gateway")
        assert answer.body["status"]["allowed"] is allowed


async def test_tokens_can_be_reviewed(api: Client) -> None:
    path = "apis/authentication.k8s.io/v1/tokenreviews"
    body = {"spec": {"token": api.tokens["status-writer"]}}
    status = (await api.must("POST", path, body, account="gateway")).body["status"]
    assert status["authenticated"] is True
    assert status["user"]["username"] == WRITER
    assert "system:authenticated" in status["user"]["groups"]
    wrong = (await api.must("POST", path, {"spec": {"token": "wrong"}}, account="gateway")).body["status"]
    assert not wrong.get("authenticated")


async def grant(machines: Machines, account: str, **rule: object) -> str:
    """Bind a Role of one rule about machines, and return the paths of both, as far as their kinds."""
    path = f"apis/rbac.authorization.k8s.io/v1/namespaces/{machines.namespace}"
    rules = [{"apiGroups": ["nodetrail.dev"], "resources": ["talosmachines"], **rule}]
    await machines.api.must("POST", f"{path}/roles", {"metadata": {"name": "one"}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": account, "namespace": "nodetrail-system"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "one"}
    binding = {"metadata": {"name": "one"}, "subjects": [subject], "roleRef": reference}
    await machines.api.must("POST", f"{path}/rolebindings", binding)
    return path


async def test_roles_come_into_force_and_go(api: Client, machines: Machines) -> None:
    await machines.create()
    assert (await api.ask("GET", f"{machines.path}/a", account="node-watcher")).code == 403
    path = await grant(machines, "node-watcher", verbs=["get"], resourceNames=["a"])
    while (await api.ask("GET", f"{machines.path}/a", account="node-watcher")).code != 200:
        pass
    assert (await api.ask("GET", f"{machines.path}/b", account="node-watcher")).code == 403
    await api.must("DELETE", f"{path}/rolebindings/one")
    while (await api.ask("GET", f"{machines.path}/a", account="node-watcher")).code != 403:
        pass


OBSERVED = [
    {"observedEndpoint": "192.0.2.9"},
    {"observedEndpointFor": "192.0.2.1"},
    {"observedSource": "node"},
    {"observedAt": "2026-01-01T00:00:00.123456Z"},
]


@pytest.mark.parametrize("status", OBSERVED)
@pytest.mark.parametrize("account", ["admin", "machine-reconciler"])
async def test_only_the_status_writer_says_where_a_node_answers(machines: Machines, account: str, status: Item) -> None:
    await machines.create()
    merged = await machines.status(status, account=account)
    applied = await machines.apply({"status": status}, sub="/status", account=account, force=True)
    for answer in (merged, applied):
        assert (answer.code, answer.reason) == (403, "Forbidden")
        field = f"status.{next(iter(status))}"
        assert f"denied request: {field} is written by the status writer only" in answer.message
    assert (await machines.status(status, account="status-writer")).code == 200
    assert (await machines.status({"nodeName": "n"}, account=account)).code == 200, "other fields are free"
    assert (await machines.status({next(iter(status)): None}, account=account)).code == 403


CHANGES = [
    ({"endpoint": "192.0.2.2"}, "spec.endpoint"),
    ({"hostname": "h"}, "spec.hostname"),
    ({"approved": True}, "spec.approved"),
    ({"operation": {"id": "1", "action": "Reboot"}}, "spec.operation"),
]


@pytest.mark.parametrize(("change", "field"), CHANGES)
async def test_no_service_changes_a_spec_whatever_rbac_grants(
    api: Client, machines: Machines, change: Item, field: str
) -> None:
    await machines.create()
    path = f"apis/rbac.authorization.k8s.io/v1/namespaces/{machines.namespace}/rolebindings"
    subject = {"kind": "ServiceAccount", "name": "machine-reconciler", "namespace": "nodetrail-system"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    await api.must("POST", path, {"metadata": {"name": "too-much"}, "subjects": [subject], "roleRef": reference})
    while "cannot patch" in (answer := await machines.merge({"spec": change}, account="machine-reconciler")).message:
        pass
    assert (answer.code, answer.reason) == (403, "Forbidden")
    assert "ValidatingAdmissionPolicy 'spec-is-the-operators.nodetrail.dev'" in answer.message
    assert f"denied request: {field} is the operator's to set" in answer.message
    deletion = await api.ask("DELETE", f"{machines.path}/a", account="machine-reconciler")
    assert (deletion.code, deletion.reason) == (403, "Forbidden")
    labelled = await machines.merge({"metadata": {"labels": {"a": "b"}}}, account="machine-reconciler")
    assert labelled.code == 200


@pytest.mark.parametrize(
    "spec",
    [
        {"approved": True},
        {"maintenanceFingerprint": "A" * 43 + "="},
        {"configuration": {"secretRef": {"name": "s", "key": "k"}}},
        {"talosconfig": {"secretRef": {"name": "s", "key": "k"}}},
        {"operation": {"id": "1", "action": "Reset"}},
    ],
)
async def test_a_service_registers_a_machine_without_deciding_about_it(machines: Machines, spec: Item) -> None:
    body = machines.body(spec={"endpoint": "192.0.2.1", **spec})
    answer = await machines.api.ask("POST", machines.path, body, account="machine-reconciler")
    assert (answer.code, answer.reason) == (403, "Forbidden")
    plain = machines.body(spec={"endpoint": "192.0.2.1", "identity": {"uuid": "u"}})
    assert (await machines.api.ask("POST", machines.path, plain, account="machine-reconciler")).code == 201
    assert (await machines.api.ask("POST", machines.path, {**body, "metadata": {"name": "b"}})).code == 201


async def test_an_apply_that_creates_needs_the_right_to_create(machines: Machines) -> None:
    await grant(machines, "node-watcher", verbs=["patch"])
    config = {"spec": {"endpoint": "192.0.2.1"}}
    while "cannot patch" in (answer := await machines.apply(config, account="node-watcher")).message:
        pass
    assert (answer.code, answer.reason) == (403, "Forbidden")
    assert "cannot create resource" in answer.message
    assert (await machines.merge(config, account="node-watcher")).code == 404
