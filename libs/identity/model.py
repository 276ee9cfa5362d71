"""The identity record, as declared by a machine and as read from a box."""

import msgspec


class Identity(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Raw signals, as declared or read; an empty value means "not declared" or "not seen".

    `uuid` is dashed text, `mac_addresses` are lower-case colon hex of permanent addresses of physical links.
    """

    uuid: str = ""
    serial_number: str = ""
    mac_addresses: tuple[str, ...] = ()
