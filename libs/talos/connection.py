"""gRPC calls over one verified connection: a deadline, a bound and our own error for each of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from libs.endpoint import Endpoint
from libs.talos.errors import CredentialsRejected, NotAllowed, StrangeAnswer, TalosError, Unreachable
from libs.talos.pb import resource_pb2, state_pb2
from libs.talos.tunnel import Tunnel

LIST_ITEMS_MAX = 4096
_GRACE_SECONDS = 0.5
"""How much later than gRPC's own deadline we stop waiting for it."""

_RETRY = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED, grpc.StatusCode.ABORTED}
)
MessageT = TypeVar("MessageT", bound=Message)


class Connection:
    """The calls that we make, over a tunnel that is open.

    Answers are taken as bytes and read here: gRPC would hand over what it cannot read as None, and log it at length.
    """

    def __init__(self, tunnel: Tunnel, endpoint: Endpoint, timeout_seconds: float) -> None:
        self._tunnel = tunnel
        self.endpoint = endpoint
        self._timeout_seconds = timeout_seconds

    @asynccontextmanager
    async def call(self, what: str) -> AsyncIterator[None]:
        """Bound what is asked inside, and translate how it fails."""
        try:
            async with asyncio.timeout(self._timeout_seconds + _GRACE_SECONDS):
                yield
        except TimeoutError:
            raise self._too_late(what) from None
        except grpc.aio.AioRpcError as error:
            raise await self._translate(what, error) from error

    async def ask(self, what: str, method: str, request: Message, answer: type[MessageT]) -> MessageT:
        """Make one unary call; inside `call`, so that a caller can look at gRPC's own error first."""
        asking = self._tunnel.channel.unary_unary(method, bytes, bytes)
        return self._read(what, await asking(request.SerializeToString(), timeout=self._timeout_seconds), answer)

    async def get(
        self, namespace: str, kind: str, name: str, spec: type[MessageT], *, bytes_max: int
    ) -> MessageT | None:
        """Read one resource's spec, or None when there is no such resource."""
        what = f"read {kind}"
        request = state_pb2.GetRequest(namespace=namespace, type=kind, id=name)
        async with self.call(what):
            try:
                answer = await self.ask(what, "/cosi.resource.State/Get", request, state_pb2.GetResponse)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.NOT_FOUND:
                    return None
                raise
        return self._spec(what, answer.resource, spec, bytes_max)

    async def list(self, namespace: str, kind: str, spec: type[MessageT], *, bytes_max: int) -> list[MessageT]:
        """Read the specs of all resources of a kind."""
        what = f"list {kind}"
        request = state_pb2.ListRequest(namespace=namespace, type=kind)
        specs: list[MessageT] = []
        left = bytes_max
        async with self.call(what):
            asking = self._tunnel.channel.unary_stream("/cosi.resource.State/List", bytes, bytes)
            call = asking(request.SerializeToString(), timeout=self._timeout_seconds)
            try:
                async for data in call:
                    answer = self._read(what, data, state_pb2.ListResponse)
                    specs.append(self._spec(what, answer.resource, spec, left))
                    left -= len(data)
                    if len(specs) > LIST_ITEMS_MAX:
                        raise self._too_much(what)
            finally:
                call.cancel()
        return specs

    def strange(self, what: str, why: str) -> StrangeAnswer:
        return StrangeAnswer(f"cannot {what} at {self.endpoint}: {why}")

    def _spec(self, what: str, resource: resource_pb2.Resource, spec: type[MessageT], bytes_max: int) -> MessageT:
        if resource.ByteSize() > bytes_max:
            raise self._too_much(what)
        return self._read(what, resource.spec.proto_spec, spec)

    def _read(self, what: str, data: bytes, kind: type[MessageT]) -> MessageT:
        try:
            return kind.FromString(data)
        except DecodeError as error:
            raise self.strange(what, "the answer is not of that type") from error

    def _too_much(self, what: str) -> StrangeAnswer:
        return self.strange(what, "the answer is larger than anything Talos has to say there")

    def _too_late(self, what: str) -> Unreachable:
        return Unreachable(f"cannot {what} at {self.endpoint}: no answer within {self._timeout_seconds:g} s")

    async def _translate(self, what: str, error: grpc.aio.AioRpcError) -> TalosError:
        code = error.code()
        if code in _RETRY:
            late = code is grpc.StatusCode.DEADLINE_EXCEEDED
            gone = Unreachable(f"cannot {what} at {self.endpoint} now: it says {code.name}")
            return await self._tunnel.cause(wait=not late) or (self._too_late(what) if late else gone)
        if code is grpc.StatusCode.UNAUTHENTICATED:
            return CredentialsRejected(f"{self.endpoint} does not accept our credentials; renew the talosconfig")
        if code is grpc.StatusCode.PERMISSION_DENIED:
            return NotAllowed(f"{self.endpoint} does not let us {what} with the role that we have there")
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            return self._too_much(what)
        return self.strange(what, f"it says {code.name}")
