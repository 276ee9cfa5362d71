"""The TCP stage of a /16 on loopback, one address in a hundred listening, beside `nmap -sT` on the same range."""

from __future__ import annotations

import re
import resource
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from services.discovery.ranges import Target, parse_ranges
from services.discovery.sweep import TcpSweep
from tests.bench.row import ROUNDS, Row, against_floor

RANGE = "127.200.0.0/16"
ADDRESSES = 1 << 16
LISTENING = 655
PORT = 50000


def measure() -> Row:
    """Sweep and nmap by turns; both must find every listener."""
    nmap = shutil.which("nmap")
    if nmap is None:
        raise FileNotFoundError("the sweep is measured beside nmap: apt-get install nmap")
    with listeners() as listening:
        pairs = [(ours(listening), theirs(nmap, listening)) for _ in range(ROUNDS)]
    return against_floor(
        "TCP stage of a /16, 1 % listening, rest refusing",
        pairs,
        unit="addresses/s",
        floor_is="nmap -sT",
        target=0.9,
        better="more",
    )


def ours(listening: set[str]) -> float:
    """Return addresses a second of our own sweep."""
    found: set[str] = set()

    def take(target: Target) -> None:
        found.add(target.endpoint.host)

    sweep = TcpSweep(found=take, rate=1e9, timeout_seconds=2.0, window=4096)
    tally = sweep.run(parse_ranges([RANGE]).targets())
    assert found == listening, f"found {len(found)} of {len(listening)}"
    return ADDRESSES / tally.seconds


def theirs(nmap: str, listening: set[str]) -> float:
    """Return addresses a second of nmap by its own clock."""
    command = [nmap, "-sT", "-n", "-Pn", "-T5", "--min-rate", "100000", "-p", str(PORT), "--open", "-oG", "-", RANGE]
    out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    found = set(re.findall(r"Host: (\S+) .*50000/open", out))
    seconds = re.search(r"scanned in ([0-9.]+) seconds", out)
    assert seconds is not None, out[-500:]
    assert found == listening, f"nmap found {len(found)} of {len(listening)}"
    return ADDRESSES / float(seconds[1])


@contextmanager
def listeners() -> Iterator[set[str]]:
    """Listen on every hundredth address of the range."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    sockets: list[socket.socket] = []
    try:
        addresses = {f"127.200.{n >> 8}.{n & 255}" for n in range(50, ADDRESSES, ADDRESSES // LISTENING)}
        for address in addresses:
            server = socket.create_server((address, PORT), backlog=64)
            sockets.append(server)
        yield addresses
    finally:
        for server in sockets:
            server.close()
