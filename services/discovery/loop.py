"""The scanner: sweep after sweep, who answers goes into the site's picture, and what changes there is published."""

from __future__ import annotations

import asyncio
import itertools
import resource
import secrets
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from libs import bus, runtime
from libs import identity as identities
from libs.endpoint import parse_endpoint
from libs.events import EndpointObserved, NodeSighted, subjects
from libs.machine import Source
from services.discovery.metrics import Metrics
from services.discovery.names import resolve
from services.discovery.outbox import Outbox
from services.discovery.picture import Answer, Picture, Site
from services.discovery.probe import IN_FLIGHT_MAX, Found, Outcome, Prober, Sighting, Strangers
from services.discovery.ranges import Target, parse_ranges
from services.discovery.settings import Settings
from services.discovery.sweep import TcpSweep

OPEN_WAITING_MAX = 1024
"""Open ports that wait for a probe; while more do, the TCP stage pauses."""
WINDOW_MAX = 16_000
WINDOW_MIN = 64
_FILES_KEPT = 512
"""Descriptors for probes, NATS and health; the rest may be connects in flight."""
_SECOND_LOOKS_AT_ONCE = 8


async def run(settings: Settings, service: runtime.Service) -> None:
    """Sweep and publish until cancelled."""
    async with (
        bus.connect(settings, name="discovery", health=service.health, registry=service.registry) as nats,
        nats.micro("discovery", version=runtime.version(), description=f"sweeps the site {settings.site}"),
    ):
        outbox = Outbox(nats)
        metrics = Metrics(service.registry)
        metrics.unpublished.set_function(lambda: len(outbox))
        scanner = Scanner(settings, outbox, metrics)
        await runtime.run_until_stopped(
            sweeps=scanner.sweep_for_ever, pictures=scanner.show_for_ever, outbox=outbox.run
        )


