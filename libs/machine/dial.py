"""`dial_endpoint`: where every client dials a machine's Talos API now."""

from libs.machine.model import TalosMachine


def dial_endpoint(machine: TalosMachine) -> str:
    """Return the observed endpoint while it still replaces the declared one, else the declared one.

    `observedEndpointFor` is compared as text on purpose: an operator who rewrites `10.0.0.1` as
    `10.0.0.1:50000` has edited the spec and thereby overrides what was observed.
    """
    status = machine.status
    if status.observed_endpoint and status.observed_endpoint_for == machine.spec.endpoint:
        return status.observed_endpoint
    return machine.spec.endpoint
