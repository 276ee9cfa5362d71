"""The two invariants, kept by the real API server whatever RBAC somebody grants.

The services get cluster-admin here, so that what refuses them is the policy and not a missing right.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import yaml

from libs import kube
from libs.embedded.accounts import SERVICE_ACCOUNTS, user_of
from libs.machine import crd
from tests.peers.cluster import DEPLOY
from tests.peers.fixtures import KubeConfig
from tests.peers.kube_api import KubeApi
from tests.peers.tools import Tool

NAMESPACE = "nodetrail"
PIN = "q" * 43 + "="
BINDING = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
OBSERVED = {
    "observedEndpoint": "10.0.0.2",
    "observedEndpointFor": "10.0.0.1",
    "observedSource": "discovery",
    "observedAt": "2026-01-02T03:04:05.123456Z",
}
BEYOND_OBSERVED = {
    "observedEndpoint": "10.0.0.3",
    "observedEndpointFor": "10.0.0.4",
    "observedSource": "read",
    "observedAt": "2026-01-02T03:04:05.654321Z",
}
SPEC: dict[str, Any] = {
    "endpoint": "10.0.0.1",
    "identity": {"uuid": "11111111-2222-3333-4444-555555555555"},
}
OPERATORS_FIELDS: dict[str, Any] = {
    "approved": True,
    "maintenanceFingerprint": PIN,
    "configuration": {"secretRef": {"name": "worker", "key": "config"}},
    "talosconfig": {"secretRef": {"name": "talos", "key": "config"}},
    "operation": {"id": "1", "action": "Reboot"},
}
OTHERS = [account for account in SERVICE_ACCOUNTS if account != "status-writer"]

Connect = Callable[[str], Awaitable[kube.Api]]


@pytest.fixture(scope="module")
def all_rights(kube_apiserver: KubeApi) -> Iterator[None]:
    """Cluster-admin for every service, in force when the test starts."""
    name = "test-policies-all-rights"
    kube_apiserver.admin.must(
        "POST",
        BINDING,
        {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [
                {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user_of(account)}
                for account in SERVICE_ACCOUNTS
            ],
        },
    )
    wait_until_all_may_read_secrets(kube_apiserver, True)
    yield
    kube_apiserver.admin.must("DELETE", f"{BINDING}/{name}")
    wait_until_all_may_read_secrets(kube_apiserver, False)


def wait_until_all_may_read_secrets(api: KubeApi, expected: bool) -> None:
    """The authoriser hears of bindings by a watch."""
    for account in SERVICE_ACCOUNTS:
        rest = api.rest(account)
        deadline = time.monotonic() + 10
        while (rest.ask("GET", "/api/v1/secrets?limit=1")[0] == 200) is not expected:
            assert time.monotonic() < deadline, f"{account} may read Secrets: {not expected}"
        rest.close()


@pytest.fixture
async def connect(clean_kube: KubeApi, kube_config: KubeConfig, all_rights: None) -> AsyncIterator[Connect]:
    async with AsyncExitStack() as stack:

        async def opened(account: str) -> kube.Api:
            return await stack.enter_async_context(kube.connect(str(kube_config(account)), agent="test"))

        yield opened


async def created(api: kube.Api, **fields: Any) -> None:
    await api.create(kube.MACHINES, {"metadata": {"name": "box-1"}, "spec": {**SPEC, **fields}}, NAMESPACE)


async def spec_patch(api: kube.Api, spec: dict[str, Any]) -> None:
    await api.merge_patch(kube.MACHINES, "box-1", {"spec": spec}, NAMESPACE, manager="test")


async def spec_apply(api: kube.Api, spec: dict[str, Any]) -> None:
    await api.apply(kube.MACHINES, "box-1", {"spec": {**SPEC, **spec}}, NAMESPACE, manager="test")


async def status_patch(api: kube.Api, status: dict[str, Any] | None) -> None:
    await api.merge_patch(kube.MACHINES, "box-1", {"status": status}, NAMESPACE, manager="test", subresource="status")


async def status_apply(api: kube.Api, status: dict[str, Any] | None) -> None:
    await api.apply(kube.MACHINES, "box-1", {"status": status or {}}, NAMESPACE, manager="test", subresource="status")


def test_every_field_of_spec_has_a_message_of_its_own() -> None:
    documents = list(yaml.safe_load_all((DEPLOY / "crds" / "policies.yaml").read_text()))
    [policy] = [
        d
        for d in documents
        if d["metadata"]["name"] == "spec-is-the-operators.nodetrail.dev" and "variables" in d["spec"]
    ]
    messages = " ".join(rule["messageExpression"] for rule in policy["spec"]["validations"])
    assert [field for field in crd.spec_schema()["properties"] if f'"spec.{field}"' not in messages] == []


class TestSpecIsTheOperators:
    @pytest.mark.parametrize("account", SERVICE_ACCOUNTS)
    @pytest.mark.parametrize(
        ("field", "value"),
        [("endpoint", "10.0.0.9"), ("hostname", "node-1"), *OPERATORS_FIELDS.items()],
    )
    async def test_no_service_changes_a_field(self, connect: Connect, account: str, field: str, value: Any) -> None:
        await created(await connect("admin"))
        service = await connect(account)
        for change in (spec_patch, spec_apply):
            with pytest.raises(
                kube.Forbidden, match=f"spec.{field} is the operator's to set, never {user_of(account)}"
            ):
                await change(service, {field: value})
        await spec_patch(await connect("admin"), {field: value})

    @pytest.mark.parametrize("field", OPERATORS_FIELDS)
    async def test_no_service_takes_a_field_away(self, connect: Connect, field: str) -> None:
        admin = await connect("admin")
        await created(admin, **OPERATORS_FIELDS)
        with pytest.raises(kube.Forbidden, match=f"spec.{field}"):
            await spec_patch(await connect("machine-reconciler"), {field: None})
        await spec_patch(admin, {field: None})

    @pytest.mark.parametrize("field", OPERATORS_FIELDS)
    async def test_a_service_creates_without_what_only_an_operator_decides(self, connect: Connect, field: str) -> None:
        service = await connect("machine-reconciler")
        with pytest.raises(kube.Forbidden, match=f"spec.{field} is the operator's to set"):
            await created(service, **{field: OPERATORS_FIELDS[field]})
        await created(service, approved=False, maintenanceFingerprint="", hostname="node-1")

    async def test_a_service_may_label_and_report(self, connect: Connect) -> None:
        await created(await connect("admin"), **OPERATORS_FIELDS)
        service = await connect("machine-reconciler")
        await service.merge_patch(
            kube.MACHINES, "box-1", {"metadata": {"labels": {"a": "b"}}}, NAMESPACE, manager="test"
        )
        await status_apply(service, {"nodeName": "node-1"})

    async def test_a_service_cannot_delete_and_create_anew(self, connect: Connect) -> None:
        await created(await connect("admin"))
        with pytest.raises(kube.Forbidden, match="operator's to delete"):
            await (await connect("machine-reconciler")).delete(kube.MACHINES, "box-1", NAMESPACE)
        await (await connect("admin")).delete(kube.MACHINES, "box-1", NAMESPACE)

    async def test_status_is_no_way_to_spec(self, connect: Connect) -> None:
        admin = await connect("admin")
        await created(admin)
        service = await connect("machine-reconciler")
        body = {"spec": {"approved": True}, "status": {"nodeName": "node-1"}}
        await service.merge_patch(kube.MACHINES, "box-1", body, NAMESPACE, manager="test", subresource="status")
        assert (await admin.get(kube.MACHINES, "box-1", NAMESPACE)).spec.approved is False


class TestObservedIsTheStatusWriters:
    @pytest.mark.parametrize("account", ["admin", *OTHERS])
    @pytest.mark.parametrize("field", OBSERVED)
    async def test_nobody_else_sets_a_field(self, connect: Connect, account: str, field: str) -> None:
        await created(await connect("admin"))
        other = await connect(account)
        for change in (status_patch, status_apply):
            with pytest.raises(kube.Forbidden, match=f"status.{field} is written by the status writer only"):
                await change(other, {field: OBSERVED[field]})

    @pytest.mark.parametrize("field", OBSERVED)
    async def test_nobody_else_changes_or_removes_a_field(self, connect: Connect, field: str) -> None:
        admin, writer = await connect("admin"), await connect("status-writer")
        await created(admin)
        await status_apply(writer, OBSERVED)
        for value in (BEYOND_OBSERVED[field], None):
            with pytest.raises(kube.Forbidden, match=f"status.{field} is written by the status writer only"):
                await status_patch(admin, {field: value})
            await status_patch(writer, {field: value})

    async def test_nobody_else_removes_all_of_status(self, connect: Connect) -> None:
        admin, writer = await connect("admin"), await connect("status-writer")
        await created(admin)
        await status_apply(writer, OBSERVED)
        with pytest.raises(kube.Forbidden, match=r"edit spec\.endpoint"):
            await status_patch(admin, None)

    async def test_others_report_beside_it(self, connect: Connect) -> None:
        admin, writer = await connect("admin"), await connect("status-writer")
        await created(admin)
        await status_apply(writer, OBSERVED)
        service = await connect("machine-reconciler")
        await service.apply(
            kube.MACHINES,
            "box-1",
            {"status": {"nodeName": "node-1"}},
            NAMESPACE,
            manager="nodetrail-machine-reconciler",
            subresource="status",
        )
        machine = await admin.get(kube.MACHINES, "box-1", NAMESPACE)
        assert (machine.status.node_name, machine.status.observed_endpoint) == ("node-1", "10.0.0.2")

    async def test_plain_edits_go_on_working(self, connect: Connect, kubectl: Tool) -> None:
        """A person edits what `kubectl get -o json` gave, status and all."""
        admin, writer = await connect("admin"), await connect("status-writer")
        await created(admin)
        await status_apply(writer, OBSERVED)
        shown = kubectl("get", "tm", "box-1", "-n", NAMESPACE, "-o", "json")
        kubectl("replace", "-f", "-", stdin=shown.replace('"endpoint": "10.0.0.1"', '"endpoint": "10.0.0.5"'))
        kubectl("label", "tm", "box-1", "-n", NAMESPACE, "rack=7")
        machine = await admin.get(kube.MACHINES, "box-1", NAMESPACE)
        assert (machine.spec.endpoint, machine.status.observed_endpoint) == ("10.0.0.5", "10.0.0.2")

    async def test_creating_anew_brings_no_observation(self, connect: Connect) -> None:
        admin = await connect("admin")
        body = {"metadata": {"name": "box-1"}, "spec": SPEC, "status": OBSERVED}
        made = await admin.create(kube.MACHINES, body, NAMESPACE)
        assert made.status.observed_endpoint == ""
        await admin.delete(kube.MACHINES, "box-1", NAMESPACE)
        await created(admin)
        assert (await admin.get(kube.MACHINES, "box-1", NAMESPACE)).status.observed_endpoint == ""

    async def test_the_main_resource_is_no_way_to_status(self, connect: Connect) -> None:
        admin = await connect("admin")
        await created(admin)
        await admin.merge_patch(kube.MACHINES, "box-1", {"status": OBSERVED}, NAMESPACE, manager="test")
        assert (await admin.get(kube.MACHINES, "box-1", NAMESPACE)).status.observed_endpoint == ""