class Scanner:
    """Sweeps one site's ranges."""

    def __init__(self, settings: Settings, outbox: Outbox, metrics: Metrics) -> None:
        self.site = Site()
        self._settings = settings
        self._ranges = parse_ranges(settings.ranges)
        self._outbox = outbox
        self._metrics = metrics
        self._prober = Prober(settings.probe_timeout_seconds)
        self._strangers = Strangers()
        self._changed: runtime.KeyQueue[str] = runtime.KeyQueue()
        self._window = window(settings.sweep_rate, settings.probe_timeout_seconds)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sweep")
        # In message ids, so that those of this run are never taken for repeats of an earlier one's.
        self._run = secrets.token_hex(4)
        self._shown = 0
        self._log = runtime.log("discovery")

    async def sweep_for_ever(self) -> None:
        """Sweep, one sweep every SWEEP_SECONDS, or without a pause when one takes longer."""
        while True:
            begun = time.monotonic()
            await self.sweep_once()
            await asyncio.sleep(max(0.0, begun + self._settings.sweep_seconds - time.monotonic()))

    async def sweep_once(self) -> None:
        """Sweep all ranges once, and want every picture published."""
        begun = time.monotonic()
        number = self.site.begin_sweep()
        tcp = await self._sweep_and_probe()
        for key in self.site.end_sweep(at=time.monotonic()):
            self._changed.add(key)
        self._strangers.end_sweep(number)
        seconds = time.monotonic() - begun
        self._metrics.swept(tcp.tally, seconds=seconds)
        self._metrics.identities.set(len(self.site))
        self._metrics.left_out.inc(self.site.left_out)
        self._log.info(
            "swept",
            sweep=number,
            addresses=tcp.tally.swept,
            open=tcp.tally.opened,
            identities=len(self.site),
            left_out=self.site.left_out,
            tcp_seconds=round(tcp.tally.seconds, 3),
            seconds=round(seconds, 3),
        )

    async def show_for_ever(self) -> None:
        """Publish the picture of each identity that changed, after a second look where one is due."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_SECOND_LOOKS_AT_ONCE):
                group.create_task(self._show_each())

    async def _sweep_and_probe(self) -> TcpSweep:
        """Run the TCP stage in a thread and probe what it finds; return when both are done."""
        loop = asyncio.get_running_loop()
        found: asyncio.Queue[Target] = asyncio.Queue()
        probed = 0

        def found_one(hit: Target) -> None:
            loop.call_soon_threadsafe(found.put_nowait, hit)

        async def probe_each() -> None:
            nonlocal probed
            while True:
                endpoint = (await found.get()).endpoint
                self._take(str(endpoint), await self._prober.probe(endpoint))
                probed += 1
                found.task_done()

        tcp = TcpSweep(
            found=found_one,
            rate=self._settings.sweep_rate,
            timeout_seconds=self._settings.probe_timeout_seconds,
            window=self._window,
            has_room=lambda: tcp.tally.opened - probed < OPEN_WAITING_MAX,
        )
        named = await resolve(self._ranges.names)
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(probe_each()) for _ in range(IN_FLIGHT_MAX)]
            await self._in_thread(tcp, itertools.chain(named, self._ranges.targets()))
            await found.join()
            for worker in workers:
                worker.cancel()
        return tcp

    async def _in_thread(self, tcp: TcpSweep, targets: Iterable[Target]) -> None:
        work = asyncio.get_running_loop().run_in_executor(self._thread, tcp.run, targets)
        try:
            await asyncio.shield(work)
        finally:
            tcp.stop()
            await asyncio.wait([work])  # some hundredths of a second: it was told to stop

    def _take(self, address: str, found: Found, *, shown_next: str = "") -> None:
        """Take in what a probe found; the picture named by `shown_next` is about to be shown anyway."""
        if isinstance(found, Answer):
            self._metrics.probed(Outcome.MAINTENANCE)
            key = self.site.saw(found)
            if key is not None and key != shown_next:
                self._changed.add(key)
        elif isinstance(found, Sighting):
            self._metrics.probed(Outcome.CONFIGURED)
            self._publish_sighting(found)
        else:
            self._metrics.probed(found.outcome)
            self._strangers.tell(address, found, sweep=self.site.sweep)

    async def _show_each(self) -> None:
        while True:
            key = await self._changed.get()
            try:
                await asyncio.gather(*(self._look_again(key, address) for address in self.site.second_look(key)))
                picture = self.site.show(key)
                if picture is not None:
                    self._publish(key, picture)
            finally:
                self._changed.done(key)

    async def _look_again(self, key: str, address: str) -> None:
        found = await self._prober.probe(parse_endpoint(address))
        self._take(address, found, shown_next=key)
        if not isinstance(found, Answer) or identities.key(found.identity) != key:
            self.site.lost(key, address, at=time.monotonic())

    def _publish(self, key: str, picture: Picture) -> None:
        event = EndpointObserved(
            source=Source.DISCOVERY,
            addresses=picture.addresses,
            identity=picture.identity,
            site=self._settings.site,
            sweep=picture.sweep,
            sweeps_agreeing=picture.sweeps_agreeing,
        )
        self._put(subjects.observed_discovery(self._settings.site, key), event, made_at=picture.made_at)

    def _publish_sighting(self, sighting: Sighting) -> None:
        event = NodeSighted(
            site=self._settings.site,
            address=sighting.address,
            common_name=sighting.common_name,
            fingerprint=sighting.fingerprint,
        )
        self._put(subjects.sighted(self._settings.site, sighting.common_name), event, made_at=sighting.at)

    def _put(self, subject: str, event: EndpointObserved | NodeSighted, *, made_at: float) -> None:
        self._shown += 1
        message_id = f"{subject}/{self._run}/{self.site.sweep}/{self._shown}"
        if not self._outbox.put(subject, event, message_id=message_id, made_at=made_at):
            self._metrics.left_out.inc()


def window(rate: float, timeout_seconds: float) -> int:
    """Return how many connects may be in flight, after raising the soft limit of open files as far as is of use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WINDOW_MAX + _FILES_KEPT
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    allowed = max(WINDOW_MIN, wanted - _FILES_KEPT)
    if allowed < rate * timeout_seconds:
        runtime.log("discovery").warning(
            "where nothing answers the sweep is slower than SWEEP_RATE",
            why="so many connects at once are all that our bounds and the limit of open files allow",
            connects=allowed,
            addresses_per_second=round(allowed / timeout_seconds),
        )
    return allowed
