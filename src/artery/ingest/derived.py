"""What the pipeline has made of the feed's own trades and the lake holds, so that nobody asks the venue for it."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from artery.bus.base import START, Bus
from artery.bus.log_id import log_id
from artery.errors import ArteryError, BadEvent
from artery.ingest.spans import Stretches
from artery.model import codec
from artery.model.events import Mark
from artery.model.periods import Period
from artery.model.tickers import ticker
from artery.settings import Settings
from artery.telemetry import logger

if TYPE_CHECKING:
    from artery.lake.reads import Lake

PAGE = 1_000
TAIL_MAX = 20_000
"""So many entries of the feed may not be in the lake yet; where there are more, nothing is taken for held."""
HOLES_MAX = 50_000

_log = logger("ingest")


class Derived:
    """Looks into the lake, with the marks that it does not have yet."""

    def __init__(self, settings: Settings, bus: Bus) -> None:
        self._settings = settings
        self._bus = bus
        self._lake: Lake | None = None

    async def held(self, provider: str, coin: str, period: Period, start_ms: int, end_ms: int) -> Stretches:
        """The windows of closed candles that no MARK touches; none where that cannot be told."""
        try:
            lake = await self._opened()
            name = ticker(provider, coin)
            starts = await asyncio.to_thread(lake.live_starts, name, period.seconds, start_ms, end_ms)
            if not len(starts):
                return []
            holes = await self._holes(lake, provider, coin, start_ms)
            return [] if holes is None else await asyncio.to_thread(untouched, starts, period.ms, holes)
        except ArteryError as error:
            _log.warning("what the lake holds cannot be told, so all of it is fetched", reason=str(error))
            return []

    async def _opened(self) -> "Lake":
        from artery.lake.open import open_lake  # late, because of its driver

        if self._lake is None:
            self._lake = open_lake(self._settings)
        self._lake.log = await log_id(self._bus)
        return self._lake

    async def _holes(self, lake: "Lake", provider: str, coin: str, since_ms: int) -> Stretches | None:
        """Every hole that was said until now and ends since then, first and last ms; None if that is not known.

        What the feed has said up to the lake's place is in its table; what came later is read from the log.
        """
        import pyarrow as pa

        reached = (await asyncio.to_thread(lake.positions))["feed"]
        if reached == START:
            return None  # its candles are of another log, of which it may not have every mark
        table = await asyncio.to_thread(lake.gaps, provider, since_ms - 1, HOLES_MAX)
        if table.num_rows >= HOLES_MAX:
            return None
        markets, *ends = (table[name] for name in ("market", "from", "to"))
        times = (np.asarray(column.cast(pa.int64())) // 1_000 for column in ends)
        rows = zip(markets.to_pylist(), *(column.tolist() for column in times), strict=True)
        found = [(from_ms, to_ms) for market, from_ms, to_ms in rows if market in ("", coin)]
        for _ in range(TAIL_MAX // PAGE):
            entries = await self._bus.read("feed", reached, PAGE)
            if not entries:
                return found
            marks = _marks(entry.fields for entry in entries)
            found += [(m.from_ms, m.to_ms) for m in marks if m.provider == provider and m.coin in ("", coin)]
            reached = entries[-1].id
        return None


def _marks(entries: Iterable[dict[str, str]]) -> Iterable[Mark]:
    for fields in entries:
        if fields.get("t") != "MARK":
            continue
        try:
            event = codec.decode(fields)
        except BadEvent:
            continue
        if isinstance(event, Mark):
            yield event


def untouched(starts: Any, length_ms: int, holes: Iterable[tuple[int, int]]) -> Stretches:
    """The windows that begin then and that no hole touches, as stretches. Pure."""
    wanted = np.unique(np.asarray(starts, np.int64))
    keep = np.ones(len(wanted), bool)
    for from_ms, to_ms in holes:
        keep[slice(*np.searchsorted(wanted, [from_ms - length_ms + 1, to_ms + 1]))] = False
    kept = wanted[keep]
    if not len(kept):
        return []
    breaks = np.flatnonzero(np.diff(kept) != length_ms)
    first, last = kept[np.r_[0, breaks + 1]], kept[np.r_[breaks, len(kept) - 1]] + length_ms
    return list(zip(first.tolist(), last.tolist(), strict=True))
