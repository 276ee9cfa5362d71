"""How clients find out what there is."""

from __future__ import annotations

import pytest

from tests.contracts.kube_api.client import GROUP, Client, Machines


async def test_groups_and_versions(api: Client) -> None:
    assert (await api.must("GET", "api")).body["versions"] == ["v1"]
    groups = {group["name"]: group for group in (await api.must("GET", "apis")).body["groups"]}
    ours = groups["nodetrail.dev"]
    assert ours["preferredVersion"] == {"groupVersion": "nodetrail.dev/v1alpha1", "version": "v1alpha1"}
    assert {"apiextensions.k8s.io", "admissionregistration.k8s.io", "rbac.authorization.k8s.io",
            "coordination.k8s.io", "authentication.k8s.io", "authorization.k8s.io"} <= groups.keys()  # fmt: skip
    one = (await api.must("GET", "apis/nodetrail.dev")).body
    assert (one["kind"], one["name"]) == ("APIGroup", "nodetrail.dev")


async def test_the_resources_of_our_group(api: Client) -> None:
    listed = (await api.must("GET", GROUP)).body
    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", "nodetrail.dev/v1alpha1")
    resources = {resource["name"]: resource for resource in listed["resources"]}
    main = resources["talosmachines"]
    assert (main["kind"], main["singularName"], main["namespaced"]) == ("TalosMachine", "talosmachine", True)
    assert main["shortNames"] == ["tm"]
    assert set(main["verbs"]) == {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
    assert set(resources["talosmachines/status"]["verbs"]) == {"get", "patch", "update"}


@pytest.mark.parametrize(
    ("path", "plural", "kind"),
    [
        ("api/v1", "nodes", "Node"),
        ("api/v1", "secrets", "Secret"),
        ("api/v1", "events", "Event"),
        ("api/v1", "namespaces", "Namespace"),
        ("api/v1", "serviceaccounts", "ServiceAccount"),
        ("apis/coordination.k8s.io/v1", "leases", "Lease"),
        ("apis/rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole"),
        ("apis/apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition"),
        ("apis/authentication.k8s.io/v1", "tokenreviews", "TokenReview"),
        ("apis/admissionregistration.k8s.io/v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
    ],
)
async def test_built_in_kinds(api: Client, path: str, plural: str, kind: str) -> None:
    resources = {r["name"]: r for r in (await api.must("GET", path)).body["resources"]}
    assert resources[plural]["kind"] == kind


async def test_the_version(api: Client) -> None:
    version = (await api.must("GET", "version")).body
    assert version["gitVersion"].startswith("v1.37.2")
    assert (version["major"], version["minor"]) == ("1", "37")


async def test_every_account_may_look_around(api: Client) -> None:
    for path in ("api", "apis", GROUP, "version", "openapi/v3"):
        assert (await api.ask("GET", path, account="node-watcher")).code == 200, path


@pytest.mark.parametrize("path", ["apis/nothing.example/v1/things", f"{GROUP}/things", "apis/nothing.example/v1"])
async def test_what_is_not_offered_is_not_found(api: Client, path: str) -> None:
    answer = await api.ask("GET", path)
    assert answer.code == 404
    if answer.body.get("kind"):
        assert answer.reason == "NotFound"


async def test_a_definition_says_that_it_is_established(api: Client) -> None:
    path = "apis/apiextensions.k8s.io/v1/customresourcedefinitions/talosmachines.nodetrail.dev"
    status = (await api.must("GET", path)).body["status"]
    conditions = {condition["type"]: condition["status"] for condition in status["conditions"]}
    assert conditions["Established"] == conditions["NamesAccepted"] == "True"
    assert status["acceptedNames"]["kind"] == "TalosMachine"
    assert status["storedVersions"] == ["v1alpha1"]


async def test_tables_have_our_columns(machines: Machines) -> None:
    await machines.create()
    ready = {"type": "Ready", "status": "False", "reason": "Unreachable"}
    await machines.status({"conditions": [{"type": "AddressFlapping", "status": "True", "reason": "x"}, ready]})
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    table = (await machines.api.must("GET", machines.path, headers=accept)).body
    assert table["kind"] == "Table"
    names = [column["name"] for column in table["columnDefinitions"]]
    assert names == ["Name", "Endpoint", "Observed", "Ready", "Reason", "Node", "Age"]
    row = table["rows"][0]
    assert row["cells"][:2] == ["a", "192.0.2.1"]
    assert row["cells"][3:5] == ["False", "Unreachable"]
    assert row["cells"][6].endswith("s")
    assert row["object"]["metadata"]["name"] == "a"
