"""Logs of one line and metrics, set up in one place."""

import contextlib
import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO, cast

import structlog
from prometheus_client import Counter, Gauge, Histogram

_SECRET = re.compile(
    r"(art_live_[A-Za-z0-9_-]+\.|bearer[. ]|token=|start=)[^\s&\"'@]+"
    r"|(://[^/\s:@]*:)\S+(?=@)",  # a port has no @ behind it; a password may have anything in it
    re.IGNORECASE,
)


def masked(text: str) -> str:
    """`text` with everything that looks like a secret left out."""
    return _SECRET.sub(r"\1\2***", text)


def _mask(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = masked(value)
    return event


def _one_line(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """An exception becomes its type and message: a log line is one line."""
    error = event.pop("exc_info", None)
    if error is True:
        error = sys.exc_info()[1]
    if isinstance(error, BaseException):
        event["error"] = f"{type(error).__name__}: {error}".replace("\n", " ")
    return event


class _Console:
    """Standard error as it is at that moment; one that is closed costs the line, never the work that logs."""

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()


def set_up_logs(level: str = "INFO", *, as_json: bool = False) -> None:
    """Send every log line to standard error, with secrets masked."""
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
            _one_line,
            _mask,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _Console())),
        cache_logger_on_first_use=False,
    )


def logger(room: str) -> Any:
    """A logger that says which room speaks."""
    return structlog.get_logger(room=room)


def counter(name: str, doc: str, *labels: str) -> Counter:
    """A number that only grows; `artery_` is put in front of its name."""
    return Counter(f"artery_{name}", doc, labels)


def gauge(name: str, doc: str, *labels: str) -> Gauge:
    """A number that goes up and down."""
    return Gauge(f"artery_{name}", doc, labels)


def histogram(name: str, doc: str, *labels: str, buckets: tuple[float, ...]) -> Histogram:
    """A distribution, with the bounds of its buckets."""
    return Histogram(f"artery_{name}", doc, labels, buckets=buckets)
