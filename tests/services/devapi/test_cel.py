"""The small CEL: what it computes, what it refuses to compile, and what ends in an error."""

from __future__ import annotations

from typing import Any

import pytest

from services.devapi.cel import CelError, compile_expression
from services.devapi.cel.rules import broken, compile_rules

SELF: dict[str, Any] = {
    "name": "node-1", "count": 3, "ok": True, "list": [1, 2, 3], "map": {"a": "x"}, "none": None, "ip": "192.0.2.1",
    "items": [{"type": "a", "v": 1}, {"type": "b", "v": 2}],
}  # fmt: skip


def value(text: str, **variables: Any) -> Any:
    variables = {"self": SELF, **variables}
    return compile_expression(text, set(variables))(variables)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("(1 + 2) * 3 == 9", True),
        ("0x10", 16),
        ("1.5e1", 15.0),
        ("'a' + \"b\"", "ab"),
        (r"'\u00e9\n'", "é\n"),
        (r"r'\d'", r"\d"),
        ("'''a\nb'''", "a\nb"),
        ("true && !false || false", True),
        ("1 < 2 && 2 <= 2 && 3 > 2 && 2 >= 2 && 1 != 2", True),
        ("1 == true", False),
        ("1 == 1.0", True),
        ("self.ok ? 'yes' : 'no'", "yes"),
        ("false ? 1 : true ? 2 : 3", 2),
        ("2 in self.list", True),
        ("'a' in self.map", True),
        ("self.list[0]", 1),
        ("self['name']", "node-1"),
        ("self.list + [4]", [1, 2, 3, 4]),
        ("{'a': 1}.a", 1),
        ("size(self.list) == self.list.size()", True),
        ("has(self.name) && !has(self.nothing)", True),
        ("self.none == null", True),
        ("self == self", True),
        ("[1, [2]] == [1, [2]]", True),
        ("self.items.all(i, i.v > 0)", True),
        ("self.items.exists(i, i.type == 'b')", True),
        ("self.items.exists_one(i, i.v < 2)", True),
        ("self.items.map(i, i.v)", [1, 2]),
        ("self.items.map(i, i.v > 1, i.type)", ["b"]),
        ("self.items.filter(i, i.v > 1).size()", 1),
        ("self.map.all(k, k == 'a')", True),
        ("self.name.startsWith('node') && self.name.endsWith('-1') && self.name.contains('de')", True),
        ("self.name.matches('^[a-z]+-[0-9]$')", True),
        ("self.name.substring(5) + self.name.substring(0, 1)", "1n"),
        ("self.name.indexOf('-') + self.name.lastIndexOf('-')", 8),
        ("self.name.split('-')[1]", "1"),
        ("self.name.upperAscii().replace('-', '')", "NODE1"),
        ("int('42') + int(1.9)", 43),
        ("string(7) + string(true)", "7true"),
        ("double('1.5')", 1.5),
        ("isIP(self.ip) && ip(self.ip).family() == 4 && !isIP('::ffff:192.0.2.1') && !isIP('fe80::1%eth0')", True),
        ("isCIDR('192.0.2.0/24') && !isCIDR('192.0.2.0')", True),
        ("format.dns1123Subdomain().validate('a.b').hasValue()", False),
        ("format.dns1123Label().validate('a.b').hasValue()", True),
        ("self.?name.orValue('x') + self.?nothing.orValue('y')", "node-1y"),
        ("self.?map.?a == optional.of('x')", True),
        ("self.?nothing.?deep == optional.none()", True),
        ("self.?nothing.?deep.hasValue()", False),
        ("self.list[?9].orValue(0)", 0),
        ("self.?name.optMap(n, n + '!').value()", "node-1!"),
        ("timestamp('2026-01-01T00:00:00Z') < timestamp('2026-01-01T00:00:01Z')", True),
        ("self.nothing == 1 || true", True),
        ("true || self.nothing == 1", True),
        ("self.nothing == 1 && false", False),
        ("[1, 2].exists(i, self.nothing || i == 2) || true", True),
        ("1 // a comment\n + 1", 2),
    ],
)
def test_values(text: str, expected: Any) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    "text",
    ["", "1 +", "(1", "self.", "unknown", "unknown(1)", "self.unknown()", "1 2", "'open", "has(1)", "self ? 1", "a.b",
     "[1", "{1}", "(" * 200, "self.all()", "self.all(1)", "1" * 20_000],
)  # fmt: skip
def test_what_is_not_understood_is_refused_when_compiled(text: str) -> None:
    with pytest.raises(CelError):
        compile_expression(text, {"self"})


@pytest.mark.parametrize(
    "text",
    ["self.nothing", "self.list[9]", "self.name.nothing", "1 + 'a'", "!1", "1 && true", "1 / 0", "1 % 0", "size(1)",
     "int('x')", "int('9999999999999999999')", "ip('x')", "self.name.substring(9)", "1.startsWith('a')", "'a' < 1",
     "self.name.matches('(')", "1.all(i, true)", "optional.none().value()", "timestamp('x')", "true in 1", "-'a'",
     "self.name.split()", "[1, 2].all(i, self.nothing)"],
)  # fmt: skip
def test_what_has_no_value_is_an_error(text: str) -> None:
    with pytest.raises(CelError):
        value(text)


def test_an_expression_tells_what_it_reads() -> None:
    assert compile_expression("self == oldSelf", {"self", "oldSelf"}).names == {"self", "oldSelf"}
    assert compile_expression("[1].all(self, self > 0)", {"oldSelf"}).names == frozenset()


SCHEMA: dict[str, Any] = {
    "properties": {
        "a": {"x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed", "fieldPath": ".b"}]},
        "list": {
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "messageExpression": "'no less than ' + string(oldSelf.v)"}]},
        },
        "map": {"additionalProperties": {"x-kubernetes-validations": [{"rule": "self > 0"}]}},
        "first": {"x-kubernetes-validations": [{"rule": "oldSelf.hasValue() || self == 1", "optionalOldSelf": True}]},
    }
}  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ({}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["a.b: Invalid value: 2: fixed"]),
        ({"list": [{"k": 1, "v": 5}, {"k": 2, "v": 5}]}, {"list": [{"k": 2, "v": 5}, {"k": 1, "v": 4}]},
         ['list[1]: Invalid value: "object": no less than 5']),
        ({}, {"map": {"x": 1, "y": 0}}, ["map.y: Invalid value: 0: failed rule: self > 0"]),
        ({}, {"map": {"x": "s"}}, None),
        ({}, {"first": 2}, ["first: Invalid value: 2: failed rule: oldSelf.hasValue() || self == 1"]),
        ({"first": 1}, {"first": 2}, []),
    ],
)  # fmt: skip
def test_rules_of_a_schema(old: dict[str, Any], new: dict[str, Any], found: list[str] | None) -> None:
    rules = compile_rules(SCHEMA)
    assert rules is not None
    causes = [str(cause) for cause in broken(rules, new, old)]
    if found is None:
        assert "failed to evaluate" in causes[0]
    else:
        assert causes == found


def test_a_rule_that_is_not_understood_names_its_field() -> None:
    with pytest.raises(CelError, match=r"rule of a\.b: .*unheardOf"):
        compile_rules(
            {"properties": {"a": {"properties": {"b": {"x-kubernetes-validations": [{"rule": "unheardOf()"}]}}}}}
        )
