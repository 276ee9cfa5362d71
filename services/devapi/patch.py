"""The three patch kinds beside apply: JSON merge patch (RFC 7386), JSON patch (RFC 6902), strategic merge.

Pure: every function returns a new value and leaves its arguments as they were. The result may share parts
with them, which is why nothing in devapi ever changes an object in place.
"""

from __future__ import annotations

from typing import Any

from services.devapi import refusal

OPERATIONS_MAX = 10_000
"""As many operations as kube-apiserver allows in one JSON patch."""


def merge(target: Any, patch: Any) -> Any:
    """Return `target` with an RFC 7386 patch applied; null deletes."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def strategic(target: Any, patch: Any, schema: dict[str, Any]) -> Any:
    """Return `target` with a strategic merge patch applied.

    Lists merge by the key that the schema names (`x-kubernetes-patch-merge-key`), else they are replaced.
    `$patch: delete|replace`, `$deleteFromPrimitiveList` and `$setElementOrder` are known as far as kubectl sends them.
    """
    if not isinstance(patch, dict):
        return patch
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    result = dict(target) if isinstance(target, dict) else {}
    properties = schema.get("properties", {})
    for key, value in patch.items():
        if key.startswith("$retainKeys"):
            continue
        if key.startswith("$setElementOrder/"):
            continue  # the order of keyed lists carries no meaning in anything nodetrail stores
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.partition("/")[2]
            result[field] = [item for item in result.get(field, []) if item not in value]
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = _strategic_field(result.get(key), value, properties.get(key, {}))
    return result


def _strategic_field(target: Any, patch: Any, schema: dict[str, Any]) -> Any:
    key = schema.get("x-kubernetes-patch-merge-key")
    if not isinstance(patch, list):
        return strategic(target, patch, schema)
    if schema.get("x-kubernetes-patch-strategy") == "merge" and not key:
        kept = list(target or [])
        return kept + [item for item in patch if item not in kept]
    if not key:
        return patch
    items = schema.get("items", {})
    result = list(target or [])
    for change in patch:
        if not isinstance(change, dict) or key not in change:
            if isinstance(change, dict) and change.get("$patch") == "replace":
                return [item for item in patch if "$patch" not in item]
            raise refusal.bad_request(f"map: {change} does not contain declared merge key: {key}")
        place = next((i for i, item in enumerate(result) if item.get(key) == change[key]), None)
        if change.get("$patch") == "delete":
            result = [item for item in result if item.get(key) != change[key]]
        elif place is None:
            result.append(strategic({}, change, items))
        else:
            result[place] = strategic(result[place], change, items)
    return result


def json_patch(target: Any, operations: Any) -> Any:
    """Return `target` with an RFC 6902 patch applied; a failed `test` refuses the whole patch."""
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        raise refusal.bad_request("a JSON patch is a list of operations")
    if len(operations) > OPERATIONS_MAX:
        raise refusal.bad_request(f"a JSON patch may have {OPERATIONS_MAX} operations, this has {len(operations)}")
    for operation in operations:
        target = _operate(target, operation)
    return target


def _operate(target: Any, operation: dict[str, Any]) -> Any:
    name = operation.get("op")
    path = _pointer(operation.get("path"))
    match name:
        case "add":
            return _put(target, path, _value(operation), replace=False)
        case "replace":
            _look(target, path)
            return _put(target, path, _value(operation), replace=True)
        case "remove":
            return _remove(target, path)
        case "test":
            if _look(target, path, missing=None) != _value(operation):
                raise _unprocessable(f"testing value {operation['path']} failed")
            return target
        case "copy":
            return _put(target, path, _look(target, _pointer(operation.get("from"))), replace=False)
        case "move":
            source = _pointer(operation.get("from"))
            return _put(_remove(target, source), path, _look(target, source), replace=False)
        case _:
            raise refusal.bad_request(f"unknown JSON patch operation {name!r}")


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise refusal.bad_request(f"JSON patch operation {operation.get('op')!r} needs a value")
    return operation["value"]


def _pointer(text: Any) -> tuple[str, ...]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise refusal.bad_request(f"{text!r} is not a JSON pointer")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:])


class _Raise:
    """Marks that a missing value is an error."""


def _look(target: Any, path: tuple[str, ...], missing: Any = _Raise) -> Any:
    for part in path:
        if isinstance(target, dict) and part in target:
            target = target[part]
        elif isinstance(target, list) and part.isdecimal() and int(part) < len(target):
            target = target[int(part)]
        elif missing is _Raise:
            raise _unprocessable(f"the path /{'/'.join(path)} does not exist")
        else:
            return missing
    return target


def _put(target: Any, path: tuple[str, ...], value: Any, *, replace: bool) -> Any:
    if not path:
        return value
    head, rest = path[0], path[1:]
    if isinstance(target, dict):
        if rest and head not in target:
            raise _unprocessable(f"add operation does not apply: doc is missing path: {head!r}")
        return {**target, head: _put(target[head], rest, value, replace=replace) if rest else value}
    if isinstance(target, list):
        place = len(target) if head == "-" and not rest else _index(target, head, slack=0 if rest or replace else 1)
        if rest:
            return [*target[:place], _put(target[place], rest, value, replace=replace), *target[place + 1 :]]
        return [*target[:place], value, *target[place + (1 if replace else 0) :]]
    raise _unprocessable(f"{head!r} leads into a value that has no fields")


def _remove(target: Any, path: tuple[str, ...]) -> Any:
    if not path:
        raise _unprocessable("the whole object cannot be removed")
    head, rest = path[0], path[1:]
    if isinstance(target, dict) and head in target:
        if rest:
            return {**target, head: _remove(target[head], rest)}
        return {key: value for key, value in target.items() if key != head}
    if isinstance(target, list):
        place = _index(target, head, slack=0)
        if rest:
            return [*target[:place], _remove(target[place], rest), *target[place + 1 :]]
        return [*target[:place], *target[place + 1 :]]
    raise _unprocessable(f"remove operation does not apply: no {head!r} there")


def _index(target: list[Any], text: str, *, slack: int) -> int:
    if not text.isdecimal() or int(text) >= len(target) + slack:
        raise _unprocessable(f"{text!r} is not an index of a list of {len(target)}")
    return int(text)


def _unprocessable(message: str) -> refusal.Refusal:
    return refusal.Refusal(422, "Invalid", f"the server rejected our request due to an error in our request: {message}")
