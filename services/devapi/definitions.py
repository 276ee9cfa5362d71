"""CustomResourceDefinitions: what makes one acceptable, and the kind that comes of it.

One served and stored version each; no conversion, no scale subresource.
"""

from __future__ import annotations

import json
from typing import Any

from services.devapi import refusal
from services.devapi.cel.rules import compile_rules
from services.devapi.cel.values import CelError
from services.devapi.kinds import Column, Kind
from services.devapi.refusal import Cause

Item = dict[str, Any]

GROUP = "apiextensions.k8s.io"
RESOURCE = (GROUP, "customresourcedefinitions")
_AGE = Column(name="Age", type="date", path=".metadata.creationTimestamp")


def kind_of(item: Item) -> Kind:
    """Return the kind that a definition defines; refuses one that devapi cannot serve as it is written."""
    spec = item.get("spec") or {}
    names = spec.get("names") or {}
    versions = [version for version in spec.get("versions") or () if version.get("served")]
    _check(item, spec, names)
    if len(versions) != 1 or len(spec["versions"]) != 1:
        raise refusal.not_offered("CustomResourceDefinitions with more than one version")
    version = versions[0]
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    try:
        rules = compile_rules(schema)
    except CelError as error:
        message = f"compilation failed: {error}"
        raise _invalid(item, "spec.versions[0].schema.openAPIV3Schema", message) from error
    return Kind(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        namespaced=spec.get("scope") == "Namespaced",
        has_status="status" in (version.get("subresources") or {}),
        has_generation=True,
        unconditional_update=False,
        schema={**schema, "properties": {**schema.get("properties", {}), "metadata": _METADATA}},
        custom=True,
        columns=_columns(version),
        rules=rules,
    )


# Every object's metadata, so that owners' fields in it are known apart.
_STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
_METADATA = {
    "type": "object",
    "properties": {
        "labels": _STRINGS,
        "annotations": _STRINGS,
        "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "ownerReferences": {
            "type": "array",
            "items": {"type": "object"},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
        },
    },
}


def _columns(version: Item) -> tuple[Column, ...]:
    given = version.get("additionalPrinterColumns") or ()
    columns = tuple(
        Column(
            name=column["name"],
            type=column.get("type", "string"),
            path=column["jsonPath"],
            priority=column.get("priority", 0),
        )
        for column in given
    )
    return columns or (_AGE,)


def _check(item: Item, spec: Item, names: Item) -> None:
    for field in ("group", "scope", "names", "versions"):
        if not spec.get(field):
            raise _invalid(item, f"spec.{field}", "Required value", "FieldValueRequired")
    for field in ("plural", "kind"):
        if not names.get(field):
            raise _invalid(item, f"spec.names.{field}", "Required value", "FieldValueRequired")
    wanted = f"{names['plural']}.{spec['group']}"
    if item["metadata"]["name"] != wanted:
        shown = json.dumps(item["metadata"]["name"])
        raise _invalid(item, "metadata.name", f'Invalid value: {shown}: must be spec.names.plural+"."+spec.group')


def _invalid(item: Item, field: str, message: str, reason: str = "FieldValueInvalid") -> refusal.Refusal:
    cause = Cause(field=field, reason=reason, message=message)
    return refusal.invalid("CustomResourceDefinition", GROUP, item["metadata"]["name"], [cause])


def established(item: Item, time: str) -> Item:
    """Return a definition with the status that the controllers of a real API server would give it."""
    names = item["spec"]["names"]
    accepted = {
        "plural": names["plural"],
        "singular": names.get("singular") or names["kind"].lower(),
        "kind": names["kind"],
        "listKind": names.get("listKind") or f"{names['kind']}List",
        **{key: names[key] for key in ("shortNames", "categories") if names.get(key)},
    }
    conditions = [
        {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found"},
        {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": "established"},
    ]
    before = (item.get("status") or {}).get("conditions")
    return {
        **item,
        "spec": {"conversion": {"strategy": "None"}, **item["spec"], "names": {**names, **accepted}},
        "status": {
            "conditions": before or [{**condition, "lastTransitionTime": time} for condition in conditions],
            "acceptedNames": accepted,
            "storedVersions": [item["spec"]["versions"][0]["name"]],
        },
    }
