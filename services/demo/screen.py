"""How the story is shown: one live screen on a terminal, one line at a time anywhere else."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from libs.machine import TalosMachine, dial_endpoint, ready_condition
from services.demo.story import Step


class Screen(Protocol):
    """What the demo tells while it runs."""

    pause_seconds: float
    """Between two steps: time to read, where a person watches."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def begin(self, name: str, shows: str) -> None: ...
    def held(self, evidence: str) -> None: ...
    def failed(self, why: str) -> None: ...
    def say(self, text: str) -> None: ...
    def machines(self, machines: dict[str, TalosMachine]) -> None: ...


def choose(steps: Iterable[Step]) -> Screen:
    """A live screen on a terminal that can redraw, plain lines otherwise."""
    console = Console(highlight=False)
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveScreen(console, steps)
    return PlainScreen(console)


class PlainScreen:
    """A line when something begins, holds or fails, and one for each change of a machine."""

    pause_seconds = 0.0

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()
        self._lines: dict[str, str] = {}
        self._name = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def begin(self, name: str, shows: str) -> None:
        self._name = name
        self._say(f"...  {name}: {shows}")

    def held(self, evidence: str) -> None:
        self._say(f"ok   {self._name}: {evidence}")

    def failed(self, why: str) -> None:
        self._say(f"FAIL {self._name}: {why}")

    def say(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, markup=False)

    def machines(self, machines: dict[str, TalosMachine]) -> None:
        for name, machine in sorted(machines.items()):
            row = _Row(name, machine)
            line = f"{row.name}  declared {row.declared}  dials {row.dials}  Ready={row.ready} {row.reason}"
            if self._lines.get(name) != line:
                self._lines[name] = line
                self._say(f"       {line}")

    def _say(self, text: str) -> None:
        self._console.print(f"{time.monotonic() - self._started:6.1f} s  {text}", soft_wrap=True, markup=False)


class LiveScreen:
    """The steps above, the machines below, redrawn in place; what was shown last stays on the terminal."""

    pause_seconds = 1.5

    def __init__(self, console: Console, steps: Iterable[Step]) -> None:
        self._shows = {"start": "nats-server, Kubernetes API, three boxes, all services"}
        self._shows |= {step.name: step.shows for step in steps}
        self._outcome: dict[str, tuple[str, str]] = {}
        self._now = ""
        self._machines: dict[str, TalosMachine] = {}
        self._said: list[str] = []
        self._spinner = Spinner("dots")
        self._live = Live(console=console, refresh_per_second=8, get_renderable=self._draw)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._now = ""
        self._live.__exit__(kind, error, trace)

    def begin(self, name: str, shows: str) -> None:
        self._now = name
        self._shows[name] = shows

    def held(self, evidence: str) -> None:
        self._outcome[self._now] = ("✓", evidence)

    def failed(self, why: str) -> None:
        self._outcome[self._now] = ("✗", why)

    def say(self, text: str) -> None:
        self._said.append(text)

    def machines(self, machines: dict[str, TalosMachine]) -> None:
        self._machines = dict(machines)

    def _draw(self) -> Group:
        steps = Table.grid(padding=(0, 2, 0, 0))
        for name, shows in self._shows.items():
            mark, evidence = self._outcome.get(name, ("", ""))
            sign: Text | Spinner = Text(mark, style="bold green" if mark == "✓" else "bold red")
            if not mark and name == self._now:
                sign = self._spinner
            style = "" if mark or name == self._now else "dim"
            steps.add_row(sign, Text(name, style=style or "bold"), Text(evidence or shows, style=style))
        table = Table("machine", "declared", "dials", "Ready", "reason", "known by", box=None, pad_edge=False)
        for name, machine in sorted(self._machines.items()):
            row = _Row(name, machine)
            moved = "bold yellow" if row.dials != row.declared else ""
            ready = "green" if row.ready == "True" else "red"
            table.add_row(
                row.name, row.declared, Text(row.dials, moved), Text(row.ready, ready), row.reason, row.source
            )
        title = Text("nodetrail: a node that moves is followed", style="bold")
        return Group(title, Text(), steps, Text(), table, Text(), *map(Text, self._said))


class _Row:
    """What is shown of one machine."""

    def __init__(self, name: str, machine: TalosMachine) -> None:
        ready = ready_condition(machine)
        self.name = name
        self.declared = machine.spec.endpoint
        self.dials = dial_endpoint(machine)
        self.ready = ready.status if ready else "-"
        self.reason = ready.reason if ready else "-"
        source = machine.status.observed_source
        self.source = str(source) if source and self.dials != self.declared else "declared"
