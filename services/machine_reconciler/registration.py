"""Makes machines for boxes that no machine declares; an operator approves them or leaves them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from libs import identity, kube, runtime
from libs.endpoint import Endpoint, InvalidEndpointError, parse_endpoint
from libs.events import EndpointObserved
from libs.machine import TalosMachine
from services.machine_reconciler.machines import Machines

A_MINUTE_MAX = 10
SWEEPS_MIN = 2
SWEEPS_WITHOUT_SYSTEM_MIN = 5
"""A box without SystemInformation is known by its MACs alone, which take longer to trust."""

_log = runtime.log("registration")


class Creator(Protocol):
    """The part of the Kubernetes API that is used here."""

    async def create(
        self, resource: kube.Resource[TalosMachine], body: dict[str, Any], namespace: str = ""
    ) -> TalosMachine: ...


class Limit:
    """At most so many a minute, evenly refilled."""

    def __init__(self, a_minute: int = A_MINUTE_MAX, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._a_minute = a_minute
        self._clock = clock
        self._left = float(a_minute)
        self._at = clock()

    def take(self) -> bool:
        """Take one, if one is left."""
        now = self._clock()
        self._left = min(self._a_minute, self._left + (now - self._at) * self._a_minute / 60)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Registrar:
    """Registers unknown boxes in one namespace, within limits."""

    def __init__(
        self,
        api: Creator,
        machines: Machines,
        *,
        namespace: str,
        max_unapproved: int,
        registered: Callable[[TalosMachine], None],
        limited: Callable[[], None],
        limit: Limit | None = None,
    ) -> None:
        self._api = api
        self._machines = machines
        self._namespace = namespace
        self._max_unapproved = max_unapproved
        self._registered = registered
        self._limited = limited
        self._limit = limit or Limit()
        self._limit_said = False
        self._conflicts_said: dict[str, None] = {}

    async def consider(self, observed: EndpointObserved) -> None:
        """Register the box of this picture if it is due. Raises `kube.Unavailable`; safe to repeat."""
        if observed.identity is None or not observed.addresses or not _is_steady(observed):
            return
        found = self._machines.find(observed.identity)
        if found.matching or found.weak:
            return
        if found.conflicting:
            self._say_conflict(observed.identity, sorted(found.conflicting))
            return
        endpoint = _endpoint(observed)
        if endpoint is not None and self._may_register():
            await self._register(observed.identity, endpoint)

    def _may_register(self) -> bool:
        if self._machines.unapproved < self._max_unapproved and self._limit.take():
            self._limit_said = False
            return True
        self._limited()
        if not self._limit_said:
            _log.warning(
                "RegistrationLimit: not every new box is registered",
                unapproved=self._machines.unapproved,
                max_unapproved=self._max_unapproved,
                a_minute=A_MINUTE_MAX,
            )
        self._limit_said = True
        return False

    async def _register(self, seen: identity.Identity, endpoint: str) -> None:
        name = identity.object_name(seen)
        body = {"metadata": {"name": name}, "spec": {"endpoint": endpoint, "identity": msgspec.to_builtins(seen)}}
        try:
            made = await self._api.create(kube.MACHINES, body, self._namespace)
        except kube.AlreadyExists:
            return  # another was first, or the watch has not told us yet
        except kube.Unavailable:
            raise
        except kube.KubeError as error:
            _log.error("box not registered", name=name, endpoint=endpoint, error=str(error))
            return
        self._machines.put(made)
        self._registered(made)
        _log.info("registered", machine=f"{self._namespace}/{name}", endpoint=endpoint)

    def _say_conflict(self, seen: identity.Identity, machines: list[tuple[str, str]]) -> None:
        key = identity.key(seen)
        if key not in self._conflicts_said:
            if len(self._conflicts_said) >= 1000:
                self._conflicts_said.clear()
            self._conflicts_said[key] = None
            names = ", ".join("/".join(machine) for machine in machines)
            _log.warning("box not registered: its identity contradicts a machine's", machines=names)


def _is_steady(observed: EndpointObserved) -> bool:
    seen = observed.identity
    if seen is None or not identity.normalise(seen).count:
        return False
    has_system = bool(seen.uuid or seen.serial_number)
    return observed.sweeps_agreeing >= (SWEEPS_MIN if has_system else SWEEPS_WITHOUT_SYSTEM_MIN)


def _endpoint(observed: EndpointObserved) -> str | None:
    """Write the first address that can be one: bare where the port is the usual one."""
    for seen in observed.addresses:
        try:
            endpoint = parse_endpoint(seen.address)
        except InvalidEndpointError:
            continue
        return endpoint.host if endpoint == Endpoint(endpoint.host) else str(endpoint)
    return None
