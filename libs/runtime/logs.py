"""Log lines: a constant message with keys, on standard output; text on a terminal, JSON elsewhere.

What other libraries write through `logging` comes out in the same form, from warnings up.
"""

import logging
import sys
from typing import Literal

import structlog
from structlog.typing import FilteringBoundLogger, Processor

LogFormat = Literal["auto", "text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]


def log(name: str) -> FilteringBoundLogger:
    """Return a logger whose lines carry `part=name`; may be made before the logs are set up."""
    logger: FilteringBoundLogger = structlog.get_logger(part=name)
    return logger


def set_up_logs(*, log_format: LogFormat, log_level: LogLevel, **bound: str) -> None:
    """Set the form of all log lines of this process; `bound` is added to each."""
    terminal = sys.stdout.isatty()
    level = logging.getLevelName(log_level.upper())

    def add_bound(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        return {**bound, **event}

    as_text = log_format == "text" or (log_format == "auto" and terminal)
    processors: list[Processor] = [
        add_bound,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        *(_text(colours=terminal) if as_text else _json()),
    ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stdout),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[_Forward()], force=True)
    logging.captureWarnings(capture=True)


def _text(*, colours: bool) -> list[Processor]:
    return [
        structlog.dev.ConsoleRenderer(
            colors=colours, timestamp_key="time", exception_formatter=structlog.dev.plain_traceback
        )
    ]


def _json() -> list[Processor]:
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


class _Forward(logging.Handler):
    """Hands a record of the standard library's logging on to our own log."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except (TypeError, ValueError):  # the library's own format and arguments disagree
            text = str(record.msg)
        log(record.name).log(record.levelno, "library says", text=text, exc_info=record.exc_info)
