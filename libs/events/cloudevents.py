"""CloudEvents in binary mode, as its NATS binding has it: attributes in `ce-` headers, the event as JSON data."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from libs.events import model

MESSAGE_BYTES_MAX = 64 * 1024
"""The streams' `max_msg_size`, headers included."""

_TYPES: dict[str, type[model.Event]] = {
    f"dev.nodetrail.{cls.__name__}.v1": cls
    for cls in (
        model.EndpointObserved,
        model.NodeSighted,
        model.EndpointDecided,
        model.MachineRegistered,
        model.MachineReadinessChanged,
        model.MachineConfigurationSent,
        model.DeadLetter,
    )
}
_NAMES = {cls: name for name, cls in _TYPES.items()}
_DECODERS = {name: msgspec.json.Decoder(cls) for name, cls in _TYPES.items()}
_ENCODER = msgspec.json.Encoder()


class UndecodableEventError(ValueError):
    """The message is not an event of ours; it can only be set aside."""


def encode(
    event: model.Event, *, message_id: str, source: str, time: datetime, traceparent: str = ""
) -> tuple[dict[str, str], bytes]:
    """Return headers and data. `time` is the publisher's clock, for people; nothing is ordered by it."""
    headers = {
        "Nats-Msg-Id": message_id,
        "ce-specversion": "1.0",
        "ce-type": _NAMES[type(event)],
        "ce-source": source,
        "ce-id": message_id,
        "ce-time": time.isoformat().replace("+00:00", "Z"),
        "content-type": "application/json",
    }
    if traceparent:
        headers["traceparent"] = traceparent
    return headers, _ENCODER.encode(event)


def decode(headers: Mapping[str, str] | None, data: bytes) -> model.Event:
    """Read an event; unknown fields are ignored, an unknown type or wrong shape raises `UndecodableEventError`."""
    if len(data) > MESSAGE_BYTES_MAX:
        raise UndecodableEventError(f"{len(data)} bytes, over {MESSAGE_BYTES_MAX}")
    kind = (headers or {}).get("ce-type", "")
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise UndecodableEventError(f"event type {kind[:200]!r} is not known here")
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:  # ValidationError included
        raise UndecodableEventError(f"{kind}: {error}") from error
