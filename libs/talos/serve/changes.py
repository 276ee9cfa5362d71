"""The live part of a watch: what the store tells, handed on in batches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from libs.talos.serve.resources import Event, Resources


class OverrunError(Exception):
    """The reader was too slow; nothing more will come."""


async def changes(resources: Resources, namespace: str, type_: str, id_: str | None) -> AsyncIterator[list[Event]]:
    """Yield an empty batch once changes are being collected, then whatever happens, in order."""
    wake = asyncio.Event()
    with resources.watching(namespace, type_, id_, wake.set) as watcher:
        yield []
        while True:
            await wake.wait()
            wake.clear()
            batch = [*watcher.events]
            watcher.events.clear()
            if batch:
                yield batch
            if watcher.overrun:
                raise OverrunError
