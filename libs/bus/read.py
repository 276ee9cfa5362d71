"""Reading a stream without a consumer: direct reads, which need no right to create anything."""

import asyncio
from collections.abc import AsyncIterator
from itertools import islice

import msgspec
from nats.aio.msg import Msg

from libs import events
from libs.bus.delivery import Delivery, read_directly
from libs.bus.errors import RequestFailed
from libs.bus.link import REQUEST_SECONDS, Link, Links
from libs.bus.retry import Retry
from libs.runtime import Health, log

BATCH = 500
"""Subjects in one read; the server refuses a read that would give more than 1,024."""
_NOT_FOUND = "404"
_END = "204"

_log = log("bus")


class Reader:
    """Reads of one process. They wait for NATS and for the stream, and say so."""

    def __init__(self, *, links: Links, health: Health) -> None:
        self._retry = Retry("read", links=links, health=health)

    async def last(self, stream: str, subject: str) -> Delivery | None:
        """Return the newest event of one subject, None when there is none or it cannot be decoded."""
        found = await self._retry.until_answered(lambda link: _read(link, stream, [subject]))
        return next((delivery for message in found if (delivery := _decoded(message))), None)

    async def newest(self, stream: str, subject_filter: str) -> AsyncIterator[Delivery]:
        """Yield the newest event of each subject; what cannot be decoded is logged and left out.

        Holds the subjects' names and one batch of messages in memory. Subjects that come meanwhile are not seen.
        """
        names = iter(sorted(await self._retry.until_answered(lambda link: _subjects(link, stream, subject_filter))))
        while batch := list(islice(names, BATCH)):

            async def read(link: Link, batch: list[str] = batch) -> list[Msg]:
                return await _read(link, stream, batch)

            for message in await self._retry.until_answered(read):
                if (delivery := _decoded(message)) is not None:
                    yield delivery


async def _subjects(link: Link, stream: str, subject_filter: str) -> set[str]:
    found: set[str] = set()
    offset = 0
    while True:
        info = await link.api(f"STREAM.INFO.{stream}", {"subjects_filter": subject_filter, "offset": offset})
        page = info.get("state", {}).get("subjects") or {}
        found.update(page)
        offset += len(page)
        if not page or offset >= int(info.get("total", 0)):
            return found


async def _read(link: Link, stream: str, subjects: list[str]) -> list[Msg]:
    """Return the newest message of each of these subjects that has one."""
    found: list[Msg] = []
    end: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def take(message: Msg) -> None:
        headers = message.headers or {}
        if "Nats-Sequence" in headers and "Nats-Stream" in headers:
            found.append(message)
        elif not end.done():
            end.set_result(f"{headers.get('Status', '?')} {headers.get('Description', '')}".strip())

    subject = f"$JS.API.DIRECT.GET.{stream}"
    async with link.waiting(subject, REQUEST_SECONDS):
        inbox = link.client.new_inbox()
        subscription = await link.client.subscribe(inbox, cb=take)
        try:
            request = msgspec.json.encode({"multi_last": subjects, "batch": len(subjects)})
            await link.client.publish(subject, request, reply=inbox)
            status = await end
        finally:
            if not link.client.is_closed:
                await subscription.unsubscribe()
    if status.startswith((_END, _NOT_FOUND)):
        return found
    raise RequestFailed(f"direct read of stream {stream}: {status}")


def _decoded(message: Msg) -> Delivery | None:
    try:
        return read_directly(message)
    except (events.UndecodableEventError, ValueError, KeyError) as error:
        _log.warning("event left out", subject=str(message.headers.get("Nats-Subject"))[:200], why=str(error)[:200])
        return None
