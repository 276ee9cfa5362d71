"""Each account has exactly the rights that its service needs, as the real API server sees it."""

from __future__ import annotations

from itertools import product

import pytest

from libs.embedded.accounts import SERVICE_ACCOUNTS, groups_of, user_of
from tests.peers.kube_api import KubeApi

REVIEW = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
READ = {"get", "list", "watch"}
RESOURCES = (
    ("nodetrail.dev", "talosmachines", ""),
    ("nodetrail.dev", "talosmachines", "status"),
    ("", "secrets", ""),
    ("", "nodes", ""),
    ("", "nodes", "status"),
    ("", "events", ""),
    ("", "configmaps", ""),
    ("", "serviceaccounts", "token"),
    ("authentication.k8s.io", "tokenreviews", ""),
    ("authorization.k8s.io", "subjectaccessreviews", ""),
    ("coordination.k8s.io", "leases", ""),
    ("rbac.authorization.k8s.io", "clusterrolebindings", ""),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies", ""),
)
# Everywhere, but for the Secrets: those only where a RoleBinding says so, as in the namespace nodetrail.
RIGHTS = {
    "node-watcher": {"nodes": READ},
    "machine-reconciler": {
        "talosmachines": {*READ, "create"},
        "talosmachines/status": {"patch"},
        "nodes": READ,
        "events": {"create", "patch"},
    },
    "status-writer": {"talosmachines": READ, "talosmachines/status": {"patch"}},
    "gateway": {"talosmachines": READ, "tokenreviews": {"create"}, "subjectaccessreviews": {"create"}},
}
SECRETS = {("machine-reconciler", "nodetrail"): {"get"}}


@pytest.mark.parametrize("account", SERVICE_ACCOUNTS)
@pytest.mark.parametrize("namespace", ["nodetrail", "nodetrail-system", "default"])
def test_has_these_rights_and_no_more(kube_apiserver: KubeApi, account: str, namespace: str) -> None:
    expected = RIGHTS[account] | {"secrets": SECRETS.get((account, namespace), set())}
    found: dict[str, set[str]] = {}
    for (group, resource, subresource), verb in product(RESOURCES, VERBS):
        asked = {"group": group, "resource": resource, "subresource": subresource, "verb": verb}
        spec = {"user": user_of(account), "groups": [*groups_of(account), "system:authenticated"]}
        body = {"spec": {**spec, "resourceAttributes": {**asked, "namespace": namespace}}}
        if kube_apiserver.admin.must("POST", REVIEW, body)["status"]["allowed"]:
            found.setdefault(f"{resource}/{subresource}".rstrip("/"), set()).add(verb)
    assert found == {what: verbs for what, verbs in expected.items() if verbs}
