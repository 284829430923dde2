"""Which holes a venue's own candles have filled: said in `gaps`, with the pages that do it. Pure."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from artery.errors import BadInput
from artery.model.codec import LATEST_MS
from artery.model.tickers import parse_ticker
from artery.wire.artery_pb2 import OHLCBatch

PREFIX = "own:repair:"
FROM = "history"
"""Where the candles come from, as `source` in `ohlc` says it."""
KEPT_MAX = 1_000
Row = dict[str, Any]


class Repair(msgspec.Struct, frozen=True, array_like=True):
    """Candles of one market and period, of all that was traded in [start_ms, end_ms), and when they were fetched."""

    provider: str
    coin: str
    period_s: int
    start_ms: int
    end_ms: int
    at_ms: int

    def covers(self, gap: Row) -> bool:
        """Whether it holds all of the gap that concerns its market."""
        is_of = self.provider == gap["provider"] and gap["market"] in ("", self.coin)
        return is_of and self.start_ms <= _ms(gap["from"]) and _ms(gap["to"]) <= self.end_ms


def repair_of(page: OHLCBatch, event_ts: int) -> Repair | None:
    """What ends with this page, if it is the last one of a repair; its id says what was asked for."""
    if not page.last or not page.request_id.startswith(PREFIX):
        return None
    try:
        start_ms, end_ms = map(int, page.request_id.rsplit(":", 2)[1:])
        found = Repair(*parse_ticker(page.ticker), page.period_s, start_ms, end_ms, event_ts)
    except (BadInput, ValueError):  # anyone may write to the log
        return None
    return found if 0 <= start_ms < end_ms <= LATEST_MS and 0 <= event_ts <= LATEST_MS else None


def repaired(gaps: Iterable[Row], repairs: Sequence[Repair]) -> list[Row]:
    """The gaps that these repairs fill, as they are to be. One of all markets is filled market by market: its time is
    that of the newest repair."""
    found: list[Row] = []
    for gap in gaps:
        at_ms = max((one.at_ms for one in repairs if one.covers(gap)), default=0)
        if at_ms > _ms(gap["repaired_at"]):
            found.append(gap | {"repaired_at": datetime.fromtimestamp(at_ms / 1_000, UTC), "repaired_from": FROM})
    return found


class Repairs:
    """The newest repairs, because the gap that one fills may come to the lake after it."""

    def __init__(self) -> None:
        self._known: list[Repair] = []

    def take(self, repairs: Iterable[Repair], period_s: int) -> None:
        """Repairs of the shortest candles count: longer ones are over long after the gap."""
        self._known = [*self._known, *(one for one in repairs if one.period_s == period_s)][-KEPT_MAX:]

    def reach_ms(self) -> tuple[int, int] | None:
        """The time that all of them lie in; None if there are none."""
        known = self._known
        return (min(one.start_ms for one in known), max(one.end_ms for one in known)) if known else None

    def repaired(self, gaps: Iterable[Row]) -> list[Row]:
        return repaired(gaps, self._known)


def _ms(moment: datetime | None) -> int:
    return round(moment.timestamp() * 1_000) if moment else 0
