"""Events for the tests of the bus."""

from libs import bus, events
from libs.events import subjects
from libs.machine import Source


def node_event(name: str = "n1", version: str = "1", *, padding: int = 0) -> events.EndpointObserved:
    return events.EndpointObserved(
        source=Source.NODE,
        addresses=(events.SeenAddress(address="10.0.0.1"),),
        node=events.NodeRef(name=name, uid="u-" + name, resource_version=version, system_uuid="x" * padding),
    )


async def publish_node(nats: bus.Bus, name: str = "n1", version: str = "1") -> str:
    subject = subjects.observed_node(name)
    message_id = f"{subject}/{version}"
    await nats.publish(node_event(name, version), subject=subject, message_id=message_id)
    return message_id
