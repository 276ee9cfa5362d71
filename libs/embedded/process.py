"""One child process: started so that it ends with us, its output in a file, stopped politely and then not.

The methods block; each returns as soon as what it waits for holds, and from asyncio they are called by
`asyncio.to_thread`. Children are made by `subprocess`, which does not fork our memory: a process that has
loaded gRPC may start them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

STOP_SECONDS = 6.0
"""A service stops within 5 s of SIGTERM; one second more, and it is killed."""
POLL_SECONDS = 0.02
_TAIL_BYTES = 3000

# The kernel sends the death signal when the *thread* that made the child ends, so one thread that lives as
# long as this process makes them all.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")

# Runs in the child before the program takes its place: ask the kernel to kill it when its parent dies, and
# leave at once if the parent died before that.
_LAUNCHER = """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


class ProcessError(Exception):
    """A child did not do what was waited for; the text says what, and shows the end of its log."""


class Process:
    """A program that can be started, watched, stopped, killed and started again."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        log_file: Path,
        environ: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        """Prepare to run `argv`, whose first word is a path; `environ` is the child's whole environment."""
        self.name = name
        self.argv = [str(word) for word in argv]
        self.log_file = log_file
        self._environ = None if environ is None else dict(environ)
        self._folder = folder
        self._child: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int:
        """The running child's process id; raises `ProcessError` when there is none."""
        if self._child is None or not self.is_running:
            raise ProcessError(f"{self.name} is not running")
        return self._child.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._child is not None and self._child.poll() is None

    @property
    def exit_code(self) -> int | None:
        """What the last run ended with (negative: the signal), None while it runs or before the first."""
        return None if self._child is None else self._child.poll()

    def log_text(self) -> str:
        """Return what this run (or the last) has written so far."""
        try:
            with self.log_file.open("rb") as file:
                file.seek(self._log_start)
                return file.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def start(self) -> None:
        """Start it; returns at once. Its output is added to the log file."""
        if self.is_running:
            raise ProcessError(f"{self.name} is running already")
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            self._log_start = log.tell()
            self._child = _spawner.submit(self._spawn, log.fileno()).result()

    def send(self, signal_number: signal.Signals) -> None:
        """Send a signal; nothing happens when it has ended."""
        if self._child is not None and self.is_running:
            self._child.send_signal(signal_number)

    def wait(self, seconds: float) -> int:
        """Wait for its end and return the exit code; `ProcessError` when it still runs after that."""
        if self._child is None:
            raise ProcessError(f"{self.name} was never started")
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise ProcessError(f"{self.name} (pid {self._child.pid}) still runs after {seconds:g} s") from None

    def stop(self, seconds: float = STOP_SECONDS) -> int | None:
        """End it with SIGTERM, after `seconds` with SIGKILL; return the exit code. Safe to repeat."""
        self.send(signal.SIGTERM)
        return self.stopped(seconds)

    def stopped(self, seconds: float = STOP_SECONDS) -> int | None:
        """Wait for an end that was asked for, and after `seconds` force it; return the exit code."""
        if self._child is None:
            return None
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int | None:
        """End it with SIGKILL and wait until it is gone; return the exit code."""
        if self._child is None:
            return None
        self.send(signal.SIGKILL)
        return self._child.wait()

    def wait_until(self, holds: Callable[[], bool], *, what: str, seconds: float) -> None:
        """Wait until it holds; `ProcessError` when the child ends before, or it does not in time."""
        deadline = time.monotonic() + seconds
        while not holds():
            if not self.is_running:
                raise ProcessError(f"{self.name} ended with {self.exit_code} before {what}{self._log_tail()}")
            if time.monotonic() > deadline:
                raise ProcessError(f"{self.name}: not within {seconds:g} s: {what}{self._log_tail()}")
            time.sleep(POLL_SECONDS)

    def _spawn(self, log: int) -> subprocess.Popen[bytes]:
        launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid())]
        return subprocess.Popen(  # noqa: S603 - the programs are ours, and no shell is involved
            [*launcher, *self.argv],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=self._environ,
            cwd=self._folder,
            start_new_session=True,  # Ctrl-C reaches us alone, and we stop them in order
        )

    def _log_tail(self) -> str:
        text = self.log_text()[-_TAIL_BYTES:].strip()
        return f"; the end of {self.log_file}:\n{text}" if text else f"; {self.log_file} is empty"
