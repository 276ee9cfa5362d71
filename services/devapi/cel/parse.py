"""From CEL text to a tree: a lexer and a parser by precedence."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from services.devapi.cel.values import CelError

TEXT_MAX = 16 * 1024
DEPTH_MAX = 30

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<number>0x[0-9a-fA-F]+u?|\d+\.\d+([eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+u?)
  | (?P<string>[rR]?(\"{3}[\s\S]*?\"{3}|'{3}[\s\S]*?'{3}))
  | (?P<raw>[rR]("[^"\n]*"|'[^'\n]*'))
  | (?P<quoted>"(\\.|[^"\\\n])*"|'(\\.|[^'\\\n])*')
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<sign>\|\||&&|[<>=!]=|[-+*/%<>!?:.,()\[\]{}])
    """,
    re.VERBOSE,
)
_LITERALS = {"true": True, "false": False, "null": None}
_LEVELS = (("||",), ("&&",), ("<", "<=", ">", ">=", "==", "!=", "in"), ("+", "-"), ("*", "/", "%"))


@dataclass(frozen=True)
class Literal:
    value: Any


@dataclass(frozen=True)
class Name:
    name: str


@dataclass(frozen=True)
class Select:
    target: Node
    field: str
    optional: bool = False


@dataclass(frozen=True)
class Index:
    target: Node
    index: Node
    optional: bool = False


@dataclass(frozen=True)
class Call:
    """`target.function(arguments)`, or `function(arguments)` without a target; operators are calls too."""

    function: str
    arguments: tuple[Node, ...]
    target: Node | None = None


@dataclass(frozen=True)
class ListOf:
    items: tuple[Node, ...]


@dataclass(frozen=True)
class MapOf:
    items: tuple[tuple[Node, Node], ...]


Node = Literal | Name | Select | Index | Call | ListOf | MapOf


def parse(text: str) -> Node:
    """Return the tree of an expression; `CelError` names the place where it stops making sense."""
    if len(text) > TEXT_MAX:
        raise CelError(f"an expression of over {TEXT_MAX} characters")
    parser = _Parser(_tokens(text))
    tree = parser.expression()
    if parser.kind != "end":
        raise parser.unexpected()
    return tree


def _tokens(text: str) -> list[tuple[str, str, int]]:
    tokens = []
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise CelError(f"syntax error at {text[place : place + 20]!r}")
        kind = str(found.lastgroup)
        if kind != "space":
            tokens.append((kind, found.group(), place))
        place = found.end()
    return [*tokens, ("end", "", place)]


class _Parser:
    """Reads tokens one after the other; each method reads what it is named after."""

    def __init__(self, tokens: list[tuple[str, str, int]]) -> None:
        self._tokens = tokens
        self._place = 0
        self._depth = 0

    @property
    def kind(self) -> str:
        return self._tokens[self._place][0]

    @property
    def text(self) -> str:
        return self._tokens[self._place][1]

    def unexpected(self) -> CelError:
        _, text, place = self._tokens[self._place]
        return CelError(f"syntax error: unexpected {text or 'end'!r} at character {place}")

    def expression(self) -> Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise CelError("an expression nested too deeply")
        condition = self._binary(0)
        if self._take("?"):
            yes = self._binary(0)
            self._need(":")
            condition = Call("?:", (condition, yes, self.expression()))
        self._depth -= 1
        return condition

    def _binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self.kind in {"sign", "name"} and self.text in _LEVELS[level]:
            operator = self._next()
            left = Call(operator, (left, self._binary(level + 1)))
        return left

    def _unary(self) -> Node:
        signs = []
        while self.kind == "sign" and self.text in {"!", "-"}:
            signs.append(self._next())
        node = self._member()
        for sign in reversed(signs):
            node = Call("!" if sign == "!" else "neg", (node,))
        return node

    def _member(self) -> Node:
        node = self._primary()
        while True:
            if self._take("."):
                optional = self._take("?")
                field = self._name()
                if not optional and self._take("("):
                    node = Call(field, self._list_until(")"), node)
                else:
                    node = Select(node, field, optional)
            elif self._take("["):
                optional = self._take("?")
                node = Index(node, self.expression(), optional)
                self._need("]")
            else:
                return node

    def _primary(self) -> Node:
        kind, text = self.kind, self.text
        if kind == "number":
            return Literal(_number(self._next()))
        if kind in {"string", "raw", "quoted"}:
            return Literal(_string(self._next()))
        if kind == "name" and text != "in":
            return self._named()
        if self._take("("):
            node = self.expression()
            self._need(")")
            return node
        if self._take("["):
            return ListOf(self._list_until("]"))
        if self._take("{"):
            return self._map()
        raise self.unexpected()

    def _named(self) -> Node:
        text = self._next()
        if text in _LITERALS:
            return Literal(_LITERALS[text])
        return Call(text, self._list_until(")")) if self._take("(") else Name(text)

    def _map(self) -> Node:
        items = []
        while not self._take("}"):
            key = self.expression()
            self._need(":")
            items.append((key, self.expression()))
            if not self._take(","):
                self._need("}")
                break
        return MapOf(tuple(items))

    def _list_until(self, end: str) -> tuple[Node, ...]:
        items = []
        while not self._take(end):
            items.append(self.expression())
            if not self._take(","):
                self._need(end)
                break
        return tuple(items)

    def _name(self) -> str:
        if self.kind != "name":
            raise self.unexpected()
        return self._next()

    def _next(self) -> str:
        self._place += 1
        return self._tokens[self._place - 1][1]

    def _take(self, sign: str) -> bool:
        if self.kind == "sign" and self.text == sign:
            self._place += 1
            return True
        return False

    def _need(self, sign: str) -> None:
        if not self._take(sign):
            raise self.unexpected()


def _number(text: str) -> int | float:
    plain = text.removesuffix("u")
    if plain.startswith("0x"):
        return int(plain, 16)
    return int(plain) if plain.isdecimal() else float(plain)


def _string(text: str) -> str:
    # CEL's escapes are a subset of Python's, so Python may read them; line breaks in triple quotes included.
    value: str = ast.literal_eval(text)
    return value
