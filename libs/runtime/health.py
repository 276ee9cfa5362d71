"""What a process waits for: shown by /readyz, counted in the metrics, logged when it begins and ends."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Gauge

from libs.runtime.logs import log

_log = log("health")


class Health:
    """The parts that wait, and why. A part is named by whoever waits; nothing waits at first."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """With a registry, `nodetrail_part_waiting` shows each part that ever waited as 1 or 0."""
        self._waiting: dict[str, str] = {}
        self._gauge: Gauge | None = None
        if registry is not None:
            self._gauge = Gauge(
                "nodetrail_part_waiting", "1 while this part waits for something", ["part"], registry=registry
            )

    @property
    def ready(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    @property
    def waits(self) -> Mapping[str, str]:
        """Each part that waits, and why."""
        return dict(self._waiting)

    def waiting(self, part: str, why: str) -> None:
        """Say that a part waits; repeated calls change the reason and are logged only the first time."""
        if part not in self._waiting:
            _log.warning("waiting", waits=part, why=why)
            self._show(part, 1)
        self._waiting[part] = why

    def fine(self, part: str) -> None:
        """Say that a part no longer waits, or never did."""
        if self._waiting.pop(part, None) is not None:
            _log.info("waiting no longer", waits=part)
        self._show(part, 0)

    def _show(self, part: str, value: int) -> None:
        if self._gauge is not None:
            self._gauge.labels(part=part).set(value)
