"""COSI's State service in front of a node's resources: Get, List and Watch, with Talos's rules of access."""

# ruff: noqa: N802 - names of the methods are those of the wire.

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable

import grpc
from google.protobuf import timestamp_pb2

from libs.talos.pb import resource_pb2, state_pb2, state_pb2_grpc
from libs.talos.serve import admission, calls
from libs.talos.serve.api import Code, NodeApi, Refusal
from libs.talos.serve.calls import Context, Peers
from libs.talos.serve.changes import OverrunError, changes
from libs.talos.serve.definitions import DEFINITIONS, NAMESPACES
from libs.talos.serve.resources import Event, EventType, Item, Key, Resources

OVERRUN = "buffer overrun: the reader is too slow"


def register(server: grpc.aio.Server, node: NodeApi, peers: Peers) -> None:
    """Serve the resources of a node."""
    state_pb2_grpc.add_StateServicer_to_server(State(node, peers), server)


class State(state_pb2_grpc.StateServicer):
    """Reading is all that anybody may do here; writes are refused beside it."""

    def __init__(self, node: NodeApi, peers: Peers) -> None:
        self._node = node
        self._peers = peers

    async def Get(self, request: state_pb2.GetRequest, context: Context) -> state_pb2.GetResponse:
        try:
            resources = self._readable(context, request.namespace, request.type)
            item = _existing(resources, Key(request.namespace, request.type, request.id))
        except Refusal as refusal:
            await calls.abort(context, refusal)
        return state_pb2.GetResponse(resource=_resource(item))

    async def List(self, request: state_pb2.ListRequest, context: Context) -> AsyncIterator[state_pb2.ListResponse]:
        try:
            resources = self._readable(context, request.namespace, request.type)
            chosen = _Choice(request.options.label_query, request.options.id_query)
        except Refusal as refusal:
            await calls.abort(context, refusal)
        for item in resources.list(request.namespace, request.type):
            if chosen.has(item):
                yield state_pb2.ListResponse(resource=_resource(item))

    async def Watch(self, request: state_pb2.WatchRequest, context: Context) -> AsyncIterator[state_pb2.WatchResponse]:
        try:
            resources = self._readable(context, request.namespace, request.type)
            chosen = _Choice(request.options.label_query, request.options.id_query)
            _check_watch(request)
        except Refusal as refusal:
            await calls.abort(context, refusal)
        one = request.id if request.HasField("id") else None
        try:
            async for batch in changes(resources, request.namespace, request.type, one):
                if not batch:  # the watch is established: say so, then what is there already
                    yield state_pb2.WatchResponse()
                    events = _first(resources, request)
                else:
                    events = [_event(event) for event in batch if chosen.has(event.item)]
                for response in _responses(events, request):
                    yield response
        except OverrunError:
            errored = state_pb2.Event(event_type=state_pb2.ERRORED, error=OVERRUN)
            for response in _responses([errored], request):
                yield response

    def _readable(self, context: Context, namespace: str, type_: str) -> Resources:
        """Return the resources of the node that is meant, in the order in which Talos objects."""
        peer = self._peers.of(context)
        if calls.targets(self._node, context):
            raise Refusal(Code.INVALID_ARGUMENT, "one-2-many proxying is not supported for COSI methods")
        node = calls.meant(self._node, context)
        admission.admit_reader(peer)
        definition = DEFINITIONS.get(type_.lower())
        if definition is None or (definition.sensitive and not admission.is_admin(peer)):
            raise Refusal(Code.PERMISSION_DENIED, admission.NOT_AUTHORIZED)
        if namespace not in NAMESPACES:
            raise Refusal(Code.PERMISSION_DENIED, admission.NOT_AUTHORIZED)
        return node.resources


def _existing(resources: Resources, key: Key) -> Item:
    item = resources.get(key)
    if item is None:
        raise Refusal(Code.NOT_FOUND, f"resource {key.type}({key.namespace}/{key.id}) doesn't exist")
    return item


