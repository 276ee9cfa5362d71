"""Settings: a frozen struct per service, read from the environment once; every wrong variable is named."""

import math
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from libs.runtime.logs import LogFormat, LogLevel

PREFIX = "NODETRAIL_"
S = TypeVar("S", bound="CommonSettings")


class SettingsError(Exception):
    """The environment is wrong; the text has one line for each wrong variable."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class CommonSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every service reads. A service adds its own fields in a subclass.

    A static method `check_<field>` may raise `ValueError` about that field's value; a field of type `tuple`
    is a comma list; a field whose name ends in `_file` names a file that must be readable.
    """

    nats_url: str = "nats://127.0.0.1:4222"
    """Comma list of servers."""
    nats_user: str = ""
    nats_password_file: str = ""
    nats_ca_file: str = ""
    listen: str = "127.0.0.1:0"
    """Where health and metrics are served; port 0 takes any, and the first log line names it."""
    log_format: LogFormat = "auto"
    log_level: LogLevel = "info"

    @staticmethod
    def check_nats_url(value: str) -> None:
        """Refuse an entry that the client could not dial."""
        for url in value.split(","):
            scheme, separator, rest = url.strip().partition("://")
            if not separator or scheme not in {"nats", "tls"} or not rest:
                raise ValueError("every entry of the comma list must look like nats://host:4222 or tls://host:4222")

    @staticmethod
    def check_listen(value: str) -> None:
        """Refuse what is no host and port."""
        split_listen(value)


def split_listen(text: str) -> tuple[str, int]:
    """Read `127.0.0.1:8080` or `[::1]:8080`; port 0 means any free one."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not colon or not host or not (port.isascii() and port.isdigit() and int(port[:6]) <= 65535):
        raise ValueError("must be host:port, with port 0 for any, such as 127.0.0.1:0")
    return host, int(port)


def settings_from_environ(kind: type[S], environ: Mapping[str, str]) -> S:
    """Read the settings; raises `SettingsError` that names every unknown, malformed or missing variable."""
    ours = {name: value for name, value in environ.items() if name.startswith(PREFIX)}
    hints = typing.get_type_hints(kind, include_extras=True)
    values: dict[str, Any] = {}
    problems: list[str] = []
    for field in msgspec.structs.fields(kind):
        variable = PREFIX + field.name.upper()
        text = ours.pop(variable, None)
        if text is not None:
            try:
                values[field.name] = _value(kind, field.name, hints[field.name], text)
            except ValueError as error:  # msgspec.ValidationError included
                problems.append(f"{variable}: {_first_line(error)}{_choices(hints[field.name])}")
        elif field.required:
            problems.append(f"{variable}: is required and not set")
    problems.extend(_unknown(ours, [field.name for field in msgspec.structs.fields(kind)]))
    if problems:
        raise SettingsError(problems)
    try:
        return kind(**values)
    except ValueError as error:  # raised by a __post_init__ that looks at several fields together
        raise SettingsError([f"{PREFIX}*: {_first_line(error)}"]) from error


def _value(kind: type[CommonSettings], name: str, hint: Any, text: str) -> Any:
    value: Any = text
    if _is_tuple(hint):
        value = [part.strip() for part in text.split(",") if part.strip()]
    value = msgspec.convert(value, hint, strict=False)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("must be a finite number")
    if name.endswith("_file") and value:
        read_file(value)
    check: Callable[[Any], None] | None = getattr(kind, f"check_{name}", None)
    if check is not None:
        check(value)
    return value


def read_file(path: str) -> bytes:
    """Read a file that a setting names; raises `ValueError` that names the file and never its content."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"cannot read the file {path!r}: {error.strerror}") from error


def _choices(hint: Any) -> str:
    """Name what a setting may be, where that is one of a few words."""
    return f" (one of: {', '.join(get_args(hint))})" if get_origin(hint) is typing.Literal else ""


def _is_tuple(hint: Any) -> bool:
    while get_origin(hint) is typing.Annotated:
        hint = get_args(hint)[0]
    return get_origin(hint) is tuple


def _unknown(left: Mapping[str, str], known: list[str]) -> Iterator[str]:
    names = ", ".join(PREFIX + name.upper() for name in known)
    for variable in sorted(left):
        yield f"{variable}: is not a setting of this service (known: {names})"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].removesuffix(" - at `$`")
