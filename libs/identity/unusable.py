"""Which values identify nobody: blanks, constant patterns and the placeholders that vendors ship.

The lists are open-ended by nature; what they miss is found where two live boxes show one value. Words are
compared without case, spaces, dots and other punctuation. Values are what boxes and boards report in the
field, gathered from public inventories and trackers.
"""

from __future__ import annotations

_UUIDS = frozenset(
    {
        "03000200-0400-0500-0006-000700080009",  # American Megatrends' default, on boards of many makers
        "03020100-0504-0706-0809-0a0b0c0d0e0f",  # counted up, also seen byte-swapped
        "00010203-0405-0607-0809-0a0b0c0d0e0f",
        "12345678-1234-5678-90ab-cddeefaabbcc",
        "01234567-89ab-cdef-0123-456789abcdef",
        "deadbeef-dead-beef-dead-beefdeadbeef",
        "4c4c4544-0000-2010-8020-80c04f202020",  # Dell with a blank service tag
        "03d40274-0435-05dc-8506-010700080009",
    }
)

_PLACEHOLDERS = """
    tobefilledbyoem tobefilledbyoemoem tobefilledbymanufacturer tobefilled filledbyoem tobeset tobedetermined tbd
    default defaultstring defaultvalue oem oemstring standard
    systemserialnumber systemserialnum systemserial chassisserialnumber chassisserial baseboardserialnumber
    boardserialnumber motherboardserialnumber serialnumber serialno serial sn sysserial snnumber
    none null nil na notapplicable notavailable notspecified unspecified notpresent notsettable notdefined undefined
    notprovided unknown unknownserial invalid empty blank noserial noserialnumber noasset systemuuid
    0123456789 01234567890 1234567890 123456789 12345678 1234567 123456 12345 0123456789abcdef 01234567890123456789
    123456789abcdef
"""
_WORDS = frozenset(_PLACEHOLDERS.split())

_MACS = frozenset(
    {
        "be:3a:f2:b6:05:9f",  # the virtual USB NIC of many BMCs, the same on every board
        "02:00:4c:4f:4f:50",  # Microsoft's loopback adapter
        "00:05:9a:3c:7a:00",  # a VPN client's adapter
        "00:11:22:33:44:55",
        "01:23:45:67:89:ab",
        "12:34:56:78:9a:bc",
        "00:01:02:03:04:05",
        "de:ad:be:ef:00:00",
    }
)


def uuid_is_unusable(uuid: str, swapped: str) -> bool:
    """Whether a canonical UUID identifies nobody; `swapped` is its other byte order."""
    return _is_constant(uuid.replace("-", ""), 2) or uuid in _UUIDS or swapped in _UUIDS


def text_is_unusable(text: str) -> bool:
    """Whether a serial number, or a UUID that is none, is blank, a constant pattern or a placeholder."""
    word = "".join(character for character in text.casefold() if character.isalnum())
    return _is_constant(word, 1) or word in _WORDS


def mac_is_unusable(mac: str) -> bool:
    """Whether a canonical MAC is no single box's: constant, a group's address or a known shared one."""
    is_group = bool(int(mac[:2], 16) & 1)
    return is_group or _is_constant(mac.replace(":", ""), 2) or mac in _MACS


def _is_constant(text: str, width: int) -> bool:
    """Whether the text is nothing but its first `width` characters again and again; blank counts."""
    return text == (text[:width] * len(text))[: len(text)]
