"""NATS: the two streams, their consumers, publishing, dead letters. The only importer of `nats`.

What events mean, and what is done about them, is decided elsewhere.
"""

from libs.bus.bus import Bus, connect
from libs.bus.consume import Gate, Handler
from libs.bus.delivery import Delivery
from libs.bus.errors import ApiRefused, BusError, Denied, Disconnected, EventTooLarge, Later, RequestFailed, WrongShape
from libs.bus.streams import ConsumerSpec
from libs.events.subjects import SIGHTINGS, TRAIL

__all__ = [
    "SIGHTINGS",
    "TRAIL",
    "ApiRefused",
    "Bus",
    "BusError",
    "ConsumerSpec",
    "Delivery",
    "Denied",
    "Disconnected",
    "EventTooLarge",
    "Gate",
    "Handler",
    "Later",
    "RequestFailed",
    "WrongShape",
    "connect",
]
