"""The writer in figures. Reasons and rules are labels, machines and addresses never."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from libs.events import Outcome
from libs.rules import Decision, Reason


class Metrics:
    """Counters, a gauge and a histogram."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self._decisions = Counter(
            "nodetrail_writer_decisions_total", "Observations decided", ["outcome", "reason"], registry=registry
        )
        self._dropped = Counter(
            "nodetrail_writer_dropped_total", "Observations that were about nothing", ["why"], registry=registry
        )
        self.unchanged = self._decisions.labels(outcome=Outcome.UNCHANGED, reason=Reason.UNCHANGED)
        """Bound once: this one counts thousands a second."""
        self.conflicts = Counter(
            "nodetrail_writer_conflicts_total", "Writes refused because the machine had changed", registry=registry
        )
        self.repeats = Counter(
            "nodetrail_writer_repeats_total", "Refusals not published because they repeated", registry=registry
        )
        self.shared = Gauge(
            "nodetrail_writer_shared_values", "Values known to be shown by several boxes", registry=registry
        )
        self.delay = Histogram(
            "nodetrail_writer_delay_seconds",
            "From making an observation to its status being written",
            buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300),
            registry=registry,
        )

    def decided(self, decision: Decision) -> None:
        """Count a decision."""
        self._decisions.labels(outcome=decision.outcome, reason=decision.reason).inc()

    def dropped(self, why: str) -> None:
        """Count an observation that is about no living machine, or lists nothing; `why` is one of a few words."""
        self._dropped.labels(why=why).inc()