class _Choice:
    """Which items a list or watch is about. No resource here carries labels."""

    def __init__(self, labels: Iterable[resource_pb2.LabelQuery], ids: resource_pb2.IDQuery) -> None:
        queries = list(labels)
        self._labels = not queries or any(all(map(_holds_without_labels, query.terms)) for query in queries)
        try:
            self._id = re.compile(ids.regexp) if ids.regexp else None
        except re.error:
            raise Refusal(Code.INVALID_ARGUMENT, "the id query is not a regular expression") from None

    def has(self, item: Item) -> bool:
        return self._labels and (self._id is None or self._id.search(item.key.id) is not None)


def _holds_without_labels(term: resource_pb2.LabelTerm) -> bool:
    return (term.op == resource_pb2.LabelTerm.NOT_EXISTS) != term.invert


def _check_watch(request: state_pb2.WatchRequest) -> None:
    if request.HasField("id") and (request.options.bootstrap_contents or request.options.label_query):
        raise Refusal(Code.UNIMPLEMENTED, "a watch of one resource has no bootstrap and no label query")
    if request.options.HasField("start_from_bookmark"):  # nothing of the past is kept
        raise Refusal(Code.FAILED_PRECONDITION, "invalid bookmark")


def _first(resources: Resources, request: state_pb2.WatchRequest) -> list[state_pb2.Event]:
    """What a new watch is told before anything happens."""
    if request.HasField("id"):
        key = Key(request.namespace, request.type, request.id)
        item = resources.get(key)
        if item is None:
            return [state_pb2.Event(resource=_tombstone(key), event_type=state_pb2.DESTROYED)]
        return [_event(Event(EventType.CREATED, item))]
    if not request.options.bootstrap_contents:
        return []
    chosen = _Choice(request.options.label_query, request.options.id_query)
    items = [item for item in resources.list(request.namespace, request.type) if chosen.has(item)]
    end = state_pb2.Event(
        resource=_tombstone(Key(request.namespace, request.type, "")), event_type=state_pb2.BOOTSTRAPPED
    )
    return [*(_event(Event(EventType.CREATED, item)) for item in items), end]


def _responses(events: list[state_pb2.Event], request: state_pb2.WatchRequest) -> Iterable[state_pb2.WatchResponse]:
    if request.api_version < 1:
        unknown = (state_pb2.BOOTSTRAPPED, state_pb2.ERRORED)
        events = [event for event in events if event.event_type not in unknown]
    if request.options.aggregated:
        return [state_pb2.WatchResponse(event=events)] if events else []
    return [state_pb2.WatchResponse(event=[event]) for event in events]


def _event(event: Event) -> state_pb2.Event:
    gone = event.type is EventType.DESTROYED
    return state_pb2.Event(
        resource=_resource(event.item, with_spec=not gone),
        event_type=state_pb2.EventType.ValueType(event.type),
        old=_resource(event.old) if event.old else None,
    )


def _resource(item: Item, *, with_spec: bool = True) -> resource_pb2.Resource:
    metadata = resource_pb2.Metadata(
        namespace=item.key.namespace,
        type=item.key.type,
        id=item.key.id,
        version=str(item.version),
        owner="simulator",
        phase="running",
        created=_timestamp(item.created),
        updated=_timestamp(item.updated),
        annotations=dict(item.spec.annotations),
    )
    spec = resource_pb2.Spec(proto_spec=item.spec.proto, yaml_spec=item.spec.yaml) if with_spec else None
    return resource_pb2.Resource(metadata=metadata, spec=spec or resource_pb2.Spec())


def _tombstone(key: Key) -> resource_pb2.Resource:
    metadata = resource_pb2.Metadata(
        namespace=key.namespace, type=key.type, id=key.id, version="undefined", phase="running"
    )
    return resource_pb2.Resource(metadata=metadata, spec=resource_pb2.Spec())


def _timestamp(seconds: float) -> timestamp_pb2.Timestamp:
    whole = int(seconds)
    return timestamp_pb2.Timestamp(seconds=whole, nanos=int((seconds - whole) * 1e9))
