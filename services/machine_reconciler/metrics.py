"""What is counted: who answered, what was held back. Machines are never labels."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from services.machine_reconciler.machines import Machines


class Metrics:
    """The reconciler's own metrics."""

    def __init__(self, registry: CollectorRegistry, machines: Machines) -> None:
        self._answers = Counter(
            "nodetrail_answers_total",
            "What asking nodes came to, by what was asked",
            ["asked", "answer"],
            registry=registry,
        )
        self.registration_limited = Counter(
            "nodetrail_registrations_held_back_total",
            "Times that a limit kept a box from being registered",
            registry=registry,
        )
        Gauge("nodetrail_machines", "Machines that are known", registry=registry).set_function(lambda: len(machines))
        Gauge("nodetrail_machines_unapproved", "Machines that wait for approval", registry=registry).set_function(
            lambda: machines.unapproved
        )

    def answered(self, asked: str, answer: str) -> None:
        """Count one answer."""
        self._answers.labels(asked=asked, answer=answer).inc()
