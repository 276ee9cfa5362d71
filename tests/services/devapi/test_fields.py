"""Field sets and their spelling, beyond what the contract tests show."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.devapi import fields, managed
from services.devapi.managed import Manager

SCHEMA = {
    "properties": {
        "a": {"properties": {"b": {}, "c": {}}},
        "set": {"x-kubernetes-list-type": "set"},
        "keyed": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"properties": {"k": {}, "v": {}}}},
        "atomic": {"x-kubernetes-map-type": "atomic"},
        "list": {},
    }
}  # fmt: skip

scalars: st.SearchStrategy[Any] = st.integers(0, 2) | st.none()
values: st.SearchStrategy[Any] = scalars | st.dictionaries(st.sampled_from("bc"), scalars | st.just({}), max_size=2)
items = st.fixed_dictionaries({"k": st.integers(0, 3)}, optional={"v": values})


def _key(item: Any) -> str:
    return str(item["k"])


# Lists with keys are never empty here: as on a real server, nobody owns an empty one.
objects = st.fixed_dictionaries(
    {},
    optional={
        "a": st.dictionaries(st.sampled_from("bc"), values, max_size=2),
        "set": st.lists(st.integers(0, 3), unique=True, min_size=1, max_size=3),
        "keyed": st.lists(items, unique_by=_key, min_size=1, max_size=3),
        "atomic": st.dictionaries(st.sampled_from("xy"), values, max_size=2),
        "list": st.lists(values, max_size=2),
    },
)  # fmt: skip


@given(objects)
def test_field_sets_survive_their_spelling(item: dict[str, object]) -> None:
    found = fields.of(item, SCHEMA)
    assert fields.decode(fields.encode(found)) == found


@given(objects)
def test_an_object_does_not_differ_from_itself(item: dict[str, object]) -> None:
    difference = fields.compare(item, {**item}, SCHEMA)
    assert difference.added | difference.modified | difference.removed == set()


@given(objects, objects)
def test_differences_mirror(one: dict[str, object], other: dict[str, object]) -> None:
    there, back = fields.compare(one, other, SCHEMA), fields.compare(other, one, SCHEMA)
    assert (there.added, there.removed, there.modified) == (back.removed, back.added, back.modified)


def whole(item: dict[str, object]) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, **item}


def apply(live: dict[str, object], config: dict[str, object], name: str) -> dict[str, object]:
    manager = Manager(name, "Apply")
    new, owners = managed.apply(live, whole(config), schema=SCHEMA, manager=manager, force=True, reset=set())
    return managed.applied(live, new, owners, manager=manager, now="now")


@given(objects, objects)
def test_what_one_manager_applies_is_all_there_is_of_it(first: dict[str, object], second: dict[str, object]) -> None:
    once = apply(whole({}), first, "m")
    twice = apply(once, second, "m")
    direct = apply(whole({}), second, "m")
    assert twice["metadata"] == direct["metadata"]
    assert fields.of(twice, SCHEMA) == fields.of(direct, SCHEMA)
    assert apply(twice, second, "m") == twice


@given(objects, objects)
def test_nobody_owns_what_is_not_there(first: dict[str, object], second: dict[str, object]) -> None:
    item = apply(apply(whole({}), first, "one"), second, "two")
    there = fields.with_parents(fields.of(item, SCHEMA))
    for owned in managed.read(item).values():
        assert owned.fields <= there


def test_updaters_beyond_a_number_are_folded() -> None:
    item = whole({})
    for number in range(managed.UPDATERS_MAX + 5):
        new = {**item, "a": {**item.get("a", {}), f"f{number}": number}}  # type: ignore[dict-item]  # untyped JSON
        item = managed.after_update(
            item, new, schema={}, manager=Manager(f"m{number:02}", "Update"), reset=set(), now=f"t{number:02}"
        )
    owners = managed.read(item)
    assert len(owners) == managed.UPDATERS_MAX
    assert ("f:a", "f:f3") in owners[Manager(managed.ANCIENT, "Update")].fields


def test_paths_are_shown_as_kubectl_knows_them() -> None:
    path = ("f:status", "f:conditions", 'k:{"type":"Ready"}', "f:status")
    assert fields.shown(path) == '.status.conditions[type="Ready"].status'
    assert fields.shown(("f:metadata", "f:finalizers", 'v:"a"')) == '.metadata.finalizers[="a"]'
