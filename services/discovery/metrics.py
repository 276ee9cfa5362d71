"""The metrics of discovery."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from services.discovery.probe import Outcome
from services.discovery.sweep import Tally

_SECONDS = (0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 900, 3600)


class Metrics:
    """How much was swept, what was found, how long it took."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._addresses = Counter(
            "nodetrail_discovery_addresses_total",
            "Addresses swept, by what became of the connect",
            ["result"],
            registry=registry,
        )
        self._probes = Counter(
            "nodetrail_discovery_probes_total", "Open ports asked, by who answered", ["outcome"], registry=registry
        )
        self._seconds = Histogram(
            "nodetrail_discovery_sweep_seconds",
            "How long a sweep took: its TCP stage, and all of it",
            ["stage"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.identities = Gauge(
            "nodetrail_discovery_identities", "Identities in maintenance mode that answer now", registry=registry
        )
        self.unpublished = Gauge(
            "nodetrail_discovery_unpublished", "Subjects with news that is not published yet", registry=registry
        )
        self.left_out = Counter(
            "nodetrail_discovery_left_out_total", "Answers for which there was no room", registry=registry
        )
        for outcome in Outcome:
            self._probes.labels(outcome=outcome)

    def probed(self, outcome: Outcome) -> None:
        """Count one probe."""
        self._probes.labels(outcome=outcome).inc()

    def swept(self, tally: Tally, *, seconds: float) -> None:
        """Count one whole sweep."""
        for result in ("opened", "refused", "silent"):
            self._addresses.labels(result=result).inc(getattr(tally, result))
        self._seconds.labels(stage="tcp").observe(tally.seconds)
        self._seconds.labels(stage="whole").observe(seconds)
