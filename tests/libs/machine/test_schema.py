"""Types to structural schema: what is translated, and that nothing is translated by guessing."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import pytest

from libs.machine import schema


class Colour(StrEnum):
    RED = "Red"
    BLUE = "Blue"


class Inner(msgspec.Struct):
    """Something inside."""

    count: int = 0


class Outer(msgspec.Struct, rename="camel"):
    """The whole."""

    needed_name: str
    """A name,
    told on two lines."""
    colour: Colour | None = None
    inner: Inner | None = None
    inners: tuple[Inner, ...] = ()
    at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class Odd(msgspec.Struct):
    anything: Any = None


class Mixed(msgspec.Struct):
    number_or_text: int | str = 0


def test_translates_what_the_machine_needs() -> None:
    assert schema.structural(Outer) == {
        "type": "object",
        "required": ["neededName"],
        "properties": {
            "neededName": {"description": "A name, told on two lines.", "type": "string"},
            "colour": {"type": "string", "enum": ["Blue", "Red"]},
            "inner": {
                "description": "Something inside.",
                "type": "object",
                "properties": {"count": {"type": "integer", "format": "int64"}},
            },
            "inners": {
                "description": "Something inside.",
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {"type": "object", "properties": {"count": {"type": "integer", "format": "int64"}}},
            },
            "at": {"type": "string", "format": "date-time"},
        },
    }


@pytest.mark.parametrize("kind", [Odd, Mixed])
def test_what_has_no_known_form_is_refused(kind: type[msgspec.Struct]) -> None:
    with pytest.raises(TypeError, match="no structural form"):
        schema.structural(kind)


def test_finds_a_field_by_its_path() -> None:
    assert schema.at(schema.structural(Outer), "inners[].count") == {"type": "integer", "format": "int64"}
