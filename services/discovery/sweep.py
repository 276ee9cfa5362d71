"""The TCP stage of a sweep: which of many addresses accept a connection, found by an epoll loop of its own.

It blocks, and so runs in a worker thread: an event loop with thousands of connects in flight lags, and what
answered in time would be taken for silent. Every connect has its own deadline, and at the deadline the state
of the socket decides, not when somebody got round to looking at it. An address that stays silent is tried
once more, since one lost packet is no evidence.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from services.discovery.ranges import Target

RETRIES_WAITING_MAX = 4096
"""Silent addresses that wait for their second try; past that they go before new ones, so memory stays bounded."""
_BATCH = 512
_NAP_SECONDS = 0.05
"""The longest sleep: how soon a stop is noticed, and how much of the rate may be caught up at once."""
_ESTABLISHED = 1
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_PENDING = (errno.EINPROGRESS, errno.EALREADY)
_CONNECTED = (0, errno.EISCONN)
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


@dataclass
class Tally:
    """What became of the addresses of one sweep."""

    swept: int = 0
    opened: int = 0
    refused: int = 0
    """Closed, unreachable or impossible to dial: an answer of some kind came at once."""
    silent: int = 0
    """No answer at either try."""
    seconds: float = 0.0


@dataclass(slots=True)
class _Try:
    sock: socket.socket
    target: Target
    is_second: bool


class TcpSweep:
    """One sweep; `run` in a worker thread, `stop` from any other."""

    def __init__(
        self,
        *,
        found: Callable[[Target], None],
        rate: float,
        timeout_seconds: float,
        window: int,
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        """`found` is called in the worker thread; while `has_room` says no, nothing new is dialled."""
        self.tally = Tally()
        self._found = found
        self._rate = rate
        self._timeout_seconds = timeout_seconds
        self._window = window
        self._has_room = has_room
        self._stop = threading.Event()
        self._tries: dict[int, _Try] = {}
        self._deadlines: deque[tuple[float, int, _Try]] = deque()
        self._waiting: deque[tuple[Target, bool]] = deque()
        self._fresh: Iterator[Target] = iter(())
        self._exhausted = False
        self._spare: dict[socket.AddressFamily, socket.socket] = {}
        self._tokens = 0.0
        self._refilled_at = 0.0

    def stop(self) -> None:
        """Have `run` return soon; safe to repeat."""
        self._stop.set()

    def run(self, targets: Iterable[Target]) -> Tally:
        """Dial every target and return when each has answered, was silent twice, or `stop` was called."""
        self._fresh = iter(targets)
        begun = self._refilled_at = time.monotonic()
        with select.epoll() as poller:
            try:
                while not self._stop.is_set():
                    more = self._dial(poller)
                    if not more and not self._tries and not self._waiting and self._exhausted:
                        break
                    self._harvest(poller, 0.0 if more else self._patience())
                    self._expire()
            finally:
                for sock in (*self._spare.values(), *(attempt.sock for attempt in self._tries.values())):
                    sock.close()
        self.tally.seconds = time.monotonic() - begun
        return self.tally

    def _dial(self, poller: select.epoll) -> bool:
        """Start as many connects as rate, window and room allow; say whether more could start at once."""
        now = time.monotonic()
        burst = max(1.0, self._rate * _NAP_SECONDS)
        self._tokens = min(burst, self._tokens + (now - self._refilled_at) * self._rate)
        self._refilled_at = now
        count = min(int(self._tokens), self._window - len(self._tries), _BATCH)
        if count <= 0 or not self._has_room():
            return False
        deadline = now + self._timeout_seconds
        for _ in range(count):
            following = self._next()
            if following is None or not self._connect(poller, *following, deadline):
                return False
            self._tokens -= 1
        return True

    def _next(self) -> tuple[Target, bool] | None:
        if not self._exhausted and len(self._waiting) < RETRIES_WAITING_MAX:
            target = next(self._fresh, None)
            if target is not None:
                self.tally.swept += 1
                return target, False
            self._exhausted = True
        return self._waiting.popleft() if self._waiting else None

    def _connect(self, poller: select.epoll, target: Target, is_second: bool, deadline: float) -> bool:  # noqa: FBT001 - one call, from a pair
        """Start one connect; False when the system has no socket for it now, and it waits for later."""
        try:
            sock = self._spare.pop(target.family, None) or _new_socket(target.family)
        except OSError as error:
            return self._without_socket(error, target, is_second)
        try:
            code = sock.connect_ex(target.address)
            if code == errno.EINPROGRESS:
                # A near box has answered by now: asking again at once is cheaper than being told.
                code = sock.connect_ex(target.address)
        except OSError:  # an address of a kind that cannot be dialled
            code = errno.EINVAL
        if code == errno.ECONNREFUSED:
            self.tally.refused += 1
            self._spare[target.family] = sock  # Linux has reset it: it can be used for the next address
        elif code in _PENDING:
            number = sock.fileno()
            poller.register(number, select.EPOLLOUT)
            attempt = self._tries[number] = _Try(sock, target, is_second)
            self._deadlines.append((deadline, number, attempt))
        elif code in _CONNECTED:
            self._hit(sock, target)
        else:
            sock.close()
            self.tally.refused += 1
        return True

    def _without_socket(self, error: OSError, target: Target, is_second: bool) -> bool:  # noqa: FBT001 - as above
        if error.errno not in _NO_ROOM:  # no IPv6 on this host, for one
            self.tally.refused += 1
            return True
        self._waiting.append((target, is_second))
        self._window = max(1, len(self._tries))
        return False

    def _patience(self) -> float:
        """Return how long nothing of ours can become due."""
        patience = _NAP_SECONDS
        if self._deadlines:
            patience = min(patience, self._deadlines[0][0] - time.monotonic())
        if self._tokens < 1 and not (self._exhausted and not self._waiting):
            patience = min(patience, (1 - self._tokens) / self._rate)
        return max(0.0, patience)

    def _harvest(self, poller: select.epoll, patience: float) -> None:
        for number, events in poller.poll(patience, max(1, self._window)):
            attempt = self._tries.pop(number)
            if events & (select.EPOLLERR | select.EPOLLHUP):
                attempt.sock.close()
                self.tally.refused += 1
            else:
                self._hit(attempt.sock, attempt.target)

    def _expire(self) -> None:
        now = time.monotonic()
        while self._deadlines:
            deadline, number, attempt = self._deadlines[0]
            if self._tries.get(number) is not attempt:
                self._deadlines.popleft()  # it has answered
                continue
            if deadline > now:
                return
            self._deadlines.popleft()
            del self._tries[number]
            if attempt.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED:
                self._hit(attempt.sock, attempt.target)
                continue
            attempt.sock.close()
            if attempt.is_second:
                self.tally.silent += 1
            else:
                self._waiting.append((attempt.target, True))

    def _hit(self, sock: socket.socket, target: Target) -> None:
        self.tally.opened += 1
        # Closed by a reset: thousands of connections in TIME_WAIT would use up ports.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        sock.close()
        self._found(target)


def _new_socket(family: socket.AddressFamily) -> socket.socket:
    return socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
