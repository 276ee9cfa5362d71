"""Requests to one API server: authorisation, time-outs, bounded answers, and errors as ours.

A refused token is loaded anew once (they rotate); a server certificate that does not verify likewise, for
the CA rotates too. Proxy variables are ignored: only a kubeconfig's own `proxy-url` counts.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from libs.kube import credentials, decode, errors

CONNECT_SECONDS = 5.0
ANSWER_BYTES_MAX = 256 * 1024 * 1024
"""A page of 500 large Nodes is some 25 MiB; this only stops an endless answer."""
LINE_BYTES_MAX = 16 * 1024 * 1024
"""etcd keeps objects below 2 MiB; as JSON they grow a little."""
RELOAD_PAUSE_SECONDS = 5.0
CONNECTIONS_MAX = 100
_ERROR_BYTES_MAX = 64 * 1024


@dataclass(frozen=True)
class Request:
    """One request, and how an error about it begins."""

    method: str
    path: str
    action: str
    """Verb, resource and object, such as `patch talosmachines/status nodetrail/box-1`."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    secret: bool = False
    """Whether the server's own words may quote a Secret and stay out of error texts."""


@dataclass(frozen=True)
class _Connection:
    credentials: credentials.Credentials
    session: aiohttp.ClientSession


class Transport:
    """A session with one API server that survives rotated credentials. Made by `connect`."""

    def __init__(self, kubeconfig: str | None, agent: str, connection: _Connection) -> None:
        self._kubeconfig = kubeconfig
        self._agent = agent
        self._connection = connection
        self._retired: _Connection | None = None
        self._reloading = asyncio.Lock()
        self._reloaded_at = float("-inf")

    @property
    def host(self) -> str:
        """The API server's URL."""
        return self._connection.credentials.host

    async def fetch(self, request: Request, *, timeout_seconds: float) -> bytes:
        """Send a request and return the whole answer."""
        limits = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=CONNECT_SECONDS)
        with _translated(request):
            response = await self._accepted(request, limits)
            try:
                return await _whole(request, response)
            finally:
                response.release()

    @asynccontextmanager
    async def lines(self, request: Request, *, total_seconds: float, idle_seconds: float) -> AsyncIterator[Lines]:
        """Send a request whose answer is an open-ended stream of lines."""
        limits = aiohttp.ClientTimeout(total=total_seconds, sock_connect=CONNECT_SECONDS, sock_read=idle_seconds)
        with _translated(request):
            response = await self._accepted(request, limits)
        try:
            yield Lines(request, response)
        finally:
            response.close()  # the rest of a stream is not worth reading to its end

    async def _accepted(self, request: Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        response = await self._send(request, limits)
        if response.status < 300:
            return response
        try:
            raise await _refusal(request, response)
        finally:
            response.release()

    async def _send(self, request: Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        used = self._connection
        try:
            response = await _sent(used, request, limits)
        except aiohttp.ClientConnectorCertificateError:
            if not await self._reload(used):
                raise
            return await _sent(self._connection, request, limits)
        if response.status == 401 and await self._reload(used):
            response.release()
            return await _sent(self._connection, request, limits)
        return response

    async def _reload(self, used: _Connection) -> bool:
        """Load the credentials anew, once for all who found `used` refused; False when that was done just now."""
        async with self._reloading:
            if self._connection is not used:
                return True
            if time.monotonic() - self._reloaded_at < RELOAD_PAUSE_SECONDS:
                return False
            self._reloaded_at = time.monotonic()
            try:
                fresh = await _connection(self._kubeconfig, self._agent)
            except errors.KubeconfigError:
                return False  # being replaced just now: the refusal itself is reported, and tried again later
            # Requests may still be under way on the old session, so it is closed one rotation later.
            retired, self._retired, self._connection = self._retired, used, fresh
        if retired is not None:
            await retired.session.close()
        return True

    async def close(self) -> None:
        """Close every connection."""
        await self._connection.session.close()
        if self._retired is not None:
            await self._retired.session.close()


class Lines:
    """A stream cut at its newlines, with every line's length bounded."""

    def __init__(self, request: Request, response: aiohttp.ClientResponse) -> None:
        self._request = request
        self._response = response
        self._rest = bytearray()
        self.fell_silent = False
        """Whether the stream's end was our own doing, after it had been silent for too long."""

    async def read(self) -> list[bytes] | None:
        """Return the lines that came in meanwhile, or None when the stream ended or fell silent.

        A last line without a newline was cut off and is dropped.
        """
        while True:
            with _translated(self._request):
                try:
                    data = await self._response.content.readany()
                except aiohttp.SocketTimeoutError:
                    self.fell_silent = True
                    return None
            if not data:
                return None
            self._rest += data
            if b"\n" in data:
                break
            if len(self._rest) > LINE_BYTES_MAX:
                raise errors.Unavailable(f"{self._request.action}: a line of over {LINE_BYTES_MAX} bytes")
        whole, _, rest = bytes(self._rest).rpartition(b"\n")
        self._rest = bytearray(rest)
        return [line for line in whole.split(b"\n") if line.strip()]


@asynccontextmanager
async def connect(kubeconfig: str | None, agent: str) -> AsyncIterator[Transport]:
    """Load credentials and open a session; the server itself is first met by the first request."""
    transport = Transport(kubeconfig, agent, await _connection(kubeconfig, agent))
    try:
        yield transport
    finally:
        await transport.close()


async def _connection(kubeconfig: str | None, agent: str) -> _Connection:
    loaded = await credentials.load(kubeconfig)
    connector = aiohttp.TCPConnector(limit=CONNECTIONS_MAX, ssl=loaded.tls, socket_factory=_socket)
    # Answers in plain: on one host or one network, compressing costs both sides more than it saves.
    headers = {"User-Agent": f"nodetrail/{agent}", "Accept": "application/json", "Accept-Encoding": "identity"}
    session = aiohttp.ClientSession(
        connector=connector,
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        read_bufsize=1024 * 1024,
    )
    return _Connection(loaded, session)


def _socket(info: tuple[Any, ...]) -> socket.socket:
    """Make a socket that notices within half a minute that the other end is gone without a word."""
    made = socket.socket(info[0], info[1], info[2])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000)):
        if hasattr(socket, option):  # Linux has all four, other systems some
            with suppress(OSError):
                made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made


