"""The dead letters of a log: how an entry becomes one, and as people look at them."""

from collections.abc import Sequence

import msgspec

from artery import crash
from artery.bus.base import DEAD, Bus, Entry
from artery.bus.letters import ABOUT
from artery.telemetry import counter, logger

LETTERS_MAX = 10_000
_PAGE = 1_000
_log = logger("bus")
_buried = counter("bus_dead_letters", "entries given up", "stream", "group")


async def bury(bus: Bus, stream: str, group: str, entry: Entry, reason: str) -> None:
    """Give an entry up for its group: move it to `dead`, count it and say so."""
    crash.point("bus.refused")
    await bus.dead_letter(stream, group, entry, reason)
    crash.point("bus.buried")
    _buried.labels(stream, group).inc()
    _log.warning("gave an entry up", stream=stream, group=group, id=entry.id, error=reason)


class LetterRow(msgspec.Struct, frozen=True):
    """A dead letter: which entry was given up, by whom and why."""

    id: str
    at_ms: int
    stream: str
    entry: str
    group: str
    error: str
    tries: str
    requeued: bool
    fields: dict[str, str]


async def letter_rows(bus: Bus, limit: int, *, every: bool = False, before: str = "") -> list[LetterRow]:
    """The newest dead letters (before one of them), newest first; those requeued only if `every` one is wanted."""
    rows: list[LetterRow] = []
    wanted = min(limit, LETTERS_MAX)
    while len(rows) < wanted:
        page = await bus.read_back(DEAD, _PAGE, before)
        if not page:
            break
        rows += await _letters(bus, page, every)
        before = page[-1].id
    return rows[:wanted]


async def _letters(bus: Bus, page: Sequence[Entry], every: bool) -> list[LetterRow]:
    ids = [entry.id for entry in page]
    requeued, times = await bus.requeued(ids), await bus.when(DEAD, ids)
    return [
        _letter(entry, ms, entry.id in requeued)
        for entry, ms in zip(page, times, strict=True)
        if every or entry.id not in requeued
    ]


def _letter(entry: Entry, ms: int, requeued: bool) -> LetterRow:
    stream, position, group, error, tries = (entry.fields.get(name, "") for name in ABOUT)
    held = {name: value for name, value in entry.fields.items() if name not in ABOUT}
    return LetterRow(entry.id, ms, stream, position, group, error, tries, requeued, held)
