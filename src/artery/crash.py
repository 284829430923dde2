"""Points at which a process kills itself, so that tests can see what survives it; ART_CRASH_POINT arms one."""

import os
import signal
from collections.abc import Callable

from artery.errors import BadSetting

POINTS = {
    "sqlite.commit": "a transaction is written, and not committed",
    "bus.handled": "entries are handled, and not acked",
    "bus.refused": "an entry is given up, and not with the dead letters",
    "bus.buried": "an entry is with the dead letters, and nobody has heard so",
    "ingest.fenced": "older leaders are fenced, and the hole that they left is not marked",
    "ingest.appended": "events are on the bus, and not published",
    "pipeline.appended": "candles are on the bus, and the book that made them is not saved",
    "pipeline.saved": "the book is saved, and Spark does not know yet that its batch is done",
    "pipeline.stored": "a table of a batch is in the lake, and the next is not",
    "pipeline.corrected": "a candle is corrected in the lake, and neither on the bus nor its late trades in the lake",
    "pipeline.finishing": "a request's candles are in the lake, and its outcome is put down and not committed",
    "pipeline.outcomes": "outcomes of requests are in the lake, and not announced",
    "pipeline.symbols": "markets' metadata is in the lake, and nobody is told",
    "pipeline.committed": "a batch is in the lake, and neither acked nor in Spark's checkpoint",
}

_armed = ""
_left = 0


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


_act: Callable[[], None] = _die


def arm(where: str, act: Callable[[], None] = _die) -> None:
    """Die at this point, or with `name:3` the third time that it is reached; the empty text disarms. `act` stands for
    death where a process is shared by others."""
    global _armed, _left, _act
    name, _, times = where.partition(":")
    if name and (name not in POINTS or not (times or "1").isdecimal()):
        raise BadSetting(f"ART_CRASH_POINT takes {', '.join(POINTS)} (and :3 for the third time), not {where!r:.40}")
    _armed, _left, _act = name, int(times or 1), act


def point(name: str) -> None:
    """Die here, as by SIGKILL, if this point is armed."""
    if name == _armed:
        _reach()


def _reach() -> None:
    global _left
    _left -= 1
    if _left <= 0:
        _act()
