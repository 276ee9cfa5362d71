"""The life of a process: settings, logs, HTTP, signals, and an end that always comes.

Exit codes: 0 after SIGTERM or SIGINT, 1 after an error that nobody handled, 2 for wrong settings.
"""

import asyncio
import faulthandler
import os
import signal
import sys
import tomllib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import TypeVar

from prometheus_client import CollectorRegistry, Gauge, GCCollector, PlatformCollector, ProcessCollector
from starlette.types import ASGIApp
from structlog.typing import FilteringBoundLogger

from libs.runtime import http
from libs.runtime.health import Health
from libs.runtime.logs import log, set_up_logs
from libs.runtime.settings import CommonSettings, SettingsError, settings_from_environ, split_listen

_PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"

STOP_SECONDS = 4.5
"""After this the process ends without further asking, so that it is gone 5 s after a signal."""
_LAST_WORDS_SECONDS = 0.2
_TASKS_SHOWN_MAX = 20

S = TypeVar("S", bound=CommonSettings)
_OK, _CRASHED, _WRONG_SETTINGS = 0, 1, 2


class CannotStartError(Exception):
    """Something that a person must mend keeps the process from starting; the text says what. No fault of the code."""


class ListenError(CannotStartError):
    """The address of the setting LISTEN cannot be had."""


class Service:
    """What `run` is given: the process's name, log, metrics and health."""

    def __init__(self, name: str, listen: str, resources: AsyncExitStack) -> None:
        self.name = name
        self.log: FilteringBoundLogger = log(name)
        self.registry = CollectorRegistry()
        self.health = Health(self.registry)
        self._listen = listen
        self._resources = resources
        GCCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        ProcessCollector(registry=self.registry)
        Gauge(
            "nodetrail_info", "Which service and version this is", ["service", "version"], registry=self.registry
        ).labels(service=name, version=version()).set(1)

    async def listen(self, behind: ASGIApp | None = None) -> str:
        """Serve health and metrics, and `behind` on all other paths, until the process ends; return host:port.

        `main` has called it already, except for a service that passed `serves_pages`.
        """
        host, port = split_listen(self._listen)
        try:
            listener = http.bind(host, port)
        except OSError as error:
            raise ListenError(f"cannot listen on {self._listen} (NODETRAIL_LISTEN): {error.strerror}") from error
        address = http.address_of(listener)
        await self._resources.enter_async_context(
            http.serving(http.pages(self.health, self.registry, behind), listener)
        )
        self.log.info("listening", address=address)
        return address


Run = Callable[[S, Service], Awaitable[None]]


def version() -> str:
    """Return the installed version, or that of the source folder it is run from."""
    try:
        return metadata.version("nodetrail")
    except metadata.PackageNotFoundError:
        with suppress(OSError, KeyError, tomllib.TOMLDecodeError):
            project: dict[str, str] = tomllib.loads(_PYPROJECT.read_text())["project"]
            return project["version"]
    return "unknown"


def main(
    name: str,
    kind: type[S],
    run: Run[S],
    *,
    serves_pages: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Run a service until it is told to stop, and end the process with its exit code.

    `run` is cancelled on SIGTERM and SIGINT. With `serves_pages` it calls `service.listen(app)` itself, as
    its first deed: a service is known to be there by that log line.
    """
    try:
        settings = settings_from_environ(kind, environ)
    except SettingsError as error:
        sys.stderr.writelines(f"{problem}\n" for problem in error.problems)
        sys.exit(_WRONG_SETTINGS)
    set_up_logs(log_format=settings.log_format, log_level=settings.log_level, service=name)
    sys.exit(asyncio.run(_live(name, settings, run, serves_pages=serves_pages)))


async def _live(name: str, settings: S, run: Run[S], *, serves_pages: bool) -> int:
    logger = log(name)
    ending = _Ending(logger)
    try:
        async with AsyncExitStack() as resources:
            service = Service(name, settings.listen, resources)
            if not serves_pages:
                await service.listen()
            await run(settings, service)
            ending.begin(why="its work is done")
    except asyncio.CancelledError:
        if not ending.begun:
            raise
    except CannotStartError as error:
        logger.error("cannot start", why=str(error))  # noqa: TRY400 - a trace would hide the one sentence
        ending.begin(why="it cannot start")
        return _CRASHED
    except Exception:
        logger.exception("failed while stopping" if ending.begun else "crashed")
        ending.begin(why="crashed")
        return _CRASHED
    return _OK


class _Ending:
    """Begins the end of the running task once, and makes sure of it: a clean-up that hangs is cut off."""

    def __init__(self, logger: FilteringBoundLogger) -> None:
        self.begun = False
        self._clock_runs = False
        self._log = logger
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def begin(self, *, why: str) -> None:
        """Say once that the process stops, and start the last resort's clock."""
        if self.begun:
            return
        self.begun = True
        self._log.info("stopping", why=why)
        self._loop.call_later(STOP_SECONDS - _LAST_WORDS_SECONDS, self._say_what_hangs)
        self._start_clock()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        # The interrupted code may hold any lock, that of the log included: nothing here takes one. The clock
        # starts here rather than on the loop, which may be what hangs.
        self._start_clock()
        self._loop.call_soon_threadsafe(self._stop, signal.Signals(number).name)

    def _stop(self, why: str) -> None:
        if not self.begun and self._task is not None:
            self.begin(why=why)
            self._task.cancel()

    def _start_clock(self) -> None:
        if not self._clock_runs:
            self._clock_runs = True
            faulthandler.dump_traceback_later(STOP_SECONDS, exit=True)

    def _say_what_hangs(self) -> None:
        tasks = sorted(task.get_name() for task in asyncio.all_tasks(self._loop))
        self._log.error("cut off", tasks=tasks[:_TASKS_SHOWN_MAX])
