"""An observation as it comes out of the stream: its source is the subject's word, its time the stream's."""

from __future__ import annotations

from datetime import datetime

import msgspec

from libs import bus, rules
from libs.endpoint import DEFAULT_PORT
from libs.events import EndpointObserved, MachineRef, SeenAddress, subjects
from libs.machine import Source, TalosMachine

_SOURCES = {source.value: source for source in Source}


class StrangeObservationError(ValueError):
    """The event does not belong on its subject; it can only be set aside."""


class News(msgspec.Struct, frozen=True):
    """One observation."""

    source: Source
    subject: str
    observed: EndpointObserved
    id: str
    made_at: datetime


def read(delivery: bus.Delivery) -> News:
    """Return the observation that was delivered; raises `StrangeObservationError`."""
    observed = delivery.event
    source = _SOURCES.get(subjects.source_of(delivery.subject) or "")
    if source is None or not isinstance(observed, EndpointObserved):
        raise StrangeObservationError(f"{type(observed).__name__} on {delivery.subject} is no observation")
    if not _speaks_of_its_subject(source, delivery.subject, observed):
        raise StrangeObservationError(f"the {source} observation on {delivery.subject} speaks of something else")
    observation_id = delivery.message_id or f"{delivery.stream}/{delivery.sequence}"
    return News(source, delivery.subject, observed, observation_id, delivery.made_at)


def held_in_status(machine: TalosMachine, source: Source, at: datetime) -> News:
    """Return what is left of a recorded observation in status: its source, its time and the address."""
    meta = machine.metadata
    recorded = rules.endpoint_of(machine.status.observed_endpoint, DEFAULT_PORT)
    observed = EndpointObserved(
        source=source,
        addresses=(SeenAddress(address=recorded.host if recorded is not None else ""),),
        machine=MachineRef(namespace=meta.namespace, name=meta.name, uid=meta.uid),
    )
    return News(source, "", observed, f"status/{meta.uid}/{at.isoformat()}", at)


def _speaks_of_its_subject(source: Source, subject: str, observed: EndpointObserved) -> bool:
    """Whether the payload says whom it is about, and that this is whom its subject allows it to speak of."""
    node, machine = observed.node, observed.machine
    if source is Source.DISCOVERY:
        return observed.identity is not None
    if source is Source.NODE:
        return node is not None and subject == subjects.observed_node(node.name)
    if machine is None:
        return False
    if source is Source.LOOKUP:
        return node is not None and subject == subjects.observed_lookup(machine.namespace, machine.name)
    return subject == subjects.observed_read(machine.namespace, machine.name)
