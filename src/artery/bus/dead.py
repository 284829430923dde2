"""The dead letters of a log, as people look at them."""

from collections.abc import Sequence

import msgspec

from artery.bus.base import DEAD, Bus, Entry
from artery.bus.letters import ABOUT

LETTERS_MAX = 10_000
_PAGE = 1_000


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
