"""From msgspec types to the structural schema that a CustomResourceDefinition wants.

Only what the machine's types use is translated; anything else raises, so that a new kind of field is
noticed here and not by an API server.
"""

from __future__ import annotations

import ast
import inspect
import itertools
from typing import Any

import msgspec

Schema = dict[str, Any]

_KEPT = ("type", "format", "enum", "pattern", "minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum")
_KNOWN = {*_KEPT, "title", "description", "default", "$ref", "anyOf", "properties", "required", "items"}


def structural(kind: type[msgspec.Struct]) -> Schema:
    """Return the structural schema of a struct: references inlined, nulls and defaults dropped, lists typed."""
    components = msgspec.json.schema_components([kind], ref_template="{name}")[1]
    return _convert({"$ref": kind.__name__}, components, _field_docs(kind))


def at(schema: Schema, path: str) -> Schema:
    """Return the schema of a field, such as `identity.macAddresses[]` (`[]` stands for a list's items)."""
    for part in path.replace("[]", ".[]").split("."):
        schema = schema["items"] if part == "[]" else schema["properties"][part]
    return schema


def _convert(node: Schema, components: dict[str, Any], docs: dict[str, str]) -> Schema:
    node = _resolved(node, components)
    made: Schema = {key: node[key] for key in _KEPT if key in node}
    if "enum" in made:
        made["type"] = "string"  # msgspec leaves it out
    if "type" not in made:
        raise TypeError(f"no structural form is known for {node}")
    if made["type"] == "integer":
        made["format"] = "int64"
    if made["type"] == "array":
        made["items"] = _convert(node["items"], components, docs)
        made["x-kubernetes-list-type"] = "atomic"
    if made["type"] == "object":
        made["properties"] = _properties(node, components, docs)
        if required := node.get("required"):
            made["required"] = sorted(required)
    return made


def _resolved(node: Schema, components: dict[str, Any]) -> Schema:
    """Follow a reference, and take the one option of "this or null"."""
    if unknown := node.keys() - _KNOWN:
        raise TypeError(f"no structural form is known for {sorted(unknown)} in {node}")
    if "anyOf" in node:
        options = [option for option in node["anyOf"] if option != {"type": "null"}]
        if len(options) != 1:
            raise TypeError(f"no structural form is known for a union of {options}")
        return _resolved(options[0], components)
    if "$ref" in node:
        return _resolved(components[node["$ref"]], components)
    return node


def _properties(node: Schema, components: dict[str, Any], docs: dict[str, str]) -> Schema:
    made = {}
    for name, field in node["properties"].items():
        converted = _convert(field, components, docs)
        if described := docs.get(f"{node['title']}.{name}"):
            converted = {"description": described, **converted}
        made[name] = converted
    return made


def _field_docs(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return the text of every field of a struct and of the structs inside it, by `Struct.encodedName`.

    The text is the string below the field or, without one, the docstring of the struct that the field holds.
    """
    docs: dict[str, str] = {}
    pending, seen = [kind], set()
    while pending:
        struct = pending.pop()
        if struct in seen:
            continue
        seen.add(struct)
        below = _strings_below_fields(struct)
        for field in msgspec.structs.fields(struct):
            inner = _structs_in(field.type)
            pending += inner
            text = below.get(field.name) or (inspect.getdoc(inner[0]) if inner else "")
            if text:
                docs[f"{struct.__name__}.{field.encode_name}"] = " ".join(text.split())
    return docs


def _strings_below_fields(struct: type[msgspec.Struct]) -> dict[str, str]:
    tree = ast.parse(inspect.getsource(struct))
    [body] = [node.body for node in tree.body if isinstance(node, ast.ClassDef)]
    docs = {}
    for field, below in itertools.pairwise(body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                docs[name] = text
    return docs


def _structs_in(annotation: Any) -> list[type[msgspec.Struct]]:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return [annotation]
    return [found for part in getattr(annotation, "__args__", ()) for found in _structs_in(part)]
