"""From a CEL tree to a function: compiled once into closures, evaluated with variables."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from services.devapi.cel.functions import GLOBAL, METHODS
from services.devapi.cel.parse import Call, Index, ListOf, Literal, MapOf, Name, Node, Select, parse
from services.devapi.cel.values import NONE, CelError, Optional, equal, some, truth, type_name

Variables = Mapping[str, Any]
Evaluate = Callable[[Variables], Any]

_MACROS = {"all", "exists", "exists_one", "existsOne", "map", "filter"}
_NAMESPACES = {"optional", "format", "ip"}


class Expression:
    """A compiled expression."""

    def __init__(self, text: str, evaluate: Evaluate, names: frozenset[str]) -> None:
        self.text = text
        self.names = names
        """The variables that it reads."""
        self._evaluate = evaluate

    def __call__(self, variables: Variables) -> Any:
        """Return the value; `CelError` when it has none."""
        try:
            return self._evaluate(variables)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise CelError(f"no such overload: {error}") from error


def compile_expression(text: str, variables: set[str]) -> Expression:
    """Compile an expression that may read these variables; `CelError` when it is not understood."""
    compiler = _Compiler(variables)
    evaluate = compiler.compile(parse(text))
    return Expression(text, evaluate, frozenset(compiler.read))


class _Compiler:
    """Turns nodes into closures; knows which names are variables here."""

    def __init__(self, variables: set[str]) -> None:
        self._variables = set(variables)
        self.read: set[str] = set()

    def compile(self, node: Node) -> Evaluate:  # noqa: PLR0911 - one for each kind of node
        match node:
            case Literal(value):
                return lambda _: value
            case Name(name):
                return self._name(name)
            case Select():
                return self._select(node)
            case Index(target, index, optional):
                return _indexed(self.compile(target), self.compile(index), optional=optional)
            case ListOf(items):
                parts = [self.compile(item) for item in items]
                return lambda variables: [part(variables) for part in parts]
            case MapOf(items):
                pairs = [(self.compile(key), self.compile(value)) for key, value in items]
                return lambda variables: {key(variables): value(variables) for key, value in pairs}
            case Call():
                return self._call(node)

    def _name(self, name: str) -> Evaluate:
        if name not in self._variables:
            raise CelError(f"undeclared reference to {name!r}")
        self.read.add(name)
        return lambda variables: variables[name]

    def _select(self, node: Select) -> Evaluate:
        target, field, optional = self.compile(node.target), node.field, node.optional
        return lambda variables: _field(target(variables), field, optional=optional)

    def _call(self, node: Call) -> Evaluate:  # noqa: PLR0911 - one for each kind of call
        if node.target is None:
            if node.function == "has":
                return self._has(node)
            if node.function in _OPERATORS or node.function in {"&&", "||", "?:"}:
                return self._operator(node)
            return self._function(node.function, node.arguments)
        if node.function in _MACROS and isinstance(node.arguments[0] if node.arguments else None, Name):
            return self._macro(node)
        if isinstance(node.target, Name) and node.target.name in _NAMESPACES - self._variables:
            return self._function(f"{node.target.name}.{node.function}", node.arguments)
        if node.function in {"optMap", "optFlatMap"}:
            return self._opt_map(node)
        method = METHODS.get(node.function)
        if method is None:
            raise CelError(f"undeclared reference to the method {node.function!r}")
        target, arguments = self.compile(node.target), [self.compile(argument) for argument in node.arguments]
        return lambda variables: method(target(variables), *[argument(variables) for argument in arguments])

    def _function(self, name: str, nodes: tuple[Node, ...]) -> Evaluate:
        function = GLOBAL.get(name)
        if function is None:
            raise CelError(f"undeclared reference to the function {name!r}")
        arguments = [self.compile(node) for node in nodes]
        return lambda variables: function(*[argument(variables) for argument in arguments])

    def _has(self, node: Call) -> Evaluate:
        if len(node.arguments) != 1 or not isinstance(node.arguments[0], Select):
            raise CelError("has() needs one field selection, such as has(self.name)")
        select = node.arguments[0]
        target, field = self.compile(select.target), select.field

        def has(variables: Variables) -> bool:
            value = target(variables)
            if isinstance(value, Optional):
                return value.present and field in value.value
            if not isinstance(value, dict):
                raise CelError(f"no such key: {field}")
            return field in value

        return has

    def _operator(self, node: Call) -> Evaluate:
        parts = [self.compile(argument) for argument in node.arguments]
        match node.function:
            case "&&":
                return _both(parts[0], parts[1], decides=False)
            case "||":
                return _both(parts[0], parts[1], decides=True)
            case "?:":
                condition, yes, no = parts
                return lambda variables: (yes if truth(condition(variables)) else no)(variables)
            case name:
                function = _OPERATORS[name]
                return lambda variables: function(*[part(variables) for part in parts])

    def _macro(self, node: Call) -> Evaluate:
        if not 2 <= len(node.arguments) <= 3 or node.target is None:
            raise CelError(f"{node.function}() needs a variable and an expression")
        variable = node.arguments[0]
        assert isinstance(variable, Name)  # noqa: S101 - the caller has looked
        target = self.compile(node.target)
        known, read = set(self._variables), set(self.read)
        self._variables.add(variable.name)
        bodies = [self.compile(argument) for argument in node.arguments[1:]]
        if variable.name not in read:
            self.read.discard(variable.name)
        self._variables = known
        return _comprehension(node.function, variable.name, target, bodies)

    def _opt_map(self, node: Call) -> Evaluate:
        variable, body = node.arguments
        if not isinstance(variable, Name) or node.target is None:
            raise CelError(f"{node.function}() needs a variable and an expression")
        target = self.compile(node.target)
        known = set(self._variables)
        self._variables.add(variable.name)
        inner = self.compile(body)
        self._variables = known
        flat, name = node.function == "optFlatMap", variable.name

        def mapped(variables: Variables) -> Any:
            optional = target(variables)
            if not optional.present:
                return NONE
            value = inner({**variables, name: optional.value})
            return value if flat else some(value)

        return mapped


def _field(value: Any, field: str, *, optional: bool) -> Any:
    if isinstance(value, Optional):
        # A selection below an optional one is optional itself.
        return _field(value.value, field, optional=True) if value.present else NONE
    if isinstance(value, dict):
        if field in value:
            return some(value[field]) if optional else value[field]
        if optional:
            return NONE
    elif optional and value is None:
        return NONE
    raise CelError(f"no such key: {field}")


def _indexed(target: Evaluate, index: Evaluate, *, optional: bool) -> Evaluate:
    def indexed(variables: Variables) -> Any:
        value, place = target(variables), index(variables)
        if isinstance(value, Optional):
            if not value.present:
                return NONE
            return _at(value.value, place, optional=True)
        return _at(value, place, optional=optional)

    return indexed


def _at(value: Any, place: Any, *, optional: bool) -> Any:
    if isinstance(value, dict):
        there = place in value
    elif isinstance(value, list) and isinstance(place, int) and not isinstance(place, bool):
        there = 0 <= place < len(value)
    else:
        raise CelError(f"{type_name(value)} cannot be indexed by {type_name(place)}")
    if there:
        return some(value[place]) if optional else value[place]
    if optional:
        return NONE
    raise CelError(f"no such key or index: {place}")


def _both(left: Evaluate, right: Evaluate, *, decides: bool) -> Evaluate:
    """`&&` and `||` forgive an error on one side when the other side decides alone."""

    def evaluate(variables: Variables) -> bool:
        try:
            first = truth(left(variables))
        except CelError:
            if truth(right(variables)) is decides:
                return decides
            raise
        return decides if first is decides else truth(right(variables))

    return evaluate


def _comprehension(macro: str, name: str, target: Evaluate, bodies: list[Evaluate]) -> Evaluate:
    def evaluate(variables: Variables) -> Any:
        items = target(variables)
        if not isinstance(items, list | dict):
            raise CelError(f"{type_name(items)} cannot be iterated")
        scopes = ({**variables, name: item} for item in items)
        match macro:
            case "map" if len(bodies) == 2:
                return [bodies[1](scope) for scope in scopes if truth(bodies[0](scope))]
            case "map":
                return [bodies[0](scope) for scope in scopes]
            case "filter":
                return [scope[name] for scope in scopes if truth(bodies[0](scope))]
            case "all":
                return _any(scopes, bodies[0], decides=False)
            case "exists":
                return _any(scopes, bodies[0], decides=True)
            case _:
                return sum(truth(bodies[0](scope)) for scope in scopes) == 1

    return evaluate


def _any(scopes: Any, body: Evaluate, *, decides: bool) -> bool:
    failure: CelError | None = None
    for scope in scopes:
        try:
            if truth(body(scope)) is decides:
                return decides
        except CelError as error:
            failure = error
    if failure is not None:
        raise failure
    return not decides


def _in(item: Any, container: Any) -> bool:
    if isinstance(container, dict):
        return item in container
    if isinstance(container, list):
        return any(equal(item, other) for other in container)
    raise CelError(f"no such overload: in {type_name(container)}")


def _ordered(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], bool]:
    def ordered(one: Any, other: Any) -> bool:
        return bool(compare(one, other))

    return ordered


def _add(one: Any, other: Any) -> Any:
    kinds = {type_name(one), type_name(other)}
    if len(kinds) != 1 or not kinds <= {"int", "double", "string", "list"}:
        raise CelError(f"no such overload: {type_name(one)} + {type_name(other)}")
    return one + other


def _divide(one: Any, other: Any) -> Any:
    if other == 0:
        raise CelError("divide by zero")
    if isinstance(one, int) and isinstance(other, int):
        quotient = abs(one) // abs(other)
        return quotient if (one < 0) == (other < 0) else -quotient
    return one / other


def _remainder(one: int, other: int) -> int:
    if other == 0:
        raise CelError("modulus by zero")
    return int(one - other * _divide(one, other))


_OPERATORS: dict[str, Callable[..., Any]] = {
    "==": equal,
    "!=": lambda one, other: not equal(one, other),
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
    "in": _in,
    "+": _add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%": _remainder,
    "!": lambda value: not truth(value),
    "neg": operator.neg,
}
