"""Who a box is: its SMBIOS UUID, serial number and permanent MACs, and when two of these agree.

Nothing here says where a box is or whether it proved who it is.
"""

from libs.identity.index import Found, Index
from libs.identity.matching import Match, Signal, compare_uuids, match, match_signals, proves
from libs.identity.model import MACS_MAX, SERIAL_MAX, UUID_MAX, Identity
from libs.identity.signals import Signals, key, normalise, normalise_uuid, object_name

__all__ = [
    "MACS_MAX",
    "SERIAL_MAX",
    "UUID_MAX",
    "Found",
    "Identity",
    "Index",
    "Match",
    "Signal",
    "Signals",
    "compare_uuids",
    "key",
    "match",
    "match_signals",
    "normalise",
    "normalise_uuid",
    "object_name",
    "proves",
]