async def _sent(connection: _Connection, request: Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
    headers = {}
    if authorization := await connection.credentials.authorization():
        headers["Authorization"] = authorization
    if request.body is not None:
        headers["Content-Type"] = request.content_type
    configuration = connection.credentials.configuration
    return await connection.session.request(
        request.method,
        connection.credentials.host + request.path,
        params=dict(request.query),
        data=request.body,
        headers=headers,
        timeout=limits,
        allow_redirects=False,
        proxy=configuration.proxy,
        proxy_headers=configuration.proxy_headers,
        server_hostname=configuration.tls_server_name,
    )


async def _refusal(request: Request, response: aiohttp.ClientResponse) -> errors.KubeError:
    body = bytearray()
    while len(body) < _ERROR_BYTES_MAX and (chunk := await response.content.readany()):
        body += chunk
    return errors.from_status(
        request.action,
        response.status,
        decode.status(bytes(body)),
        secret=request.secret,
        retry_after=response.headers.get("Retry-After", ""),
    )


async def _whole(request: Request, response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    while chunk := await response.content.readany():
        body += chunk
        if len(body) > ANSWER_BYTES_MAX:
            response.close()
            raise errors.Unavailable(f"{request.action}: an answer of over {ANSWER_BYTES_MAX} bytes")
    return bytes(body)


@contextmanager
def _translated(request: Request) -> Iterator[None]:
    """Turn what aiohttp raises into `Unavailable`, with what was tried."""
    try:
        yield
    except TimeoutError as error:
        raise errors.Unavailable(f"{request.action}: no answer in time") from error
    except (aiohttp.ClientError, OSError) as error:  # ssl.SSLError is an OSError
        raise errors.Unavailable(f"{request.action}: {error or type(error).__name__}") from error
