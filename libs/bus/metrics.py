"""The bus in figures. Without a registry they are counted all the same and shown nowhere."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class Metrics:
    """Counters and gauges; labels are consumers and outcomes, never subjects."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        registry = registry or CollectorRegistry()
        self.connected = Gauge("nodetrail_bus_connected", "1 while connected to NATS", registry=registry)
        self.published = Counter(
            "nodetrail_bus_published_total", "Events acknowledged by a stream", ["duplicate"], registry=registry
        )
        self.publish_failures = Counter(
            "nodetrail_bus_publish_failures_total", "Tries to publish that got no acknowledgement", registry=registry
        )
        self.acknowledged_at = Gauge(
            "nodetrail_bus_acknowledged_timestamp_seconds",
            "When a stream last acknowledged an event",
            registry=registry,
        )
        self.handled = Counter(
            "nodetrail_bus_handled_total",
            "Messages handled, by outcome: done, later, failed or dead",
            ["consumer", "outcome"],
            registry=registry,
        )
        self.pending = Gauge(
            "nodetrail_bus_pending", "Messages of the stream not delivered yet", ["consumer"], registry=registry
        )
        self.unacknowledged = Gauge(
            "nodetrail_bus_unacknowledged",
            "Messages delivered and not acknowledged yet",
            ["consumer"],
            registry=registry,
        )
        self.rebinds = Counter(
            "nodetrail_bus_rebinds_total", "Pulls started anew on the same connection", ["consumer"], registry=registry
        )
