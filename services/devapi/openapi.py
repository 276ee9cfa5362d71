"""As much of OpenAPI v3 as kubectl asks for: which kinds validate fields, and schemas for `kubectl explain`.

There is no OpenAPI v2 here: kubectl falls back to it only when v3 does not answer.
"""

from __future__ import annotations

from typing import Any

from services.devapi.kinds import Kind, Kinds

_VALIDATION = {
    "name": "fieldValidation",
    "in": "query",
    "description": "Ignore, Warn or Strict: what happens to unknown fields",
    "schema": {"type": "string", "uniqueItems": True},
}
_FIELDS = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object", "description": "Standard object metadata."},
}


def index(kinds: Kinds) -> dict[str, Any]:
    """Return the list of documents, one for each group and version."""
    places = sorted({_place(kind) for kind in kinds})
    return {"paths": {place: {"serverRelativeURL": f"/openapi/v3/{place}"} for place in places}}


def document(kinds: Kinds, place: str) -> dict[str, Any] | None:
    """Return the document of one group and version, such as `apis/nodetrail.dev/v1alpha1`."""
    here = [kind for kind in kinds if _place(kind) == place]
    if not here:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "nodetrail devapi", "version": "v1"},
        "paths": {_path(kind): _operations(kind) for kind in here},
        "components": {"schemas": {_schema_name(kind): _schema(kind) for kind in here}},
    }


def _place(kind: Kind) -> str:
    return f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"


def _path(kind: Kind) -> str:
    namespace = "/namespaces/{namespace}" if kind.namespaced else ""
    return f"/{_place(kind)}{namespace}/{kind.plural}/{{name}}"


def _operations(kind: Kind) -> dict[str, Any]:
    about = {"x-kubernetes-group-version-kind": _names(kind)}
    reference = {"schema": {"$ref": f"#/components/schemas/{_schema_name(kind)}"}}
    answer = {"200": {"description": "OK", "content": {"application/json": reference}}}
    return {
        "get": {"x-kubernetes-action": "get", "responses": answer, **about},
        "patch": {"x-kubernetes-action": "patch", "parameters": [_VALIDATION], "responses": answer, **about},
    }


def _names(kind: Kind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _schema_name(kind: Kind) -> str:
    reversed_group = ".".join(reversed((kind.group or "core.api.k8s.io").split(".")))
    return f"{reversed_group}.{kind.version}.{kind.kind}"


def _schema(kind: Kind) -> dict[str, Any]:
    properties = {**_FIELDS, **{k: v for k, v in kind.schema.get("properties", {}).items() if k not in _FIELDS}}
    return {
        **kind.schema,
        "type": "object",
        "properties": properties,
        "x-kubernetes-group-version-kind": [_names(kind)],
    }
