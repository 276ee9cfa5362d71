"""A KubeApi with what nodetrail needs in it: the CRD, the admission policies and the accounts, all in force."""

from __future__ import annotations

import http
import time
from collections.abc import Callable
from pathlib import Path

from libs.embedded.accounts import ADMIN
from libs.embedded.process import ProcessError
from tests.peers.kube_api import MACHINES, KubeApi
from tests.peers.rest import Rest
from tests.peers.tools import Tool

DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "k8s"
IN_FORCE_SECONDS = 30.0
_COLLECTION = f"/{MACHINES}/namespaces/default/talosmachines"
_BY_POLICY = "ValidatingAdmissionPolicy"


def kubectl_for(api: KubeApi, kubectl: Path, account: str = ADMIN) -> Tool:
    """Return kubectl as one of the accounts."""
    return Tool(kubectl, "--kubeconfig", api.kubeconfigs[account], home=api.folder / "home" / account)


def deploy(api: KubeApi, kubectl: Path) -> None:
    """Apply the CRD, the policies and the accounts, and return when they are in force, which is found by trying."""
    admin = kubectl_for(api, kubectl)
    admin("apply", "-k", DEPLOY / "crds")
    admin("apply", "-k", DEPLOY / "accounts")
    admin("wait", "--for=condition=Established", "crd/talosmachines.nodetrail.dev", "--timeout=30s")
    _until(lambda: _create(api.admin, "in-force") == "", what="a TalosMachine can be created")
    reconciler = api.rest("machine-reconciler")
    try:
        _until(lambda: _BY_POLICY in _claim_observed(api.admin), what="the policy about status.observed* is in force")
        _until(lambda: _BY_POLICY in _create(reconciler, "approved"), what="the policy about spec is in force")
    finally:
        reconciler.close()
    api.admin.must("DELETE", f"{_COLLECTION}/in-force")


def _create(rest: Rest, name: str) -> str:
    """Create a machine (the approved one only tentatively) and return why not, or nothing."""
    spec: dict[str, object] = {"endpoint": "192.0.2.1"} | ({"approved": True} if name == "approved" else {})
    status, answer = rest.ask(
        "POST",
        _COLLECTION + ("?dryRun=All" if name == "approved" else ""),
        {
            "apiVersion": "nodetrail.dev/v1alpha1",
            "kind": "TalosMachine",
            "metadata": {"name": name},
            "spec": spec,
        },
    )
    return "" if status == http.HTTPStatus.CREATED else str(answer)


def _claim_observed(rest: Rest) -> str:
    _, answer = rest.ask(
        "PATCH",
        f"{_COLLECTION}/in-force/status?dryRun=All",
        {"status": {"observedEndpoint": "192.0.2.2"}},
        "application/merge-patch+json",
    )
    return str(answer)


def _until(holds: Callable[[], bool], *, what: str) -> None:
    deadline = time.monotonic() + IN_FORCE_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise ProcessError(f"not within {IN_FORCE_SECONDS:g} s: {what}")
        time.sleep(0.05)
