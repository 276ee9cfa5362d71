"""Talos's machine service, in front of a node."""

# ruff: noqa: ARG002, N802 - names and arguments of the methods are those of the wire.

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import grpc
from google.protobuf import any_pb2, empty_pb2

from libs.talos.pb import common_pb2, machine_pb2, machine_pb2_grpc
from libs.talos.serve import admission, calls
from libs.talos.serve.api import Applied, Code, Mode, NodeApi, Peer, Refusal
from libs.talos.serve.calls import Context, Peers
from libs.talos.serve.changes import changes

CHUNK = 64 * 1024
OS = "linux"

Element = TypeVar("Element")


def register(server: grpc.aio.Server, node: NodeApi, peers: Peers) -> None:
    """Serve the machine service of a node."""
    machine_pb2_grpc.add_MachineServiceServicer_to_server(MachineService(node, peers), server)


class MachineService(machine_pb2_grpc.MachineServiceServicer):
    """Admits the caller, finds the node that is meant, and puts its answer into the wire's form."""

    def __init__(self, node: NodeApi, peers: Peers) -> None:
        self._node = node
        self._peers = peers

    async def Version(self, request: empty_pb2.Empty, context: Context) -> machine_pb2.VersionResponse:
        async def answer(node: NodeApi, _: Peer) -> machine_pb2.Version:
            return _version(node)

        return machine_pb2.VersionResponse(messages=await self._ask(context, machine_pb2.Version, "Version", answer))

    async def Hostname(self, request: empty_pb2.Empty, context: Context) -> machine_pb2.HostnameResponse:
        async def answer(node: NodeApi, _: Peer) -> machine_pb2.Hostname:
            return machine_pb2.Hostname(hostname=node.hostname())

        messages = await self._ask(context, machine_pb2.Hostname, "Hostname", answer)
        return machine_pb2.HostnameResponse(messages=messages)

    async def ApplyConfiguration(
        self, request: machine_pb2.ApplyConfigurationRequest, context: Context
    ) -> machine_pb2.ApplyConfigurationResponse:
        async def answer(node: NodeApi, peer: Peer) -> machine_pb2.ApplyConfiguration:
            if not node.in_maintenance and not admission.is_admin(peer):
                raise Refusal(Code.PERMISSION_DENIED, admission.NOT_AUTHORIZED)
            mode = Mode(request.mode)
            return _applied(await node.apply_configuration(request.data, mode, dry_run=request.dry_run))

        messages = await self._ask(context, machine_pb2.ApplyConfiguration, "ApplyConfiguration", answer)
        return machine_pb2.ApplyConfigurationResponse(messages=messages)

    async def Reboot(self, request: machine_pb2.RebootRequest, context: Context) -> machine_pb2.RebootResponse:
        async def answer(node: NodeApi, _: Peer) -> machine_pb2.Reboot:
            node.reboot()
            return machine_pb2.Reboot(actor_id=str(uuid.uuid4()))

        return machine_pb2.RebootResponse(messages=await self._ask(context, machine_pb2.Reboot, "Reboot", answer))

    async def Shutdown(self, request: machine_pb2.ShutdownRequest, context: Context) -> machine_pb2.ShutdownResponse:
        async def answer(node: NodeApi, _: Peer) -> machine_pb2.Shutdown:
            node.shutdown()
            return machine_pb2.Shutdown(actor_id=str(uuid.uuid4()))

        messages = await self._ask(context, machine_pb2.Shutdown, "Shutdown", answer)
        return machine_pb2.ShutdownResponse(messages=messages)

    async def Reset(self, request: machine_pb2.ResetRequest, context: Context) -> machine_pb2.ResetResponse:
        async def answer(node: NodeApi, _: Peer) -> machine_pb2.Reset:
            labels = [spec.label for spec in request.system_partitions_to_wipe if spec.wipe]
            node.reset(labels=labels, reboot=request.reboot)
            return machine_pb2.Reset(actor_id=str(uuid.uuid4()))

        return machine_pb2.ResetResponse(messages=await self._ask(context, machine_pb2.Reset, "Reset", answer))

    async def ServiceList(self, request: empty_pb2.Empty, context: Context) -> machine_pb2.ServiceListResponse:
        async def answer(_: NodeApi, __: Peer) -> machine_pb2.ServiceList:
            health = machine_pb2.ServiceHealth(healthy=True)
            names = ("apid", "machined")
            services = [machine_pb2.ServiceInfo(id=name, state="Running", health=health) for name in names]
            return machine_pb2.ServiceList(services=services)

        messages = await self._ask(context, machine_pb2.ServiceList, "ServiceList", answer)
        return machine_pb2.ServiceListResponse(messages=messages)

    async def Read(self, request: machine_pb2.ReadRequest, context: Context) -> AsyncIterator[common_pb2.Data]:
        try:
            admission.admit(self._peers.of(context), "Read")
            named = calls.targets(self._node, context)
            for target in named or ("",):
                node = calls.resolve(self._node, target) if named else calls.meant(self._node, context)
                metadata = common_pb2.Metadata(hostname=target) if named else None
                content = node.read_file(request.path)
                for start in range(0, len(content), CHUNK):
                    yield common_pb2.Data(metadata=metadata, bytes=content[start : start + CHUNK])
        except Refusal as refusal:
            await calls.abort(context, refusal)

    async def Events(self, request: machine_pb2.EventsRequest, context: Context) -> AsyncIterator[machine_pb2.Event]:
        """An empty first event, then each change of the machine's stage until the client has had enough."""
        try:
            admission.admit(self._peers.of(context), "Events")
            node = calls.meant(self._node, context)
        except Refusal as refusal:
            await calls.abort(context, refusal)
        yield machine_pb2.Event(data=any_pb2.Any())
        async for batch in changes(node.resources, "runtime", "MachineStatuses.runtime.talos.dev", "machine"):
            for event in batch:
                status = machine_pb2.MachineStatusEvent.FromString(event.item.spec.proto)
                data = any_pb2.Any(
                    type_url="talos/runtime/machine.MachineStatusEvent", value=status.SerializeToString()
                )
                yield machine_pb2.Event(data=data, id=str(event.item.version))

    async def _ask(
        self,
        context: Context,
        element: Callable[..., Element],
        method: str,
        answer: Callable[[NodeApi, Peer], Awaitable[Element]],
    ) -> list[Element]:
        """One answer for a plain call; one for each target, failures included, where the call names several."""
        try:
            peer = self._peers.of(context)
            admission.admit(peer, method)
            named = calls.targets(self._node, context)
            if named is None:
                return [await answer(calls.meant(self._node, context), peer)]
        except Refusal as refusal:
            await calls.abort(context, refusal)
        return [await self._ask_one(target, peer, element, answer) for target in named]

    async def _ask_one(
        self,
        target: str,
        peer: Peer,
        element: Callable[..., Element],
        answer: Callable[[NodeApi, Peer], Awaitable[Element]],
    ) -> Element:
        try:
            one: Any = await answer(calls.resolve(self._node, target), peer)
        except Refusal as refusal:
            status = common_pb2.Status(code=refusal.code, message=refusal.message)
            return element(metadata=common_pb2.Metadata(hostname=target, error=refusal.message, status=status))
        one.metadata.hostname = target
        answered: Element = one
        return answered


def _version(node: NodeApi) -> machine_pb2.Version:
    info = node.version()
    features = None if info.rbac is None else machine_pb2.FeaturesInfo(rbac=info.rbac)
    return machine_pb2.Version(
        version=machine_pb2.VersionInfo(tag=info.tag, sha="simulated", go_version="go1.26.6", os=OS, arch=info.arch),
        platform=machine_pb2.PlatformInfo(name=info.platform, mode=info.platform_mode),
        features=features,
    )


def _applied(applied: Applied) -> machine_pb2.ApplyConfiguration:
    return machine_pb2.ApplyConfiguration(
        warnings=applied.warnings,
        mode=machine_pb2.ApplyConfigurationRequest.Mode.ValueType(applied.mode),
        mode_details=applied.details,
    )
