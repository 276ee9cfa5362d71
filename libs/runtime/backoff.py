"""Pauses between tries: they double up to a limit, and no two clients keep step."""

from random import Random


class Backoff:
    """The pauses of one thing that is tried again and again; `reset` it when a try succeeded."""

    def __init__(
        self,
        first_seconds: float = 1.0,
        limit_seconds: float = 120.0,
        jitter: float = 0.2,
        random: Random | None = None,
    ) -> None:
        """`jitter` is the largest part that is taken off a pause; no pause exceeds the limit."""
        self._first = first_seconds
        self._limit = limit_seconds
        self._jitter = jitter
        self._random = random or Random()  # noqa: S311 - spreads load, guards nothing
        self._whole = first_seconds

    def next(self) -> float:
        """Return how many seconds to wait before the next try."""
        whole = min(self._whole, self._limit)
        self._whole = min(whole * 2, self._limit)
        return whole * (1.0 - self._jitter * self._random.random())

    def reset(self) -> None:
        """Start again with the first pause."""
        self._whole = self._first
