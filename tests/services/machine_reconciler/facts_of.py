"""Facts for the plan's tests: one good case of each kind, to break one fact at a time."""

from __future__ import annotations

import msgspec

from libs.identity import Identity
from libs.machine import (
    ConfigurationSpec,
    ConfigurationStatus,
    ObjectMeta,
    SecretKey,
    TalosconfigSpec,
    TalosMachine,
    TalosMachineSpec,
    TalosMachineStatus,
)
from services.machine_reconciler.facts import Content, Facts, InMaintenance, Proven

PIN = "P" * 43 + "="
OTHER = "O" * 43 + "="
HERE = "10.0.0.1"
ELSEWHERE = "10.0.0.9"
IDENTITY = Identity(
    uuid="11111111-2222-4333-8444-555555555555", serial_number="S1", mac_addresses=("b4:96:91:00:00:01",)
)

USABLE = Content(hash="h")
BROKEN = Content(problem="key config of Secret nodetrail/one: the Secret does not exist")
PINNED_BOX = InMaintenance(fingerprint=PIN, is_it=True)
OTHER_BOX = InMaintenance(fingerprint=OTHER, is_it=True)
READ = Proven(fingerprint="L" * 43 + "=", equals_desired=True, node_name="one")


def machine(*, sent_to: str = "", observed: str = "", **spec: object) -> TalosMachine:
    """An approved, pinned machine with both references; keywords replace parts of its spec."""
    whole = TalosMachineSpec(
        endpoint=HERE,
        identity=IDENTITY,
        approved=True,
        maintenance_fingerprint=PIN,
        configuration=ConfigurationSpec(secret_ref=SecretKey(name="one", key="config")),
        talosconfig=TalosconfigSpec(secret_ref=SecretKey(name="one", key="talosconfig")),
    )
    return TalosMachine(
        metadata=ObjectMeta(namespace="nodetrail", name="one", uid="u-1", resource_version="7", generation=3),
        spec=msgspec.structs.replace(whole, **spec),
        status=TalosMachineStatus(
            observed_endpoint=observed,
            observed_endpoint_for=HERE if observed else "",
            configuration=ConfigurationStatus(sent_to=sent_to) if sent_to else None,
        ),
    )


def never_sent(**changes: object) -> Facts:
    """Everything holds for a first send; keywords beginning with `spec_` change the machine, others the facts."""
    return _facts(Facts(machine=machine(), configuration=USABLE, talosconfig=USABLE, dialled=PINNED_BOX), changes)


def sent(**changes: object) -> Facts:
    """A machine that was sent its configuration behind the pin and is read without fault."""
    good = Facts(machine=machine(sent_to=PIN), configuration=USABLE, talosconfig=USABLE, dialled=READ)
    return _facts(good, changes, sent_to=PIN)


def _facts(good: Facts, changes: dict[str, object], *, sent_to: str = "") -> Facts:
    spec = {key.removeprefix("spec_"): value for key, value in changes.items() if key.startswith("spec_")}
    rest = {key: value for key, value in changes.items() if not key.startswith("spec_")}
    observed = str(rest.pop("observed", ""))
    return msgspec.structs.replace(good, machine=machine(sent_to=sent_to, observed=observed, **spec), **rest)
