"""The API over HTTP: bodies read within bounds, answers sent, watches streamed until somebody hangs up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import parse_qsl

import msgspec
from prometheus_client import CollectorRegistry, Counter
from starlette.types import Message, Receive, Scope, Send
from structlog.typing import FilteringBoundLogger

from services.devapi import refusal
from services.devapi.bodies import BODY_BYTES_MAX
from services.devapi.refusal import Refusal
from services.devapi.server import Answer, Request, Server

Headers = list[tuple[bytes, bytes]]

_SAYS = (b"nodetrail-devapi", b"embedded; see /version for what is left out")


class App:
    """An ASGI application around a Server."""

    def __init__(self, server: Server, *, log: FilteringBoundLogger, registry: CollectorRegistry) -> None:
        self._server = server
        self._log = log
        self._requests = Counter("nodetrail_devapi_requests", "Requests answered", ["verb", "code"], registry=registry)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            answer = self._server.answer(await _request(scope, receive))
        except Refusal as no:
            answer = Answer(code=no.code, data=msgspec.json.encode(no.status()))
        except Exception:  # noqa: BLE001 - a bug in one answer must not end the others
            self._log.exception("request failed", method=scope["method"], path=scope["path"])
            failure = Refusal(500, "InternalError", "devapi failed on this request; its log says more")
            answer = Answer(code=failure.code, data=msgspec.json.encode(failure.status()))
        self._requests.labels(answer.verb or "none", str(answer.code)).inc()
        await _start(send, answer)
        if answer.lines is None:
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answer.data})
        else:
            await _stream(answer.lines, receive, send)


async def _request(scope: Scope, receive: Receive) -> Request:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return Request(
        method=scope["method"],
        path=scope["path"],
        options=dict(parse_qsl(scope["query_string"].decode("latin-1"))),
        authorization=headers.get("authorization", ""),
        agent=headers.get("user-agent", ""),
        accept=headers.get("accept", ""),
        content_type=headers.get("content-type", ""),
        body=await _body(receive),
    )


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > BODY_BYTES_MAX:
            raise refusal.too_large(size, BODY_BYTES_MAX)
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _start(send: Send, answer: Answer) -> None:
    headers: Headers = [(b"content-type", b"application/json"), _SAYS]
    if answer.lines is None:
        headers.append((b"content-length", str(len(answer.data)).encode()))
    if answer.code == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    for text in answer.warnings:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        headers.append((b"warning", f'299 - "{quoted}"'.encode("latin-1", "replace")))
    await send({"type": "http.response.start", "status": answer.code, "headers": headers})


async def _stream(lines: AsyncIterator[bytes], receive: Receive, send: Send) -> None:
    """Send lines until they end or the client is gone, whichever comes first."""

    async def forward() -> None:
        # The client waits for the headers of a watch before anything happens, so they go out at once.
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        async for line in lines:
            await send({"type": "http.response.body", "body": line, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def until_gone() -> None:
        message: Message = {"type": ""}
        while message["type"] != "http.disconnect":
            message = await receive()

    async with asyncio.TaskGroup() as group:
        tasks = {group.create_task(forward(), name="watch"), group.create_task(until_gone(), name="disconnect")}
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
