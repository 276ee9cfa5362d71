"""One simulated node as a pure state machine: its power, its configuration, its addresses and what follows from them.

Nothing here opens a socket, sleeps or asks a clock: time and randomness come in, and what the port must look like
now is read from `surface`. Certificates are made by whoever serves the node.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from libs.talos import serve
from libs.talos.serve import specs
from services.simulator.configuration import Configuration, InvalidConfigurationError, parse
from services.simulator.resources import Shown, resources_of
from services.simulator.spec import NodeSpec

TALOS_VERSION = "v1.13.9"
LAST_WORDS_SECONDS = 0.1
"""From an ordered reboot, shutdown or reset to silence."""
SHUT_SECONDS = 0.2
"""How long a rebooting node is silent, besides its boot."""
DIGESTS_MAX = 100
_BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"


class WrongStateError(Exception):
    """The node cannot do this now; the text says what it is doing."""


class Phase(StrEnum):
    """Where the node is in its life."""

    OFF = "off"
    BOOTING = "booting"
    MAINTENANCE = "maintenance"
    INSTALLING = "installing"
    RUNNING = "running"
    LEAVING = "leaving"
    """Told to reboot, shut down or reset, and still answering."""


@dataclass(frozen=True)
class Surface:
    """What the port must be like: when `boot` or `in_maintenance` change it is another listener, else another leaf."""

    boot: int
    in_maintenance: bool
    addresses: tuple[str, ...]
    leaf: int
    common_name: str
    san_addresses: tuple[str, ...]
    san_names: tuple[str, ...]


class Node:
    """The state machine. Every change goes through a method; `due` says when `tick` wants to be called next."""

    def __init__(self, spec: NodeSpec, *, seed: int, clock: Callable[[], float]) -> None:
        self.spec = spec
        self.troubles = spec.troubles
        self._random = Random(f"{seed}/{spec.name}")  # noqa: S311 - the same fleet from the same seed
        self._clock = clock
        self.uuid = self._new_uuid() if spec.uuid is None else spec.uuid
        self.serial = f"SIM{self._random.getrandbits(40):010X}" if spec.serial is None else spec.serial
        self.macs = (self._new_mac(),) if spec.macs is None else spec.macs
        self.node_id = self._new_node_id()
        self.phase = Phase.OFF
        self.addresses = spec.addresses
        self.accumulated: tuple[str, ...] = ()
        self.configuration: Configuration | None = None
        self.was_cut = False
        """Whether the last silence came without a goodbye."""
        self.boots = 0
        self.boot_id = ""
        self.leaves = 0
        self.received_count = 0
        self.received: deque[str] = deque(maxlen=DIGESTS_MAX)
        self.resources = serve.Resources(self.now)
        self.due: float | None = None
        self._then: Callable[[], None] = self._boot
        self._stage = "unknown"
        if spec.configuration_text:
            self.configuration = parse(spec.configuration_text.encode())

    # What it is.

    def now(self) -> float:
        """The node's own clock."""
        return self._clock() + self.troubles.clock_offset_seconds

    @property
    def is_on(self) -> bool:
        return self.phase is not Phase.OFF

    @property
    def is_configured(self) -> bool:
        return self.configuration is not None and self.configuration.is_complete

    @property
    def mode(self) -> str:
        """`maintenance`, `installing` or `configured`."""
        if self.phase is Phase.INSTALLING:
            return "installing"
        return "configured" if self.is_configured else "maintenance"

    @property
    def kind(self) -> str:
        return self.configuration.kind if self.configuration else "unknown"

    @property
    def is_up(self) -> bool:
        """Whether it would answer, given a certificate."""
        return self.phase in (Phase.MAINTENANCE, Phase.RUNNING, Phase.LEAVING)

    @property
    def hostname(self) -> str:
        """The configured name, else the one from DHCP, else Talos's automatic one; none without a configuration."""
        if self.configuration and self.configuration.hostname:
            return self.configuration.hostname
        if self.spec.hostname or not self.is_configured:
            return self.spec.hostname
        number = int.from_bytes(hashlib.sha256(self.node_id.encode()).digest()[:8])
        letters = "".join(_BASE36[number // 36**place % 36] for place in range(6))
        return f"talos-{letters[:3]}-{letters[3:]}"

    @property
    def links(self) -> list[specs.Link]:
        plain = [specs.Link(f"eth{index}", mac, mac, driver="virtio_net") for index, mac in enumerate(self.macs)]
        given = [
            specs.Link(
                link.name,
                link.mac,
                link.mac if link.permanent_mac is None else link.permanent_mac,
                link.kind,
                link.slave_kind,
                link.bus_path,
                link.driver,
            )
            for link in self.spec.links
        ]
        return plain + given

    @property
    def surface(self) -> Surface | None:
        """What must be seen at the port now, or None for nothing at all."""
        if not self.is_up:
            return None
        named = [self.hostname] if self.hostname else []
        configured = self.configuration if self.is_configured else None
        return Surface(
            boot=self.boots,
            in_maintenance=configured is None,
            addresses=self.addresses,
            leaf=self.leaves,
            common_name=self.hostname if configured else serve.MAINTENANCE_NAME,
            san_addresses=(*(configured.san_addresses if configured else ()), *self.accumulated),
            san_names=(*(configured.san_names if configured else ()), *named),
        )

    # What is done to it from outside.

    def power_on(self, addresses: tuple[str, ...] | None = None) -> None:
        if self.is_on:
            raise WrongStateError(f"{self.spec.name} is on already ({self.phase})")
        self.addresses = addresses or self.addresses
        self.phase = Phase.BOOTING
        self._after(self.spec.boot_seconds, self._boot)

    def power_off(self) -> None:
        """Cut the power: no last words."""
        if not self.is_on:
            raise WrongStateError(f"{self.spec.name} is off already")
        self._fall_silent(cut=True)

    def power_cycle(self, addresses: tuple[str, ...] | None = None) -> None:
        """Cut the power if it is on, and switch it on again."""
        if self.is_on:
            self.power_off()
        self.power_on(addresses)

    def move(self, addresses: tuple[str, ...]) -> None:
        """Change the lease in place: no reboot, but another leaf that lists old and new addresses."""
        if not self.is_up:
            raise WrongStateError(f"{self.spec.name} does not run ({self.phase}): its lease cannot change in place")
        self.addresses = addresses
        self._accumulate()
        self._refresh()

    def wipe(self, addresses: tuple[str, ...] | None = None) -> None:
        """Lose everything that was installed and boot again, into maintenance mode."""
        self._forget()
        self.power_cycle(addresses)

    def tick(self) -> None:
        """Do what is due, if it is."""
        while self.due is not None and self._clock() >= self.due:
            self.due = None
            self._then()

    # What it is asked over its API.

    def check(self, data: bytes) -> Configuration:
        """Parse a configuration, or refuse it as the node would."""
        try:
            return parse(data)
        except InvalidConfigurationError as error:
            raise serve.Refusal(serve.Code.INVALID_ARGUMENT, str(error)) from error

    def apply(self, data: bytes, mode: serve.Mode, *, dry_run: bool) -> serve.Applied:
        """Take a configuration; in maintenance mode a complete one starts the installation."""
        configuration = self.check(data)
        if not self.is_up:
            raise serve.Refusal(serve.Code.UNAVAILABLE, f"the node is {self.phase}")
        if self.is_configured and not configuration.is_complete:
            raise serve.Refusal(serve.Code.INVALID_ARGUMENT, "a v1alpha1 document is required")
        if mode in (serve.Mode.TRY, serve.Mode.STAGED):
            raise serve.Refusal(serve.Code.UNIMPLEMENTED, f"the simulated node does not know mode {mode.name}")
        used = serve.Mode.NO_REBOOT
        if self.is_configured and mode is serve.Mode.REBOOT:
            used = serve.Mode.REBOOT
        details = f"Applied configuration with mode {used.name}" if not dry_run else "Dry run: nothing was stored"
        if not dry_run:
            self._take(configuration, used)
        return serve.Applied(used, details)

    def reboot(self) -> None:
        self._leave("rebooting", lambda: self._restart(forget=False))

    def shutdown(self) -> None:
        self._leave("shutting down", lambda: self._fall_silent(cut=False))

    def reset(self, labels: Iterable[str], *, reboot: bool) -> None:
        """Wipe the given partitions, all without any; losing STATE means to come back in maintenance mode."""
        named = set(labels)
        forget = not named or "STATE" in named
        self._leave("resetting", lambda: self._restart(forget=forget, stay_off=not reboot))

    # What follows.

    def _take(self, configuration: Configuration, used: serve.Mode) -> None:
        self.received_count += 1
        self.received.append(hashlib.sha256(configuration.data).hexdigest())
        was_configured = self.is_configured
        before = (self.hostname, self._sans())
        self.configuration = configuration
        if not was_configured and configuration.is_complete:
            self.phase, self._stage = Phase.INSTALLING, "installing"
            self._refresh()
            self.was_cut = False
            self._after(self.spec.install_seconds, self._installed)
            return
        if before != (self.hostname, self._sans()):
            self.leaves += 1
        self._refresh()
        if used is serve.Mode.REBOOT:
            self.reboot()

    def _installed(self) -> None:
        if self.spec.install_reboots:
            self._boot()
            return
        self.leaves += 1
        self._run()

    def _leave(self, stage: str, then: Callable[[], None]) -> None:
        if self.phase is not Phase.RUNNING:
            raise serve.Refusal(serve.Code.FAILED_PRECONDITION, f"the node is {self.phase}")
        self.phase, self._stage = Phase.LEAVING, stage
        self._refresh()
        self._after(LAST_WORDS_SECONDS, then)

    def _restart(self, *, forget: bool, stay_off: bool = False) -> None:
        self._fall_silent(cut=False)
        if forget:
            self._forget()
        if not stay_off:
            self.phase = Phase.BOOTING
            self._after(SHUT_SECONDS + self.spec.boot_seconds, self._boot)

    def _fall_silent(self, *, cut: bool) -> None:
        self.phase = Phase.OFF
        self.was_cut = cut
        self.due = None

    def _forget(self) -> None:
        self.configuration = None
        self.node_id = self._new_node_id()

    def _boot(self) -> None:
        self.boots += 1
        self.boot_id = self._new_uuid()
        self.resources = serve.Resources(self.now)
        self.accumulated = ()
        self._accumulate()
        self._run()

    def _run(self) -> None:
        if self.is_configured:
            self.phase, self._stage = Phase.RUNNING, "running"
        else:
            self.phase, self._stage = Phase.MAINTENANCE, "maintenance"
        self._refresh()

    def _accumulate(self) -> None:
        self.accumulated = tuple(dict.fromkeys((*self.accumulated, *self.addresses)))
        self.leaves += 1

    def _after(self, seconds: float, then: Callable[[], None]) -> None:
        self.due, self._then = self._clock() + seconds, then
        self.tick()

    def _refresh(self) -> None:
        self.resources.become(self.wanted_resources())

    def wanted_resources(self) -> Mapping[serve.Key, serve.Spec]:
        """What the resources say now."""
        return resources_of(
            Shown(
                uuid=self.uuid,
                serial=self.serial,
                has_smbios=self.spec.smbios,
                maker=(self.spec.manufacturer, self.spec.product, self.spec.product_version),
                links=self.links,
                addresses=[self._prefix(address) for address in self.addresses],
                accumulated=[self._prefix(address) for address in self.accumulated],
                hostname=self.hostname,
                stage=self._stage,
                kind=self.kind,
                is_configured=self.is_configured,
                configuration=self.configuration.data if self.configuration else None,
                version=TALOS_VERSION,
            )
        )

    def _prefix(self, address: str) -> str:
        return f"{address}/{64 if ':' in address else self.spec.prefix_length}"

    def _sans(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        configuration = self.configuration
        return (configuration.san_addresses, configuration.san_names) if configuration else ((), ())

    def _new_uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def _new_mac(self) -> str:
        return ":".join(["b4", "96", "91", *(f"{self._random.getrandbits(8):02x}" for _ in range(3))])

    def _new_node_id(self) -> str:
        return f"{self._random.getrandbits(256):064x}"
