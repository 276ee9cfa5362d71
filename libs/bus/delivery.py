"""A message of a stream as its handlers see it: the event, and what the stream knows about it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from libs import events

MESSAGE_ID = "Nats-Msg-Id"

_NANOSECONDS = 1_000_000_000
_SHORT_ACK = 9
"""Tokens of `$JS.ACK.<stream>.<consumer>.<deliveries>.<sequence>.<consumer sequence>.<time>.<pending>`; the
longer form has domain and account in front of the stream."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One event from a stream."""

    subject: str
    stream: str
    sequence: int
    stored_at: datetime
    """The stream's timestamp; one clock for all publishers."""
    message_id: str
    event: events.Event
    deliveries: int = 1
    """How often the server has delivered it, this time included."""

    @property
    def made_at(self) -> datetime:
        """When the observation was made, by the stream's clock: stored, minus the age at publishing."""
        age: float = getattr(self.event, "age_seconds", 0.0)
        try:
            return self.stored_at - timedelta(seconds=max(age, 0.0))
        except (OverflowError, ValueError):  # an absurd age: as old as can be written
            return datetime.min.replace(tzinfo=UTC)


class AckReply(msgspec.Struct, frozen=True):
    """What the reply subject of a delivered message tells."""

    stream: str
    deliveries: int
    sequence: int
    stored_ns: int
    pending: int


def parse_ack_reply(reply: str) -> AckReply | None:
    """Read the reply subject; None when the message is a status of the server, which has none."""
    tokens = reply.split(".")
    if len(tokens) < _SHORT_ACK or tokens[0] != "$JS" or tokens[1] != "ACK":
        return None
    first = 2 if len(tokens) == _SHORT_ACK else 4
    stream, _, deliveries, sequence, _, stored, pending = tokens[first : first + 7]
    return AckReply(stream, int(deliveries), int(sequence), int(stored), int(pending))


def moment(nanoseconds: int) -> datetime:
    """Turn the stream's clock into a time, exact to the microsecond."""
    seconds, rest = divmod(nanoseconds, _NANOSECONDS)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)


def delivered(message: Any, ack: AckReply) -> Delivery:
    """Decode a message of a consumer; raises `UndecodableEventError`."""
    headers = message.headers or {}
    return Delivery(
        subject=message.subject,
        stream=ack.stream,
        sequence=ack.sequence,
        stored_at=moment(ack.stored_ns),
        message_id=headers.get(MESSAGE_ID, ""),
        event=events.decode(headers, message.data),
        deliveries=ack.deliveries,
    )


def read_directly(message: Any) -> Delivery:
    """Decode the answer of a direct read; raises `UndecodableEventError` or `ValueError`."""
    headers = message.headers or {}
    return Delivery(
        subject=headers["Nats-Subject"],
        stream=headers["Nats-Stream"],
        sequence=int(headers["Nats-Sequence"]),
        stored_at=_from_text(headers["Nats-Time-Stamp"]),
        message_id=headers.get(MESSAGE_ID, ""),
        event=events.decode(headers, message.data),
    )


def _from_text(text: str) -> datetime:
    """Read the server's RFC 3339 time, whose fraction has up to nine digits."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(whole).replace(microsecond=int(fraction[:6].ljust(6, "0")), tzinfo=UTC)
