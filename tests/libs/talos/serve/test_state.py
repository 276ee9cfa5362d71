"""Get, List and Watch behave as COSI's do, and refuse in Talos's order."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
import yaml

from libs.talos import serve
from libs.talos.pb import machine_pb2, specs_pb2, state_pb2
from tests.libs.talos.serve.parts import FixedNode, channel_to, port_of, state_at

EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]  # missing in grpc-stubs
CLUSTER = serve.Authority.for_cluster()
ADMIN = CLUSTER.issue_client([serve.Role.ADMIN])
STATUS: dict[str, Any] = {"namespace": "runtime", "type": "MachineStatuses.runtime.talos.dev"}
CONFIG: dict[str, Any] = {"namespace": "config", "type": "MachineConfigs.config.talos.dev"}


class Asking:
    """A client of one node's State service."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._state = state_at(channel)

    async def get(self, id_: str, **where: Any) -> Any:
        return (await self._state.Get(state_pb2.GetRequest(id=id_, **where))).resource

    async def list(self, options: state_pb2.ListOptions | None = None, **where: Any) -> list[Any]:
        call = self._state.List(state_pb2.ListRequest(options=options, **where))
        return [answer.resource async for answer in call]

    def watch(self, *, api_version: int = 1, **request: Any) -> Any:
        return self._state.Watch(state_pb2.WatchRequest(api_version=api_version, **request))

    async def code(self, call: Any) -> grpc.StatusCode:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call
        code: grpc.StatusCode = refused.value.code()
        return code


async def read(watch: Any) -> list[Any]:
    async with asyncio.timeout(5):
        return list((await watch.read()).event)


def kinds(*batches: list[Any]) -> list[str]:
    return [state_pb2.EventType.Name(event.event_type) for batch in batches for event in batch]


async def test_a_resource_comes_encoded_and_as_yaml() -> None:
    async with port_of(FixedNode()) as port, channel_to(port) as channel:
        resource = await Asking(channel).get("machine", **STATUS)
    assert specs_pb2.MachineStatus.FromString(resource.spec.proto_spec).stage == specs_pb2.MACHINE_STAGE_RUNNING
    assert "stage: running" in resource.spec.yaml_spec
    metadata = resource.metadata
    assert (metadata.id, metadata.version, metadata.phase) == ("machine", "1", "running")
    assert metadata.created.seconds >= 1000


async def test_versions_go_up_when_something_changes_and_only_then() -> None:
    async with port_of(FixedNode()) as port, channel_to(port) as channel:
        asking = Asking(channel)
        port.node.show("rebooting", b"version: v1alpha1\n")
        assert (await asking.get("machine", **STATUS)).metadata.version == "2"
        port.node.show("rebooting", b"version: v1alpha1 # more\n")
        assert (await asking.get("machine", **STATUS)).metadata.version == "2"


async def test_a_list_is_sorted_and_an_empty_one_ends_well() -> None:
    async with port_of(FixedNode(in_maintenance=False), accepts=[CLUSTER]) as port, channel_to(port, ADMIN) as channel:
        asking = Asking(channel)
        assert [r.metadata.id for r in await asking.list(**CONFIG)] == ["persistent", "v1alpha1"]
        assert await asking.list(namespace="cluster", type="Members.cluster.talos.dev") == []
        only = state_pb2.ListOptions()
        only.id_query.regexp = "^v1"
        assert [r.metadata.id for r in await asking.list(only, **CONFIG)] == ["v1alpha1"]
        labelled = state_pb2.ListOptions()
        labelled.label_query.add().terms.add(key="some")
        assert await asking.list(labelled, **CONFIG) == []


async def test_a_configuration_comes_back_byte_for_byte() -> None:
    data = 'a: 1 # ü\r\n---\nb: "x"\n\n'.encode() + b"c: " + b"long " * 100
    node = FixedNode(in_maintenance=False)
    node.show("running", data)
    async with port_of(node, accepts=[CLUSTER]) as port, channel_to(port, ADMIN) as channel:
        resource = await Asking(channel).get("v1alpha1", **CONFIG)
    assert specs_pb2.MachineConfig.FromString(resource.spec.proto_spec).yaml_marshalled == data
    assert yaml.safe_load(resource.spec.yaml_spec).encode() == data
    assert dict(resource.metadata.annotations) == {"talos.dev/yaml-spec": "1"}


