"""Setting a message aside: what is kept of it, and under which subject and id."""

from nats.aio.msg import Msg

from libs import events
from libs.bus.delivery import AckReply
from libs.bus.publish import Publisher
from libs.events import subjects

DATA_BYTES = 4096
TEXT_MAX = 500


async def set_aside(publisher: Publisher, message: Msg, ack: AckReply, *, consumer: str, error: str) -> None:
    """Return when the trail has the dead letter; repeating it stores nothing twice."""
    subject = subjects.dead(consumer)
    letter = events.DeadLetter(
        subject=message.subject[:TEXT_MAX],
        stream=ack.stream,
        sequence=ack.sequence,
        consumer=consumer,
        error=error[:TEXT_MAX],
        data=message.data[:DATA_BYTES].decode("utf-8", "backslashreplace"),
        data_bytes=len(message.data),
        deliveries=ack.deliveries,
    )
    # The time is part of the id: a stream that is made anew counts from one again.
    message_id = f"{subject}/{ack.stream}/{ack.sequence}/{ack.stored_ns}"
    await publisher.publish(letter, subject=subject, message_id=message_id)
