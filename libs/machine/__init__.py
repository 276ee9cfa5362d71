"""The `TalosMachine` object: its types, its conditions, and `dial_endpoint`, the one answer to "dial where?".

The CustomResourceDefinition in deploy/k8s/crds is generated from these types (`python -m libs.machine.crd`).
Nothing here talks to an API server.
"""

from libs.machine.dial import dial_endpoint
from libs.machine.model import (
    Apply,
    Condition,
    ConfigurationSpec,
    ConfigurationStatus,
    MaintenanceSighting,
    ObjectMeta,
    OperationAction,
    OperationPhase,
    OperationSpec,
    OperationStatus,
    SecretKey,
    Source,
    TalosconfigSpec,
    TalosMachine,
    TalosMachineSpec,
    TalosMachineStatus,
)
from libs.machine.readiness import READ_FAILED, Ready, condition, ready_condition, with_condition

__all__ = [
    "READ_FAILED",
    "Apply",
    "Condition",
    "ConfigurationSpec",
    "ConfigurationStatus",
    "MaintenanceSighting",
    "ObjectMeta",
    "OperationAction",
    "OperationPhase",
    "OperationSpec",
    "OperationStatus",
    "Ready",
    "SecretKey",
    "Source",
    "TalosMachine",
    "TalosMachineSpec",
    "TalosMachineStatus",
    "TalosconfigSpec",
    "condition",
    "dial_endpoint",
    "ready_condition",
    "with_condition",
]
