"""The usable signals of an identity in one spelling, and the names that follow from them.

Two spellings of one box, and both byte orders of its UUID, give the same signals, the same key and the
same object name; whoever meets the box first and whoever meets it next arrive at one object.
"""

from __future__ import annotations

import hashlib
import re

import msgspec

from libs.identity import unusable
from libs.identity.model import MACS_MAX, Identity

_UUID = re.compile(r"\{?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})\}?")
_MAC = re.compile(r"[0-9a-f]{12,40}")
_SLUG_MAX = 40
_DIGEST = 16


class Signals(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of an identity when unusable values are taken out; blank means "unknown"."""

    uuid: str = ""
    serial: str = ""
    macs: frozenset[str] = frozenset()

    @property
    def tokens(self) -> frozenset[str]:
        """Each value with its kind in front, `serial:abc123`: how shared values are named and indexed."""
        tokens = {f"mac:{mac}" for mac in self.macs}
        if self.uuid:
            tokens.add(f"uuid:{self.uuid}")
        if self.serial:
            tokens.add(f"serial:{self.serial}")
        return frozenset(tokens)

    @property
    def count(self) -> int:
        """How many of the three signals are known."""
        return bool(self.uuid) + bool(self.serial) + bool(self.macs)

    def without(self, tokens: frozenset[str]) -> Signals:
        """Return the signals with these values taken out."""
        if not tokens:
            return self
        return Signals(
            uuid="" if f"uuid:{self.uuid}" in tokens else self.uuid,
            serial="" if f"serial:{self.serial}" in tokens else self.serial,
            macs=frozenset(mac for mac in self.macs if f"mac:{mac}" not in tokens),
        )


def normalise(identity: Identity) -> Signals:
    """Return the usable signals in canonical spelling: lower case, the UUID in one of its two byte orders.

    A box that shows more links than can be declared is not believed about them.
    """
    macs = frozenset(filter(None, map(_mac, identity.mac_addresses[: MACS_MAX + 1])))
    return Signals(
        uuid=normalise_uuid(identity.uuid),
        serial=_serial(identity.serial_number),
        macs=macs if len(macs) <= MACS_MAX else frozenset(),
    )


def normalise_uuid(text: str) -> str:
    """Return the canonical UUID, the same for both byte orders, or nothing when it is unusable.

    Firmware and operators can set any text in its place; that is compared as text.
    """
    text = text.strip().casefold()
    found = _UUID.fullmatch(text)
    if found is None:
        return "" if unusable.text_is_unusable(text) else text
    first, second, third, *rest = found.groups()
    uuid = "-".join((first, second, third, *rest))
    swapped = "-".join((_reverse(first), _reverse(second), _reverse(third), *rest))
    return "" if unusable.uuid_is_unusable(uuid, swapped) else min(uuid, swapped)


def key(identity: Identity) -> str:
    """Return the identity's token for subjects and maps: the same for every spelling of it."""
    return _digest(normalise(identity))[:32]


def object_name(identity: Identity) -> str:
    """Return the name of the object that is made for this identity, led by its serial number if it has one."""
    signals = normalise(identity)
    slug = re.sub(r"[^a-z0-9]+", "-", signals.serial.lower())[:_SLUG_MAX].strip("-")
    return f"{slug or 'machine'}-{_digest(signals)[:_DIGEST]}"


def _digest(signals: Signals) -> str:
    canonical = msgspec.json.encode((signals.uuid, signals.serial, sorted(signals.macs)))
    return hashlib.sha256(canonical).hexdigest()


def _serial(text: str) -> str:
    text = " ".join(text.split()).casefold()
    return "" if unusable.text_is_unusable(text) else text


def _mac(text: str) -> str:
    digits = re.sub(r"[:.-]", "", text.strip().lower())
    if not _MAC.fullmatch(digits) or len(digits) % 2:
        return ""
    mac = ":".join(digits[i : i + 2] for i in range(0, len(digits), 2))
    return "" if unusable.mac_is_unusable(mac) else mac


def _reverse(digits: str) -> str:
    return "".join(digits[i : i + 2] for i in range(len(digits) - 2, -1, -2))
