"""The life of a process, seen from outside: real children, real signals."""

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from libs.embedded.process import Process

ROOT = Path(__file__).resolve().parents[3]
HEAD = """
import asyncio, os, time
from libs import runtime

class Settings(runtime.CommonSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    rate: int = 1

"""
FOREVER = """
async def run(settings, service):
    service.health.waiting("nats", "nobody there")
    await runtime.run_until_stopped(watch=asyncio.Event().wait, work=asyncio.Event().wait)
"""
BUSY_WITH_CLEAN_UP = """
async def run(settings, service):
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.2)
        service.log.info("cleaned up")
"""
HANGS_ASLEEP = """
async def run(settings, service):
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(60)
"""
HANGS_BLOCKED = """
async def run(settings, service):
    service.log.info("blocking")
    time.sleep(60)
"""
HANGS_IN_THREAD = """
async def run(settings, service):
    service.log.info("blocking")
    await asyncio.to_thread(time.sleep, 60)
"""
PART_FAILS = """
async def bad():
    raise ValueError("the part is broken")

async def run(settings, service):
    await runtime.run_until_stopped(watch=asyncio.Event().wait, bad=bad)
"""
PART_RETURNS = """
async def brief():
    pass

async def run(settings, service):
    await runtime.run_until_stopped(watch=asyncio.Event().wait, brief=brief)
"""
FOOT = """
runtime.main("tester", Settings, run)
"""


class Child(Process):
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log_text().splitlines() if line.startswith("{")]

    def said(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line["event"] == event]

    def wait_said(self, event: str) -> None:
        self.wait_until(lambda: bool(self.said(event)), what=event, seconds=20)


Run = Callable[..., Child]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    children = []

    def run(body: str, **environ: str) -> Child:
        child = Child(
            "tester",
            [sys.executable, "-c", HEAD + body + FOOT],
            log_file=tmp_path / "log",
            environ={"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"} | environ,
        )
        children.append(child)
        child.start()
        return child

    yield run
    for child in children:
        child.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_zero_and_one_line(run: Run, number: signal.Signals) -> None:
    child = run(FOREVER)
    child.wait_said("listening")
    began = time.monotonic()
    child.send(number)
    assert child.wait(10) == 0
    assert time.monotonic() - began < 2
    [line] = child.said("stopping")
    assert line["why"] == number.name
    assert line["service"] == "tester"


def test_the_first_line_names_where_it_listens(run: Run) -> None:
    child = run(FOREVER, NODETRAIL_LISTEN="127.0.0.1:0")
    child.wait_said("waiting")
    first = child.lines()[0]
    assert first["event"] == "listening"
    host, _, port = first["address"].partition(":")
    assert (host, int(port) > 0) == ("127.0.0.1", True)


def test_clean_up_gets_its_time(run: Run) -> None:
    child = run(BUSY_WITH_CLEAN_UP)
    child.wait_said("listening")
    child.send(signal.SIGTERM)
    child.send(signal.SIGTERM)
    assert child.wait(10) == 0
    assert child.said("cleaned up")
    assert len(child.said("stopping")) == 1


@pytest.mark.parametrize("body", [HANGS_ASLEEP, HANGS_BLOCKED, HANGS_IN_THREAD])
def test_what_hangs_is_cut_off_within_five_seconds(run: Run, body: str) -> None:
    child = run(body)
    child.wait_said("listening" if body is HANGS_ASLEEP else "blocking")
    began = time.monotonic()
    child.send(signal.SIGTERM)
    assert child.wait(10) == 1
    assert 3 < time.monotonic() - began < 5
    assert "Timeout" in child.log_text()  # where every thread stood


@pytest.mark.parametrize(
    ("body", "says"),
    [(PART_FAILS, "the part is broken"), (PART_RETURNS, "the part 'brief' has returned")],
    ids=["raises", "returns"],
)
def test_a_part_that_ends_ends_the_process(run: Run, body: str, says: str) -> None:
    child = run(body)
    assert child.wait(20) == 1
    [line] = child.said("crashed")
    assert says in line["exception"]
    assert child.log_text().count("Traceback") == 1


def test_wrong_settings_end_it_with_two_and_a_line_each(run: Run) -> None:
    child = run(FOREVER, NODETRAIL_RATE="x", NODETRAIL_COLOUR="red", NODETRAIL_NATS_CA_FILE="/nowhere")
    assert child.wait(20) == 2
    lines = child.log_text().splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "NODETRAIL_NATS_CA_FILE",
        "NODETRAIL_RATE",
        "NODETRAIL_COLOUR",
    ]


def test_an_address_that_is_taken_is_named(run: Run) -> None:
    child = run(FOREVER)
    child.wait_said("listening")
    taken = child.lines()[0]["address"]
    child.stop()
    other = run(
        f"import socket; kept = socket.create_server(('127.0.0.1', {taken.partition(':')[2]}))\n" + FOREVER,
        NODETRAIL_LISTEN=taken,
    )
    assert other.wait(20) == 1
    [said] = other.said("cannot start")
    assert f"cannot listen on {taken} (NODETRAIL_LISTEN)" in said["why"]
    assert "exception" not in said, "one sentence, and no trace around it"


def test_text_is_for_terminals_and_json_for_the_rest(run: Run) -> None:
    text = run(FOREVER, NODETRAIL_LOG_FORMAT="text")
    text.wait_until(lambda: "waiting" in text.log_text(), what="waiting", seconds=20)
    assert not text.lines()
    assert "\x1b[" not in text.log_text()  # a file has no colours
    assert "address=127.0.0.1:" in text.log_text()


def test_levels_and_the_lines_of_other_libraries(run: Run) -> None:
    child = run(
        "import logging\n"
        "async def run(settings, service):\n"
        "    service.log.info('quiet')\n"
        "    logging.getLogger('other').error('code %s', 7)\n"
        "    service.log.error('loud', code=8)\n",
        NODETRAIL_LOG_LEVEL="warning",
    )
    assert child.wait(20) == 0
    assert not child.said("quiet")
    assert child.said("library says")[0]["text"] == "code 7"
    assert child.said("loud")[0]["code"] == 8
