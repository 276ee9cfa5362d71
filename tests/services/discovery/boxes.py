"""Boxes for discovery's tests: the real TLS and API of Talos at loopback addresses, and things that are no node."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

from libs.endpoint import DEFAULT_PORT
from libs.identity import Identity
from libs.talos import serve
from libs.talos.serve import specs

_subnets = itertools.count(1)


def fresh_subnet() -> str:
    """The first three numbers of loopback addresses that no other test uses, in this process or another."""
    return f"127.{100 + os.getpid() % 150}.{next(_subnets)}"


def identity(number: int, *, uuid: str | None = None) -> Identity:
    """A box's hardware; all three signals differ by number."""
    return Identity(
        uuid=f"4c4c4544-0034-5210-8031-b4c04f4d{number:04x}" if uuid is None else uuid,
        serial_number=f"SN{number:06}",
        mac_addresses=(f"b4:96:91:00:{number >> 8:02x}:{number & 255:02x}",),
    )


async def until(holds: Callable[[], bool], *, seconds: float = 10) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.005)


class Box:
    """A node's API that knows who it is and nothing else."""

    forwards = False

    def __init__(self, who: Identity, *, configured_as: str = "") -> None:
        self.in_maintenance = not configured_as
        self.resources = serve.Resources(time.time)
        self.became: list[serve.Peer] = []
        self._name = configured_as or serve.MAINTENANCE_NAME
        self.become(who)

    def become(self, who: Identity) -> None:
        """Be another box from the next read on."""
        found: dict[serve.Key, serve.Spec] = {}
        if who.uuid or who.serial_number:
            found |= specs.system_information(
                uuid=who.uuid, serial=who.serial_number, manufacturer="Dell", product="R640", version="1"
            )
        for index, mac in enumerate(who.mac_addresses, start=2):
            found |= specs.link_status(index, specs.Link(f"eth{index}", hardware_address=mac, permanent_address=mac))
        self.resources.become(found)

    def leaf(self) -> serve.Leaf:
        """A new leaf, as after a reboot or a new lease."""
        return serve.Authority.for_maintenance().issue_server(self._name, addresses=[])

    def conduct(self) -> serve.Conduct:
        return serve.Conduct.NORMAL

    def connected(self, peer: serve.Peer) -> None:
        self.became.append(peer)

    def is_me(self, target: str) -> bool:
        return False

    def neighbour(self, target: str) -> serve.NodeApi | None:
        return None

    def version(self) -> serve.VersionInfo:
        return serve.VersionInfo("v1.13.9")

    def hostname(self) -> str:
        return ""

    async def apply_configuration(self, data: bytes, mode: serve.Mode, *, dry_run: bool) -> serve.Applied:
        raise AssertionError("discovery sends nothing")

    def reboot(self) -> None:
        raise AssertionError("discovery asks for nothing")

    def shutdown(self) -> None:
        raise AssertionError("discovery asks for nothing")

    def reset(self, *, labels: Iterable[str], reboot: bool) -> None:
        raise AssertionError("discovery asks for nothing")

    def read_file(self, path: str) -> bytes:
        raise AssertionError("discovery asks for nothing")


class Port:
    """A box's open port, with the fingerprint that it shows now."""

    def __init__(self, box: Box, listener: serve.Listener) -> None:
        self.box = box
        self._listener = listener
        self.fingerprint = ""

    async def renew(self) -> None:
        """Show a new leaf."""
        leaf = self.box.leaf()
        await self._listener.present(serve.Presented(leaf))
        self.fingerprint = leaf.fingerprint

    def move(self, *addresses: str) -> None:
        """Answer at these addresses and nowhere else."""
        self._listener.listen(addresses)


@asynccontextmanager
async def box_at(
    *addresses: str, who: Identity, configured_as: str = "", port: int = DEFAULT_PORT
) -> AsyncIterator[Port]:
    """A box that answers at these addresses while the block runs."""
    box = Box(who, configured_as=configured_as)
    async with serve.Listener(box, port=port) as listener:
        opened = Port(box, listener)
        await opened.renew()
        opened.move(*addresses)
        yield opened


@asynccontextmanager
async def thing_at(
    address: str, answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
) -> AsyncIterator[None]:
    """Something that accepts connections at an address and does with each what it likes."""

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):  # the test's loop ends before the connection
            await answer(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve_one, address, DEFAULT_PORT)
    try:
        yield
    finally:
        server.close()


async def garbage(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(os.urandom(4096))
    await writer.drain()


async def silence(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    while await reader.read(65536):
        pass


async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"\x16\x03\x03\x40\x00" + bytes(16384))
        await writer.drain()
