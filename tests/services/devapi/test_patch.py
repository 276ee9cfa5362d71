"""The patch kinds, each by its RFC's own examples where it has some."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from services.devapi import builtin, patch
from services.devapi.refusal import Refusal


@pytest.mark.parametrize(
    ("target", "change", "result"),
    [  # RFC 7386, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge(target: Any, change: Any, result: Any) -> None:
    before = copy.deepcopy(target)
    assert patch.merge(target, change) == result
    assert target == before


@pytest.mark.parametrize(
    ("target", "operations", "result"),
    [  # RFC 6902, appendix A
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"foo": "bar", "baz": "qux"}),
        ({"foo": ["a", "b"]}, [{"op": "add", "path": "/foo/1", "value": "q"}], {"foo": ["a", "q", "b"]}),
        ({"foo": ["a"]}, [{"op": "add", "path": "/foo/-", "value": ["b"]}], {"foo": ["a", ["b"]]}),
        ({"baz": 1, "foo": 2}, [{"op": "remove", "path": "/baz"}], {"foo": 2}),
        ({"foo": ["a", "b", "c"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["a", "c"]}),
        ({"baz": 1}, [{"op": "replace", "path": "/baz", "value": 2}], {"baz": 2}),
        ({"a": [{"b": 1}]}, [{"op": "replace", "path": "/a/0/b", "value": 2}], {"a": [{"b": 2}]}),
        ({"a": {"x": 1}, "b": {}}, [{"op": "move", "from": "/a/x", "path": "/b/y"}], {"a": {}, "b": {"y": 1}}),
        ({"a": [1, 2, 3]}, [{"op": "move", "from": "/a/0", "path": "/a/2"}], {"a": [2, 3, 1]}),
        ({"a": 1}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": 1, "b": 1}),
        ({"a": 1}, [{"op": "test", "path": "/a", "value": 1}], {"a": 1}),
        ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
        ({"a": 1}, [{"op": "add", "path": "", "value": {"b": 2}}], {"b": 2}),
    ],
)
def test_json_patch(target: Any, operations: Any, result: Any) -> None:
    before = copy.deepcopy(target)
    assert patch.json_patch(target, operations) == result
    assert target == before


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ({"op": "add"}, 400),
        ([1], 400),
        ([{"op": "spin", "path": "/a"}], 400),
        ([{"op": "add", "path": "a", "value": 1}], 400),
        ([{"op": "add", "path": "/a"}], 400),
        ([{"op": "add", "path": "/x/y", "value": 1}], 422),
        ([{"op": "add", "path": "/list/7", "value": 1}], 422),
        ([{"op": "add", "path": "/a/b", "value": 1}], 422),
        ([{"op": "replace", "path": "/x", "value": 1}], 422),
        ([{"op": "remove", "path": "/list/1"}], 422),
        ([{"op": "remove", "path": ""}], 422),
        ([{"op": "test", "path": "/a", "value": 2}], 422),
        ([{"op": "move", "from": "/x", "path": "/y"}], 422),
        ([{"op": "test", "path": "/a", "value": 1}] * 10_001, 400),
    ],
)
def test_a_json_patch_that_cannot_be_done(operations: Any, code: int) -> None:
    with pytest.raises(Refusal) as refused:
        patch.json_patch({"a": 1, "list": [1]}, operations)
    assert refused.value.code == code


NODE = next(kind for kind in builtin.KINDS if kind.kind == "Node").schema
STATUS = {
    "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "r"}, {"type": "X", "status": "True"}]}
}


@pytest.mark.parametrize(
    ("change", "result"),
    [
        (
            [{"type": "Ready", "status": "False"}],
            [{"type": "Ready", "status": "False", "reason": "r"}, {"type": "X", "status": "True"}],
        ),
        ([{"type": "X", "$patch": "delete"}], [{"type": "Ready", "status": "True", "reason": "r"}]),
        ([{"$patch": "replace"}, {"type": "Y"}], [{"type": "Y"}]),
    ],
)
def test_strategic_merge_of_a_keyed_list(change: Any, result: Any) -> None:
    merged = patch.strategic(STATUS, {"status": {"conditions": change}}, NODE)
    assert merged["status"]["conditions"] == result


def test_strategic_merge_elsewhere() -> None:
    target = {"metadata": {"finalizers": ["a", "b"], "labels": {"x": "y"}}, "spec": {"taints": [{"key": "k"}]}}
    change = {
        "metadata": {
            "finalizers": ["c"],
            "$deleteFromPrimitiveList/finalizers": ["a"],
            "labels": {"$patch": "replace", "n": "m"},
        },
        "$setElementOrder/x": [],
        "spec": {"taints": [{"key": "other"}], "gone": None},
    }
    merged = patch.strategic(target, change, NODE)
    assert sorted(merged["metadata"]["finalizers"]) == ["b", "c"]
    assert merged["metadata"]["labels"] == {"n": "m"}
    assert merged["spec"] == {"taints": [{"key": "k"}, {"key": "other"}]}
    with pytest.raises(Refusal):
        patch.strategic({}, {"status": {"conditions": [{"status": "no key"}]}}, NODE)
