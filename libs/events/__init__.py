"""The vocabulary of the trail: event structs, the subjects they travel on, and their CloudEvents form.

Events are facts in the past tense, frozen, readable as JSON by a person. No configuration, key or token
ever enters one. Nothing here publishes or subscribes.
"""

from libs.events.cloudevents import UndecodableEventError, decode, encode
from libs.events.model import (
    DeadLetter,
    EndpointDecided,
    EndpointObserved,
    Event,
    MachineConfigurationSent,
    MachineReadinessChanged,
    MachineRef,
    MachineRegistered,
    NodeRef,
    NodeSighted,
    Outcome,
    SeenAddress,
)

__all__ = [
    "DeadLetter",
    "EndpointDecided",
    "EndpointObserved",
    "Event",
    "MachineConfigurationSent",
    "MachineReadinessChanged",
    "MachineRef",
    "MachineRegistered",
    "NodeRef",
    "NodeSighted",
    "Outcome",
    "SeenAddress",
    "UndecodableEventError",
    "decode",
    "encode",
]
