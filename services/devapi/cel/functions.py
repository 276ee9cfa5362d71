"""The functions that CEL expressions may call; what is not here is refused when the expression is compiled.

Those of the language, and of Kubernetes' libraries the ones for strings, lists, IP addresses and formats.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from services.devapi.cel.values import NONE, CelError, Optional, equal, some, type_name

IP = ipaddress.IPv4Address | ipaddress.IPv6Address

_DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_FORMATS = {
    "dns1123Label": (re.compile(rf"^{_DNS_LABEL}$"), 63),
    "dns1123Subdomain": (re.compile(rf"^{_DNS_LABEL}(\.{_DNS_LABEL})*$"), 253),
    "dns1035Label": (re.compile(r"^[a-z]([-a-z0-9]*[a-z0-9])?$"), 63),
}


class Format:
    """What `format.dns1123Label()` and its like return."""

    def __init__(self, name: str) -> None:
        self._name = name

    def validate(self, text: str) -> Optional:
        pattern, longest = _FORMATS[self._name]
        if pattern.match(text) and len(text) <= longest:
            return NONE
        return some([f"{text!r} is not a {self._name}"])


def _need(value: Any, kind: type | tuple[type, ...]) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise CelError(f"no such overload for {type_name(value)}")
    return value


def _size(value: Any) -> int:
    return len(_need(value, (str, list, dict)))


def _int(value: Any) -> int:
    if isinstance(value, str) and not re.fullmatch(r"-?\d+", value):
        raise CelError(f"{value!r} is not an int")
    number = int(value) if isinstance(value, str | int | float) else int(_need(value, datetime).timestamp())
    if not -(1 << 63) <= number < 1 << 63:
        raise CelError("int out of range")
    return number


def _double(value: Any) -> float:
    try:
        return float(_need(value, (str, int, float)))
    except ValueError as error:
        raise CelError(f"{value!r} is not a double") from error


def _string(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(_need(value, (str, int, float, ipaddress.IPv4Address, ipaddress.IPv6Address)))


def _timestamp(value: Any) -> datetime:
    try:
        made = datetime.fromisoformat(_need(value, str))
    except ValueError as error:
        raise CelError(f"{value!r} is not a timestamp") from error
    return made if made.tzinfo else made.replace(tzinfo=UTC)


def _ip(value: Any) -> IP:
    text = _need(value, str)
    try:
        made = ipaddress.ip_address(text)
    except ValueError as error:
        raise CelError(f"IP address {text!r} is not valid") from error
    if "%" in text or (made.version == 6 and "." in text):
        raise CelError(f"IP address {text!r} with a zone or an embedded IPv4 address is not allowed")
    return made


def _is_ip(value: Any) -> bool:
    try:
        _ip(value)
    except CelError:
        return False
    return True


def _is_cidr(value: Any) -> bool:
    try:
        ipaddress.ip_network(_need(value, str), strict=False)
    except ValueError:
        return False
    return "/" in value


def _matches(text: Any, pattern: Any) -> bool:
    try:
        return re.search(_need(pattern, str), _need(text, str)) is not None
    except re.error as error:
        raise CelError(f"{pattern!r} is not a regular expression: {error}") from error


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise CelError(f"index out of range: {start}:{stop} of {len(text)} characters")
    return text[start:stop]


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if separator == "":
        return list(text)
    return [] if limit == 0 else text.split(separator, limit - 1 if limit > 0 else -1)


def _or(first: Optional, other: Optional) -> Optional:
    return first if first.present else other


def _none_if_zero(value: Any) -> Optional:
    return NONE if value in (None, "", [], {}) or equal(value, 0) or value is False else some(value)


GLOBAL: dict[str, Callable[..., Any]] = {
    "size": _size,
    "int": _int,
    "uint": _int,
    "double": _double,
    "string": _string,
    "bool": lambda value: value is True or value == "true",
    "dyn": lambda value: value,
    "timestamp": _timestamp,
    "type": type_name,
    "ip": _ip,
    "isIP": _is_ip,
    "isCIDR": _is_cidr,
    "matches": _matches,
    "optional.of": some,
    "optional.none": lambda: NONE,
    "optional.ofNonZeroValue": _none_if_zero,
    "ip.isCanonical": lambda text: str(_ip(text)) == text,
    **{f"format.{name}": (lambda name=name: Format(name)) for name in _FORMATS},
}


def _on(kind: type | tuple[type, ...], function: Callable[..., Any]) -> Callable[..., Any]:
    def checked(target: Any, *arguments: Any) -> Any:
        return function(_need(target, kind), *arguments)

    return checked


_IPS = (ipaddress.IPv4Address, ipaddress.IPv6Address)

METHODS: dict[str, Callable[..., Any]] = {
    "size": _size,
    "matches": _matches,
    "startsWith": _on(str, lambda text, part: text.startswith(_need(part, str))),
    "endsWith": _on(str, lambda text, part: text.endswith(_need(part, str))),
    "contains": _on(str, lambda text, part: _need(part, str) in text),
    "lowerAscii": _on(str, str.lower),
    "upperAscii": _on(str, str.upper),
    "trim": _on(str, str.strip),
    "replace": _on(str, lambda text, old, new, limit=-1: text.replace(old, new, limit)),
    "split": _on(str, _split),
    "substring": _on(str, _substring),
    "indexOf": _on((str, list), lambda text, part: text.find(part) if isinstance(text, str) else _place(text, part)),
    "lastIndexOf": _on(str, str.rfind),
    "join": _on(list, lambda items, separator="": separator.join(items)),
    "family": _on(_IPS, lambda address: address.version),
    "isLoopback": _on(_IPS, lambda address: address.is_loopback),
    "isUnspecified": _on(_IPS, lambda address: address.is_unspecified),
    "isLinkLocalUnicast": _on(_IPS, lambda address: address.is_link_local),
    "validate": _on(Format, lambda form, text: form.validate(_need(text, str))),
    "hasValue": _on(Optional, lambda optional: optional.present),
    "value": _on(Optional, lambda optional: optional.held),
    "orValue": _on(Optional, lambda optional, other: optional.held if optional.present else other),
    "or": _on(Optional, _or),
    "isSorted": _on(list, lambda items: items == sorted(items)),
    "sum": _on(list, sum),
    "min": _on(list, min),
    "max": _on(list, max),
}


def _place(items: list[Any], wanted: Any) -> int:
    return next((place for place, item in enumerate(items) if equal(item, wanted)), -1)
