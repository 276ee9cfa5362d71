"""The built-in kinds that devapi offers: what nodetrail uses, and little more.

Their schemas hold only what merging needs (list keys): built-in objects are stored as they come, without
pruning, defaulting or validation beyond their metadata. The few things that a controller or a strategy of a
real cluster fills in, and on which somebody relies, are filled in here.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from services.devapi import refusal
from services.devapi.kinds import Column, Kind, Schema

EVENTS_MAX = 5_000
"""A real API server forgets Events after an hour; here the newest ones are kept."""


def _keyed(key: str, *, apply: bool = True) -> Schema:
    """A list that patches merge by a key; server-side apply does so too unless its list is atomic."""
    kept = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]} if apply else {}
    return {
        "type": "array",
        "items": {"type": "object"},
        "x-kubernetes-patch-merge-key": key,
        "x-kubernetes-patch-strategy": "merge",
        **kept,
    }


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


_STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
_METADATA = _object(
    labels=_STRINGS,
    annotations=_STRINGS,
    finalizers={
        "type": "array",
        "items": {"type": "string"},
        "x-kubernetes-list-type": "set",
        "x-kubernetes-patch-strategy": "merge",
    },
    ownerReferences=_keyed("uid"),
)
_STATUS_WITH_CONDITIONS = _object(conditions=_keyed("type"))
_NODE = _object(
    metadata=_METADATA,
    spec=_object(
        taints={**_keyed("key", apply=False), "x-kubernetes-list-type": "atomic"},
        podCIDRs={"type": "array", "x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"},
    ),
    status=_object(addresses=_keyed("type"), conditions=_keyed("type")),
)
_PLAIN = _object(metadata=_METADATA)
_WITH_CONDITIONS = _object(metadata=_METADATA, status=_STATUS_WITH_CONDITIONS)

_AGE = Column(name="Age", type="date", path=".metadata.creationTimestamp")


def _rbac(kind: str, plural: str, *, namespaced: bool) -> Kind:
    return Kind(
        group="rbac.authorization.k8s.io",
        version="v1",
        kind=kind,
        plural=plural,
        namespaced=namespaced,
        name_rule="segment",
        schema=_PLAIN,
    )


def _admission(kind: str, plural: str, *, status: bool) -> Kind:
    return Kind(
        group="admissionregistration.k8s.io",
        version="v1",
        kind=kind,
        plural=plural,
        namespaced=False,
        has_status=status,
        has_generation=True,
        schema=_WITH_CONDITIONS,
    )


CUSTOM_RESOURCE_DEFINITION = Kind(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    singular="customresourcedefinition",
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    namespaced=False,
    has_status=True,
    has_generation=True,
    schema=_WITH_CONDITIONS,
    columns=(Column(name="Created At", type="date", path=".metadata.creationTimestamp"),),
)
NAMESPACE = Kind(
    group="",
    version="v1",
    kind="Namespace",
    plural="namespaces",
    short_names=("ns",),
    namespaced=False,
    has_status=True,
    name_rule="label",
    schema=_WITH_CONDITIONS,
    columns=(Column(name="Status", type="string", path=".status.phase"), _AGE),
)

KINDS = (
    NAMESPACE,
    Kind(
        group="",
        version="v1",
        kind="Node",
        plural="nodes",
        short_names=("no",),
        namespaced=False,
        has_status=True,
        schema=_NODE,
        columns=(
            Column(name="Ready", type="string", path='.status.conditions[?(@.type=="Ready")].status'),
            Column(name="Internal-IP", type="string", path='.status.addresses[?(@.type=="InternalIP")].address'),
            _AGE,
        ),
    ),
    Kind(
        group="",
        version="v1",
        kind="Secret",
        plural="secrets",
        schema=_PLAIN,
        columns=(Column(name="Type", type="string", path=".type"), _AGE),
    ),
    Kind(group="", version="v1", kind="ConfigMap", plural="configmaps", short_names=("cm",), schema=_PLAIN),
    Kind(group="", version="v1", kind="ServiceAccount", plural="serviceaccounts", short_names=("sa",), schema=_PLAIN),
    Kind(
        group="",
        version="v1",
        kind="Event",
        plural="events",
        short_names=("ev",),
        schema=_PLAIN,
        keep_max=EVENTS_MAX,
        columns=(
            Column(name="Last Seen", type="date", path=".lastTimestamp"),
            Column(name="Type", type="string", path=".type"),
            Column(name="Reason", type="string", path=".reason"),
            Column(name="Object", type="string", path=".involvedObject.name"),
            Column(name="Message", type="string", path=".message"),
        ),
    ),
    Kind(
        group="coordination.k8s.io",
        version="v1",
        kind="Lease",
        plural="leases",
        unconditional_update=False,
        put_creates=True,
        schema=_PLAIN,
        columns=(Column(name="Holder", type="string", path=".spec.holderIdentity"), _AGE),
    ),
    _rbac("ClusterRole", "clusterroles", namespaced=False),
    _rbac("ClusterRoleBinding", "clusterrolebindings", namespaced=False),
    _rbac("Role", "roles", namespaced=True),
    _rbac("RoleBinding", "rolebindings", namespaced=True),
    _admission("ValidatingAdmissionPolicy", "validatingadmissionpolicies", status=True),
    _admission("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", status=False),
    CUSTOM_RESOURCE_DEFINITION,
)


def complete(kind: Kind, body: dict[str, Any]) -> dict[str, Any]:
    """Return an object about to be stored with what a real cluster would fill in."""
    match kind.kind:
        case "Secret":
            return _secret(body)
        case "Namespace":
            return {
                **body,
                "spec": {"finalizers": ["kubernetes"], **(body.get("spec") or {})},
                "status": {"phase": "Active", **(body.get("status") or {})},
            }
        case "Node":
            return {**body, "spec": body.get("spec") or {}}
        case "RoleBinding" | "ClusterRoleBinding":
            return {**body, "subjects": [_subject(subject) for subject in body.get("subjects") or []]}
        case _:
            return body


def _secret(body: dict[str, Any]) -> dict[str, Any]:
    """Check and complete a Secret; `stringData` is encoded into `data` and never stored."""
    result = {key: value for key, value in body.items() if key != "stringData"}
    data = dict(body.get("data") or {})
    for key, text in (body.get("stringData") or {}).items():
        data[key] = base64.b64encode(text.encode()).decode()
    for key, value in data.items():
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise refusal.bad_request(f"Secret in version v1 cannot be handled: data[{key}]: not base64") from error
    if data:
        result["data"] = data
    result.setdefault("type", "Opaque")
    return result


def _subject(subject: dict[str, Any]) -> dict[str, Any]:
    if subject.get("kind") == "ServiceAccount" or "apiGroup" in subject:
        return subject
    return {"apiGroup": "rbac.authorization.k8s.io", **subject}
