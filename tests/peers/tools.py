"""kubectl and talosctl as a person would call them, with a home folder of their own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


class ToolFailedError(Exception):
    """A call did not end as it had to; the text holds what it wrote."""


class Tool:
    """A command with options that go before every call's words; usable as a path too."""

    def __init__(self, path: Path, *options: str | Path, home: Path) -> None:
        self.path = path
        self._options = options
        # Neither a person's configuration nor a discovery cache of another server on the same port.
        home.mkdir(parents=True, exist_ok=True)
        self._environ = {"HOME": str(home), "PATH": os.defpath, "KUBECACHEDIR": str(home / "cache")}
        self._home = home

    def __call__(self, *words: str | Path, stdin: str = "", seconds: float = 60.0) -> str:
        """Run it and return its standard output; `ToolFailedError` when it ends with another code than 0."""
        done = self._run(words, stdin, seconds)
        if done.returncode:
            raise ToolFailedError(
                f"{self.path.name} {' '.join(map(str, words))}: {done.returncode}\n{done.stderr}{done.stdout}"
            )
        return done.stdout

    def refused(self, *words: str | Path, stdin: str = "", seconds: float = 60.0) -> str:
        """Run what has to fail and return what it says on standard error; `ToolFailedError` when it succeeds."""
        done = self._run(words, stdin, seconds)
        if not done.returncode:
            raise ToolFailedError(f"{self.path.name} {' '.join(map(str, words))} succeeded:\n{done.stdout}")
        return done.stderr

    def __fspath__(self) -> str:
        return str(self.path)

    def _run(self, words: tuple[str | Path, ...], stdin: str, seconds: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.path, *self._options, *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env=self._environ,
            cwd=self._home,
        )
