"""Holes of the feeds: the marks that the gateway has read from the bus, and for older times those that the lake has."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa

from artery.bus.losses import CAUSE as TRIMMED
from artery.errors import ArteryError
from artery.model.channels import Channel
from artery.model.events import Mark
from artery.telemetry import logger

MARKS_MAX = 2_000
TOLD_MAX = 1_000
"""So many holes are told one by one; of more, the oldest are told as one."""

_LAKE_MAX = 20_000
_CHANGES = ("failover", "restart")
_LATE_MS = 60_000
"""How much later than its hole a mark may be written by a clock that is behind."""

_log = logger("gateway")

LakeGaps = Callable[[str | None, int, int], Coroutine[Any, Any, pa.Table]]
"""The newest so many holes of a provider (or of all) that end after a time, as rows of the lake, oldest first."""


class Outage(msgspec.Struct, frozen=True):
    """A stretch of time that a feed could not vouch for, and what clients are told as its reason."""

    from_ms: int
    to_ms: int
    reason: str


class Marks:
    """The newest marks; `count` is how many there have been, so that a replay can tell those before it from those
    that come to it live."""

    def __init__(self, lake: LakeGaps, marks_max: int = MARKS_MAX) -> None:
        self._lake = lake
        self._marks_max = marks_max
        self._kept: deque[tuple[Mark, str]] = deque()
        self._epochs: dict[str, int] = {}
        self.count = 0
        self.known_ms = 0
        """Every mark that was written since is here."""

    def __iter__(self) -> Iterator[Mark]:
        return (mark for mark, _ in self._kept)

    def add(self, mark: Mark) -> None:
        before = self._epochs.get(mark.provider, mark.epoch)
        self._epochs[mark.provider] = mark.epoch
        self._kept.append((mark, _reason(mark.cause, changed=mark.epoch != before)))
        self.count += 1
        if len(self._kept) > self._marks_max:
            self.known_ms = max(self.known_ms, self._kept.popleft()[0].ts + 1)

    async def told(self, market: Channel, start_ms: int, count: int) -> list[Outage]:
        """What a client that goes back to this time has to know: the holes since then among the first `count` marks."""
        kept = list(self._kept)[: max(0, len(self._kept) - (self.count - count))]
        mine = [(mark, reason) for mark, reason in kept if _concerns(mark, market, start_ms)]
        found = [Outage(mark.from_ms, mark.to_ms, reason) for mark, reason in mine]
        if start_ms >= self.known_ms + _LATE_MS:
            return _few(found)
        heard = {(mark.coin, mark.from_ms, mark.to_ms) for mark, _ in self._kept}
        try:
            table = await self._lake(market.provider, start_ms, _LAKE_MAX)
        except ArteryError as error:
            _log.warning("the lake's gaps cannot be read for a replay", error=str(error))
            return _few([Outage(start_ms, self.known_ms, "upstream"), *found])
        # In a thread: thousands of them would hold up everybody else.
        return await asyncio.to_thread(lambda: _few([*found, *_older(table, market, start_ms, heard)]))

    async def newest(self, provider: str | None, limit: int) -> list[Mark]:
        """The newest holes, newest first; those of the lake have no epoch."""
        heard = [mark for mark in self if provider in (None, mark.provider) and mark.from_ms < mark.to_ms]
        found = heard[: -limit - 1 : -1]
        if len(found) < limit:
            names = {(mark.provider, mark.coin, mark.from_ms, mark.to_ms) for mark in heard}
            older = await asyncio.to_thread(marks_of, await self._lake(provider, 0, limit + len(names)))
            found += [m for m in reversed(older) if (m.provider, m.coin, m.from_ms, m.to_ms) not in names]
        return found[:limit]


def marks_of(table: pa.Table) -> list[Mark]:
    """Rows of the lake's gaps as the marks that they were made of."""
    names = ("provider", "market", "from", "to", "cause")
    found = zip(*(_plain(table.column(name)) for name in names), strict=True)
    return [
        Mark(provider=provider, coin=coin, epoch=0, ts=to_ms, from_ms=from_ms, to_ms=to_ms, cause=cause)
        for provider, coin, from_ms, to_ms, cause in found
        if from_ms < to_ms
    ]


def _older(table: pa.Table, market: Channel, start_ms: int, heard: set[tuple[str, int, int]]) -> list[Outage]:
    """The holes of the lake that a market's client has to know and that are not `heard` of already."""
    marks = marks_of(table)
    found: list[Outage] = []
    if len(marks) >= _LAKE_MAX:  # what lies before the oldest of them was not read
        found.append(Outage(start_ms, marks[0].from_ms, "upstream"))
    for mark in marks:
        if _concerns(mark, market, start_ms) and (mark.coin, mark.from_ms, mark.to_ms) not in heard:
            found.append(Outage(mark.from_ms, mark.to_ms, _reason(mark.cause)))
    return found


def _plain(column: Any) -> list[Any]:
    """A column's values; times in ms."""
    if pa.types.is_timestamp(column.type):
        return [us // 1_000 for us in column.cast(pa.int64()).to_pylist()]
    return list(column.to_pylist())


def _concerns(mark: Mark, market: Channel, start_ms: int) -> bool:
    mine = mark.provider == market.provider and mark.coin in ("", market.market)
    return mine and mark.from_ms < mark.to_ms and mark.to_ms > start_ms


def _reason(cause: str, *, changed: bool = False) -> str:
    return TRIMMED if cause == TRIMMED else "failover" if changed or cause in _CHANGES else "upstream"


def _few(found: Iterable[Outage]) -> list[Outage]:
    """In the order of time, and no more than are told."""
    ordered = sorted(found, key=lambda outage: (outage.from_ms, outage.to_ms))
    many = len(ordered) - TOLD_MAX
    if many <= 0:
        return ordered
    old, rest = ordered[: many + 1], ordered[many + 1 :]
    return [Outage(old[0].from_ms, max(outage.to_ms for outage in old), "upstream"), *rest]
