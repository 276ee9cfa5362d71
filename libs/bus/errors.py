"""What can go wrong on the bus, one class for each thing that a caller does differently.

    BusError
    ├── EventTooLarge       the event can never be published; nothing was sent
    ├── RequestFailed       no answer: not connected, not permitted, nobody there, too late; worth another try
    │   ├── Disconnected    the connection was lost meanwhile
    │   └── Denied          our user lacks the right
    ├── ApiRefused          JetStream answered no, with its code
    └── WrongShape          a stream or consumer exists with settings that cannot be changed to ours

`Later` is no error: a handler raises it to have the message back in a while.
"""
# ruff: noqa: N818 - `bus.Later` reads as what it is wherever it is raised or caught.


class BusError(Exception):
    """Base of all errors of this lib."""


class EventTooLarge(BusError):
    """The event, headers included, is over the streams' limit."""


class RequestFailed(BusError):
    """There was no answer; what was asked may or may not have happened."""


class Disconnected(RequestFailed):
    """The connection was lost before the answer came."""


class Denied(RequestFailed):
    """The server does not let our user do this; an operator has to grant it."""


class ApiRefused(BusError):
    """JetStream refused; `code` is HTTP-like, `err_code` its own."""

    def __init__(self, what: str, *, code: int, err_code: int, description: str) -> None:
        super().__init__(f"{what}: {description} ({code}, {err_code})")
        self.code = code
        self.err_code = err_code
        self.description = description


class WrongShape(BusError):
    """An operator has to delete or rename the stream or consumer that the text names."""


class Later(Exception):
    """Raised by a handler: deliver this message again after `seconds`. Never counts as its failure."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"again in {seconds:g} s")
        self.seconds = seconds
