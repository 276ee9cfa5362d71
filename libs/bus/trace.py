"""The trace that a message belongs to: handed from the event that is handled to those published meanwhile.

W3C Trace Context in the `traceparent` header; a trace begins with the first event of a chain of causes.
"""

import re
import secrets
from contextvars import ContextVar

HEADER = "traceparent"
_FORM = re.compile(r"00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_current: ContextVar[str] = ContextVar("traceparent", default="")


def follow(traceparent: str) -> None:
    """From here on, in this task and those it starts, what is published belongs to this trace."""
    _current.set(traceparent)


def next_traceparent() -> str:
    """Return the header for an event published now: a new span, in the current trace if there is one."""
    known = _FORM.fullmatch(_current.get())
    trace = known[1] if known else secrets.token_hex(16)
    return f"00-{trace}-{secrets.token_hex(8)}-01"
