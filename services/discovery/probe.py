"""Who answers at an open port: its leaf first, and of a box in maintenance mode its identity, on one connection.

Whatever is there may be broken or hostile. Every outcome is a value, bounded in time and size; nothing that
a box does ends a sweep.
"""

from __future__ import annotations

import asyncio
import time
from enum import StrEnum

import msgspec

from libs import identity as identities
from libs import talos
from libs.endpoint import DEFAULT_PORT, Endpoint
from libs.runtime import log
from services.discovery.picture import Answer

IN_FLIGHT_MAX = 64
STRANGERS_MAX = 4096
_STEPS = 3
"""The opening and each of the two reads of the identity may take the timeout."""


class Outcome(StrEnum):
    """What a probe found; the label of its metric."""

    MAINTENANCE = "maintenance"
    CONFIGURED = "configured"
    GONE = "gone"
    """It accepted a connection a moment ago and answers no more."""
    STRANGE = "strange"
    """It is no Talos node, or does not behave as one."""
    ANONYMOUS = "anonymous"
    """In maintenance mode, but nothing that it says of itself tells it from other boxes."""


class Sighting(msgspec.Struct, frozen=True):
    """A configured node answers here; `at` is seconds of a monotonic clock."""

    address: str
    common_name: str
    fingerprint: str
    at: float


class Nobody(msgspec.Struct, frozen=True):
    """Nothing of use answers here, and why."""

    outcome: Outcome
    why: str


Found = Answer | Sighting | Nobody


class Prober:
    """Dials endpoints, a bounded number at once."""

    def __init__(self, timeout_seconds: float, *, in_flight_max: int = IN_FLIGHT_MAX) -> None:
        self._timeout_seconds = timeout_seconds
        self._slots = asyncio.Semaphore(in_flight_max)

    async def probe(self, endpoint: Endpoint) -> Found:
        """Return who answers; raises nothing that the box could cause."""
        async with self._slots:
            try:
                async with asyncio.timeout(_STEPS * self._timeout_seconds):
                    return await self._ask(endpoint)
            except talos.NotMaintenance as error:
                leaf = error.leaf
                return Sighting(name_of(endpoint), leaf.common_name, leaf.fingerprint, time.monotonic())
            except (talos.Unreachable, TimeoutError) as error:
                return Nobody(Outcome.GONE, str(error) or "no answer in time")
            except talos.TalosError as error:
                return Nobody(Outcome.STRANGE, str(error))
            except Exception as error:  # noqa: BLE001 - a box that meets a fault of ours must not end the sweep
                log("discovery").exception("a probe failed", address=str(endpoint))
                return Nobody(Outcome.STRANGE, type(error).__name__)

    async def _ask(self, endpoint: Endpoint) -> Found:
        # Without a pin the connection is for reading only, and takes whatever maintenance leaf is there: its
        # fingerprint is that of the very connection on which the identity is read.
        async with talos.maintenance(endpoint, pin=None, timeout_seconds=self._timeout_seconds) as node:
            identity = await node.identity()
            answer = Answer(name_of(endpoint), node.leaf.fingerprint, identity, time.monotonic())
        if identities.normalise(identity).count == 0:
            return Nobody(Outcome.ANONYMOUS, "no UUID, serial number or MAC of it can be used to tell it from others")
        return answer


def name_of(endpoint: Endpoint) -> str:
    """Return the address as events have it: bare on Talos's own port, with its port on another."""
    return endpoint.host if endpoint.port == DEFAULT_PORT else str(endpoint)


class Strangers:
    """Tells of each odd address once, for as long as it stays odd in the same way."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[Outcome, int]] = {}
        self._log = log("discovery")

    def tell(self, address: str, nobody: Nobody, *, sweep: int) -> None:
        """Log one line, unless it was logged in this sweep or the one before."""
        known = self._told.get(address)
        if known is not None and known[0] == nobody.outcome:
            self._told[address] = nobody.outcome, sweep
        elif len(self._told) < STRANGERS_MAX:
            self._told[address] = nobody.outcome, sweep
            self._log.warning("not a usable node", address=address, outcome=str(nobody.outcome), why=nobody.why[:300])

    def end_sweep(self, sweep: int) -> None:
        """Forget those that were not met in this sweep."""
        self._told = {address: told for address, told in self._told.items() if told[1] >= sweep}
