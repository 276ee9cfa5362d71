"""The identity record, as declared by a machine and as read from a box."""

from typing import Annotated

import msgspec
from msgspec import Meta

UUID_MAX = 64
SERIAL_MAX = 256
MACS_MAX = 256
MAC_MAX = 59
"""20 octets: InfiniBand."""


class Identity(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Raw signals, as declared or read; an empty value means "not declared" or "not seen".

    `uuid` is dashed text, `mac_addresses` are lower-case colon hex of permanent addresses of physical links.
    """

    uuid: Annotated[str, Meta(max_length=UUID_MAX)] = ""
    serial_number: Annotated[str, Meta(max_length=SERIAL_MAX)] = ""
    mac_addresses: Annotated[tuple[Annotated[str, Meta(max_length=MAC_MAX)], ...], Meta(max_length=MACS_MAX)] = ()
