"""Who owns which field: managedFields kept up through updates, and server-side apply by them.

Follows structured-merge-diff's updater for objects of one version. Managers are told apart by name, operation
and subresource; `time` has whole seconds and moves with the fields that a manager takes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from services.devapi import fields, refusal
from services.devapi.fields import Fields, Path

Schema = dict[str, Any]
Item = dict[str, Any]

UPDATERS_MAX = 10
"""As on a real server: entries of updaters beyond these are folded into one, oldest first."""
ANCIENT = "ancient-changes"

_NOT_OWNED = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",)}
    | {
        ("f:metadata", f"f:{name}")
        for name in ("name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation",
                     "managedFields", "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds")
    }
)  # fmt: skip


class Manager(NamedTuple):
    """Who writes, how and where."""

    name: str
    operation: str
    subresource: str = ""


class Owned(NamedTuple):
    """What a manager owns, and since when."""

    fields: Fields
    time: str


Owners = dict[Manager, Owned]


def read(item: Item) -> Owners:
    """Return the owners that an object's managedFields name."""
    owners: Owners = {}
    for entry in item["metadata"].get("managedFields") or []:
        manager = Manager(entry.get("manager", ""), entry.get("operation", ""), entry.get("subresource", ""))
        owners[manager] = Owned(fields.decode(entry.get("fieldsV1") or {}), entry.get("time", ""))
    return owners


def written(item: Item, owners: Owners) -> Item:
    """Return an object with these owners as its managedFields, in the order a real server keeps."""
    order = sorted(owners.items(), key=lambda pair: (pair[0].operation != "Apply", pair[1].time, pair[0]))
    entries = [
        {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": item["apiVersion"],
            "time": owned.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields.encode(owned.fields),
            **({"subresource": manager.subresource} if manager.subresource else {}),
        }
        for manager, owned in order
    ]
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    return {**item, "metadata": {**metadata, "managedFields": entries} if entries else metadata}


def same_but_for_times(one: Item, other: Item) -> bool:
    """Tell whether two objects are equal when neither resourceVersion nor the times of owners count."""
    if _timeless(one) != _timeless(other) or _plain(one["metadata"]) != _plain(other["metadata"]):
        return False
    return {key: value for key, value in one.items() if key != "metadata"} == {
        key: value for key, value in other.items() if key != "metadata"
    }


def _timeless(item: Item) -> dict[Manager, Any]:
    return {
        Manager(entry["manager"], entry["operation"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in item["metadata"].get("managedFields") or ()
    }


def after_update(live: Item, new: Item, *, schema: Schema, manager: Manager, reset: set[Path], now: str) -> Item:
    """Return `new` with its writer owning what it changed, and nobody what it removed or took."""
    difference = _difference(live, new, schema, reset)
    taken = frozenset(difference.added | difference.modified)
    owners = _without_lost(read(live), taken | frozenset(difference.removed), keep=None)
    mine = taken - _NOT_OWNED
    if mine:
        former = owners.get(manager)
        owners[manager] = Owned(mine | former.fields if former else mine, now)
    return written(new, _folded(owners))


def apply(
    live: Item, config: Item, *, schema: Schema, manager: Manager, force: bool, reset: set[Path]
) -> tuple[Item, Owners]:
    """Return the live object with a configuration applied, and the owners, the manager's time as it was before.

    Fields that the manager applied last time, did not mention now and that nobody else owns are removed.
    """
    mine = frozenset(path for path in fields.of(config, schema) if not _is_reset(path, reset)) - _NOT_OWNED
    owners = read(live)
    former, time = owners.get(manager, Owned(fields.NOTHING, ""))
    owners[manager] = Owned(mine, time)
    new = fields.merged(live, _without_reset(config, reset), schema)
    kept = fields.with_parents(path for owned in owners.values() for path in owned.fields)
    doomed = fields.with_parents(former) - kept
    if doomed:
        new = fields.without(new, doomed, schema)
    difference = _difference(live, new, schema, reset)
    taken = frozenset(difference.added | difference.modified)
    if not force:
        _refuse_conflicts(owners, taken, manager, live["apiVersion"])
    owners = _without_lost(owners, taken | frozenset(difference.removed), keep=manager)
    if not mine:
        owners.pop(manager, None)
    return new, owners


def applied(live: Item, new: Item, owners: Owners, *, manager: Manager, now: str) -> Item:
    """Return the object of an apply with its owners; the manager's time moves only when something else changed."""
    mine = owners.get(manager)
    if mine is not None and (not mine.time or _is_changed(live, new)):
        owners = {**owners, manager: Owned(mine.fields, now)}
    return written(new, owners)


def _is_changed(live: Item, new: Item) -> bool:
    return {**new, "metadata": _plain(new["metadata"])} != {**live, "metadata": _plain(live["metadata"])}


def _plain(metadata: Item) -> Item:
    return {key: value for key, value in metadata.items() if key not in {"managedFields", "resourceVersion"}}


def _difference(live: Item, new: Item, schema: Schema, reset: set[Path]) -> fields.Difference:
    """Compare two objects, with no regard to what the server itself sets."""
    difference = fields.compare(_without_system(live), _without_system(new), schema)
    if reset:
        for part in (difference.added, difference.modified, difference.removed):
            part -= {path for path in part if _is_reset(path, reset)}
    return difference


def _without_system(item: Item) -> Item:
    return {**item, "metadata": _plain(item["metadata"])} if "metadata" in item else item


def _is_reset(path: Path, reset: set[Path]) -> bool:
    return any(path[: len(top)] == top for top in reset)


def _without_reset(config: Item, reset: set[Path]) -> Item:
    tops = {top[0].removeprefix("f:") for top in reset}
    return {key: value for key, value in config.items() if key not in tops}


def _without_lost(owners: Owners, lost: Fields, *, keep: Manager | None) -> Owners:
    result: Owners = {}
    for manager, owned in owners.items():
        left = owned.fields if manager == keep else owned.fields - lost
        if left:
            result[manager] = Owned(left, owned.time)
    return result


def _refuse_conflicts(owners: Owners, taken: Fields, manager: Manager, api_version: str) -> None:
    conflicts: dict[str, list[str]] = {}
    for other, owned in owners.items():
        clashing = owned.fields & taken if other != manager else fields.NOTHING
        if clashing:
            how = f' with subresource "{other.subresource}"' if other.subresource else ""
            using = f" using {api_version}" if other.operation == "Update" else ""
            conflicts[f'"{other.name}"{how}{using}'] = [fields.shown(path) for path in clashing]
    if conflicts:
        raise refusal.apply_conflict(conflicts)


def _folded(owners: Owners) -> Owners:
    updaters = sorted(
        (manager for manager in owners if manager.operation == "Update"), key=lambda manager: owners[manager].time
    )
    if len(updaters) <= UPDATERS_MAX:
        return owners
    oldest = updaters[: len(updaters) - UPDATERS_MAX + 1]
    together: Fields = frozenset().union(*(owners[manager].fields for manager in oldest))
    kept = {manager: owned for manager, owned in owners.items() if manager not in oldest}
    return {**kept, Manager(ANCIENT, "Update"): Owned(together, owners[oldest[-1]].time)}
