"""The two streams and their consumers: their shape, making them, and keeping them there.

Only the status writer's user has the right to. What an operator set by hand and we have no opinion on (size,
replicas, placement, description) is left as it is.
"""

from typing import Any

import msgspec

from libs.bus.errors import ApiRefused, WrongShape
from libs.bus.link import Link
from libs.events import cloudevents, subjects
from libs.runtime import log

SECOND = 1_000_000_000
DAY = 86_400 * SECOND
TRAIL_AGE = 30 * DAY
SIGHTINGS_AGE = 3_600 * SECOND
DUPLICATE_WINDOW = 120 * SECOND
TRAIL_BYTES = 8 * 2**30
SIGHTINGS_BYTES = 2**30
BYTES_MIN = 64 * 2**20
"""Where the server has less room, half is tried, down to this."""
ACK_WAIT_SECONDS = 12
"""After this a message that a killed process held comes again; for a slow handler the consumer loop asks for more."""
UNACKNOWLEDGED_MAX = 1000
REPLICAS = 3

_NOT_FOUND = 404
_NOT_NOW = frozenset({_NOT_FOUND, 503})
_NO_ROOM = frozenset({10023, 10028, 10047})
_NO_PEERS = frozenset({10005, 10052, 10074})

_log = log("bus")


class ConsumerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A durable consumer, by its fixed name."""

    stream: str
    durable: str
    filter_subjects: tuple[str, ...]


def stream_shapes() -> dict[str, dict[str, Any]]:
    """Return what we insist on, stream by stream, in the terms of JetStream's API."""
    common = {
        "retention": "limits",
        "storage": "file",
        "discard": "old",
        "max_msg_size": cloudevents.MESSAGE_BYTES_MAX,
        "duplicate_window": DUPLICATE_WINDOW,
        "allow_direct": True,
    }
    return {
        subjects.TRAIL: {
            **common,
            "subjects": list(subjects.TRAIL_SUBJECTS),
            "max_age": TRAIL_AGE,
            "max_msgs_per_subject": -1,
        },
        subjects.SIGHTINGS: {
            **common,
            "subjects": list(subjects.SIGHTINGS_SUBJECTS),
            "max_age": SIGHTINGS_AGE,
            "max_msgs_per_subject": 1,
        },
    }


async def ensure_stream(link: Link, name: str) -> None:
    """Make the stream, or bring it to our shape; raises `WrongShape` when that cannot be done."""
    shape = stream_shapes()[name]
    try:
        info = await link.api(f"STREAM.INFO.{name}")
    except ApiRefused as error:
        if error.code != _NOT_FOUND:
            raise
        await _create_stream(link, name, shape)
        return
    has = info["config"]
    differs = {field: has.get(field) for field, wanted in shape.items() if has.get(field) != wanted}
    if not differs:
        return
    try:
        await link.api(f"STREAM.UPDATE.{name}", {**has, **shape})
    except ApiRefused as error:
        if error.code in _NOT_NOW:
            raise
        wants = {field: shape[field] for field in differs}
        raise WrongShape(f"stream {name} has {differs} and needs {wants}: {error.description}") from error
    _log.info("stream updated", stream=name, fields=sorted(differs))


async def _create_stream(link: Link, name: str, shape: dict[str, Any]) -> None:
    size = TRAIL_BYTES if name == subjects.TRAIL else SIGHTINGS_BYTES
    replicas = REPLICAS
    while True:
        config = {**shape, "name": name, "max_bytes": size, "num_replicas": replicas}
        try:
            await link.api(f"STREAM.CREATE.{name}", config)
        except ApiRefused as error:
            if error.err_code in _NO_ROOM and size // 2 >= BYTES_MIN:
                size //= 2
            elif error.err_code in _NO_PEERS and replicas > 1:
                replicas = 1
            else:
                raise
        else:
            _log.info("stream created", stream=name, bytes_max=size, replicas=replicas)
            return


async def ensure_consumer(link: Link, spec: ConsumerSpec) -> None:
    """Make the consumer, or bring it to our shape. One that has run ahead of its stream is made anew.

    After a power loss a consumer may remember more than its stream does; it would stay silent until the
    stream has caught up. Made anew it delivers again what is there, which handlers must bear anyway.
    """
    path = f"{spec.stream}.{spec.durable}"
    try:
        info = await link.api(f"CONSUMER.INFO.{path}")
    except ApiRefused as error:
        if error.code != _NOT_FOUND:
            raise
    else:
        last = (await link.api(f"STREAM.INFO.{spec.stream}"))["state"]["last_seq"]
        reached = max(info["delivered"]["stream_seq"], info["ack_floor"]["stream_seq"])
        if reached > last:
            _log.warning("consumer ahead of its stream", consumer=spec.durable, reached=reached, last=last)
            await link.api(f"CONSUMER.DELETE.{path}")
        elif _is_shaped(info["config"], _consumer_shape(spec)):
            return
    try:
        await link.api(
            f"CONSUMER.CREATE.{path}", {"stream_name": spec.stream, "config": _consumer_shape(spec), "action": ""}
        )
    except ApiRefused as error:
        if error.code in _NOT_NOW:
            raise
        raise WrongShape(f"consumer {spec.durable} of stream {spec.stream}: {error.description}") from error
    _log.info("consumer made", consumer=spec.durable, stream=spec.stream)


def _consumer_shape(spec: ConsumerSpec) -> dict[str, Any]:
    return {
        "durable_name": spec.durable,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": ACK_WAIT_SECONDS * SECOND,
        "max_deliver": -1,
        "max_ack_pending": UNACKNOWLEDGED_MAX,
        "filter_subjects": list(spec.filter_subjects),
        "replay_policy": "instant",
    }


def _is_shaped(has: dict[str, Any], wanted: dict[str, Any]) -> bool:
    single = has.get("filter_subject")  # how the server may write a list of one
    has = {**has, "filter_subjects": has.get("filter_subjects") or ([single] if single else [])}
    return all(has.get(field) == value for field, value in wanted.items())