async def test_refusals_come_in_talos_order() -> None:
    denied, missing = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.NOT_FOUND
    async with port_of(FixedNode()) as port, channel_to(port) as channel:
        asking = Asking(channel)
        assert await asking.code(asking.get("x", namespace="runtime", type="Nonsense.runtime.talos.dev")) is denied
        assert await asking.code(asking.get("v1alpha1", **CONFIG)) is denied
        assert await asking.code(asking.list(**CONFIG)) is denied
        assert await asking.code(read(asking.watch(**CONFIG))) is denied
        assert await asking.code(asking.get("machine", namespace="nonsense", type=STATUS["type"])) is denied
        assert await asking.code(asking.get("nonsense", **STATUS)) is missing
        lower = STATUS["type"].lower()
        assert await asking.code(asking.get("machine", namespace="runtime", type=lower)) is missing


async def test_several_targets_are_not_for_resources() -> None:
    node = FixedNode(in_maintenance=False)
    async with port_of(node, accepts=[CLUSTER]) as port, channel_to(port, ADMIN) as channel:
        call = state_at(channel).Get(state_pb2.GetRequest(id="machine", **STATUS), metadata=[("nodes", "node-1")])
        assert await Asking(channel).code(call) is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_watch_of_a_kind_tells_only_what_happens() -> None:
    async with port_of(FixedNode()) as port, channel_to(port) as channel:
        watch = Asking(channel).watch(**STATUS)
        assert await read(watch) == [], "established"

        port.node.show("rebooting", b"")
        (event,) = await read(watch)
        assert kinds([event]) == ["UPDATED"]
        assert "rebooting" in event.resource.spec.yaml_spec
        assert "running" in event.old.spec.yaml_spec

        port.node.resources.become({})
        (event,) = await read(watch)
        assert kinds([event]) == ["DESTROYED"]
        assert event.resource.spec.yaml_spec == ""


async def test_a_watch_with_bootstrap_tells_first_what_is_there() -> None:
    node = FixedNode(in_maintenance=False)
    async with port_of(node, accepts=[CLUSTER]) as port, channel_to(port, ADMIN) as channel:
        options = state_pb2.WatchOptions(bootstrap_contents=True)
        watch = Asking(channel).watch(options=options, **CONFIG)
        batches = [await read(watch) for _ in range(4)]
        assert kinds(*batches) == ["CREATED", "CREATED", "BOOTSTRAPPED"]
        assert batches[3][0].resource.metadata.id == ""

        old = Asking(channel).watch(api_version=0, options=options, **CONFIG)
        batches = [await read(old) for _ in range(3)]
        assert kinds(*batches) == ["CREATED", "CREATED"]
        node.show("running", b"changed: true\n")
        assert kinds(await read(old), await read(old)) == ["UPDATED", "UPDATED"], "and no BOOTSTRAPPED between"

        aggregated = state_pb2.WatchOptions(bootstrap_contents=True, aggregated=True)
        watch = Asking(channel).watch(options=aggregated, **CONFIG)
        assert await read(watch) == []
        assert kinds(await read(watch)) == ["CREATED", "CREATED", "BOOTSTRAPPED"]


async def test_a_watch_of_one_begins_with_what_it_is_now() -> None:
    async with port_of(FixedNode()) as port, channel_to(port) as channel:
        asking = Asking(channel)
        here, nowhere = asking.watch(id="machine", **STATUS), asking.watch(id="nothing", **STATUS)
        assert await read(here) == [] == await read(nowhere)
        assert kinds(await read(here)) == ["CREATED"]
        (gone,) = await read(nowhere)
        assert kinds([gone]) == ["DESTROYED"]
        assert gone.resource.metadata.version == "undefined"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"bootstrap_contents": True}, grpc.StatusCode.UNIMPLEMENTED),
        ({"start_from_bookmark": b"old"}, grpc.StatusCode.FAILED_PRECONDITION),
    ],
)
async def test_a_watch_that_cannot_be_is_refused(options: dict[str, Any], code: grpc.StatusCode) -> None:
    async with port_of(FixedNode()) as port, channel_to(port) as channel:
        asking = Asking(channel)
        watch = asking.watch(id="machine", options=state_pb2.WatchOptions(**options), **STATUS)
        assert await asking.code(read(watch)) is code


async def test_a_reader_that_is_too_slow_gets_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libs.talos.serve.resources.WATCH_BUFFER", 3)
    async with port_of(FixedNode()) as port, channel_to(port) as channel:
        watch = Asking(channel).watch(**STATUS)
        assert await read(watch) == []
        for stage in ("rebooting", "running") * 4:
            port.node.show(stage, b"")
        assert kinds(*[await read(watch) for _ in range(4)]) == ["UPDATED", "UPDATED", "UPDATED", "ERRORED"]
        assert await watch.read() is EOF


def test_stages_are_numbered_as_in_events() -> None:
    for name, number in machine_pb2.MachineStatusEvent.MachineStage.items():
        assert int(specs_pb2.MachineStage.Value(f"MACHINE_STAGE_{name}")) == int(number)
