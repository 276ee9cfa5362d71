"""What the simulator reads from its environment."""

from __future__ import annotations

from pathlib import Path

from libs import runtime
from services.simulator.spec import authority_from, read_fleet


class Settings(runtime.CommonSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The common settings, and the site to play."""

    fleet: str
    """The fleet file (YAML)."""
    seed: int = 1
    """Whatever the fleet file leaves open is made from this: UUIDs, serials, MACs, boot ids, automatic names."""

    @staticmethod
    def check_fleet(value: str) -> None:
        """Refuse a fleet file that cannot be played; the error names the entry."""
        authority_from(read_fleet(Path(value)).cluster_ca)
