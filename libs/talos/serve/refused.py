"""Methods that Talos has and nobody plays here: whoever may not call them hears that, everybody else UNIMPLEMENTED."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import grpc

from libs.talos.serve import admission, calls
from libs.talos.serve.api import Code, Refusal
from libs.talos.serve.calls import Context, Peers

_WRITES = ("Create", "Update", "Destroy")
_ADMIN_METHODS = (
    "Bootstrap",
    "EtcdForfeitLeadership",
    "EtcdLeaveCluster",
    "EtcdRecover",
    "EtcdRemoveMemberByID",
    "EtcdSnapshot",
    "GenerateClientConfiguration",
    "Kubeconfig",
    "MetaDelete",
    "MetaWrite",
    "Rollback",
    "Upgrade",
)

Behaviour = Callable[[bytes, Context], Awaitable[bytes]]


def register(server: grpc.aio.Server, peers: Peers) -> None:
    """Answer what the other services leave out; anything still unknown is UNIMPLEMENTED by gRPC itself."""
    write = grpc.unary_unary_rpc_method_handler(_write)
    only_admin = grpc.unary_unary_rpc_method_handler(_for_admins(peers))
    # Handlers are asked in the order in which they were added: the played methods have been added before.
    server.add_generic_rpc_handlers(
        [
            grpc.method_handlers_generic_handler("cosi.resource.State", dict.fromkeys(_WRITES, write)),
            grpc.method_handlers_generic_handler("machine.MachineService", dict.fromkeys(_ADMIN_METHODS, only_admin)),
        ]
    )


async def _write(_: bytes, context: Context) -> bytes:
    await calls.abort(context, Refusal(Code.PERMISSION_DENIED, "write access is not allowed"))


def _for_admins(peers: Peers) -> Behaviour:
    async def refuse(_: bytes, context: Context) -> bytes:
        try:
            admission.admit_admin(peers.of(context))
        except Refusal as refusal:
            await calls.abort(context, refusal)
        await calls.abort(context, Refusal(Code.UNIMPLEMENTED, "this method is not played by the simulator"))

    return refuse
