"""The settings of discovery."""

from typing import Annotated

from msgspec import Meta

from libs import runtime
from services.discovery.ranges import parse_ranges


class Settings(runtime.CommonSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to sweep, as whom, how often and how hard."""

    ranges: tuple[str, ...]
    """CIDRs, addresses and `host:port`; `!` in front excludes."""
    site: Annotated[str, Meta(min_length=1, max_length=253)] = "default"
    """The name of the network that is swept; one scanner for each."""
    sweep_seconds: Annotated[float, Meta(ge=0.1, le=86_400)] = 60.0
    """From the start of one sweep to the start of the next; a longer sweep is followed at once."""
    sweep_rate: Annotated[int, Meta(ge=1, le=1_000_000)] = 2_000
    """Addresses dialled a second, second tries included."""
    probe_timeout_seconds: Annotated[float, Meta(ge=0.05, le=60)] = 2.0
    """How long an address may take to accept a connection, and then again to each answer."""

    @staticmethod
    def check_ranges(value: tuple[str, ...]) -> None:
        """Refuse wrong entries, all at once."""
        parse_ranges(value)
