"""Both queries on a real bus and the real lake without their triggers, and what candles they must give."""

import asyncio
import random
from collections.abc import Sequence
from decimal import Decimal
from functools import partial

from artery.bus.base import START
from artery.bus.reader import open_reader
from artery.lake.reads import Lake
from artery.model import codec, fold
from artery.model.decimals import canonical
from artery.model.events import Candle, Clock, Trade
from artery.model.periods import DERIVED, Period
from artery.pipeline import bars, saved
from artery.pipeline.bars import record_batch
from artery.pipeline.candles import CandleBook
from artery.pipeline.decode import Raw
from artery.pipeline.fast import FastQuery
from artery.pipeline.folding import trade_bars
from artery.pipeline.offsets import FAST, span
from artery.pipeline.parts import Key
from artery.pipeline.rebuilt import Rebuilt, rebuild
from artery.pipeline.source import READER
from artery.pipeline.storage import StoreQuery
from artery.store.base import Store
from artery.store.open import open_store
from tests.pipeline.conftest import House, Log
from tests.pipeline.test_storage import ZERO, Stored

DAY = 86_400_000
BASE = 1_730_073_600_000 + DAY // 2
Values = tuple[str, ...]


def came(seq: int, at_ms: int, late_ms: int, px: Decimal, coin: str) -> Trade:
    """A trade that came at this time, so much late."""
    return Trade(
        provider="sim", event_ts=at_ms, epoch=1, seq=seq, coin=coin, ts=at_ms - late_ms, tid=str(seq), px=px,
        sz=px / 7 if (px / 7).as_tuple().exponent >= -18 else Decimal("0.1"), side="B",
    )  # fmt: skip


def values(bar: fold.Bar | Candle) -> Values:
    return (*(canonical(getattr(bar, name)) for name in "ohlcv"), str(bar.n))


def wanted(trades: Sequence[Trade], periods: Sequence[Period] = DERIVED) -> dict[Key, Values]:
    """The pure fold of every window."""
    return {
        (provider, coin, period.seconds, start): values(bar)
        for period in periods
        for (provider, coin, start), bar in fold.bars(trades, period).items()
    }


def newest(shown: Sequence[Candle]) -> dict[Key, Candle]:
    """What a reader of the bus knows at the end; on the way, no closed one opens, or changes without a higher rev."""
    found: dict[Key, Candle] = {}
    for candle in shown:
        old = found.get(candle.key)
        assert old is None or not old.closed or (candle.closed and candle.rev >= old.rev), "a closed candle went back"
        assert old is None or not old.closed or candle.rev > old.rev or values(candle) == values(old)
        found[candle.key] = candle
    return found


def scenario(seed: int, coin: str) -> list[Trade]:
    """A morning of one market, with trades that come late, some by most of a day, some twice, some after their
    followers."""
    dice = random.Random(seed)
    log: list[Trade] = []
    for seq in range(1, 121):
        late_ms = dice.choice([0, 0, 0, 30_000, 90_000, 4_000_000, 30_000_000, DAY])
        px = Decimal(dice.randrange(1, 10**9)) / 10**4
        log.append(came(seq, BASE + seq * 97_000, late_ms, px, coin))
        if dice.random() < 0.1:
            log.append(dice.choice(log))
        if dice.random() < 0.1:
            log.insert(max(0, len(log) - dice.randrange(40)), log.pop())
    return log


class Whole:
    """Both queries as they are, on a real bus and the real lake, batch by batch; they can die and begin again. With
    `files`, trades are stored as those of a large batch are."""

    def __init__(
        self, spark: House, log: Log, number: int, *, files: bool = False, periods: Sequence[Period] = DERIVED
    ) -> None:
        self.spark, self.log, self.number, self.files, self.periods = spark, log, number, files, periods
        self.store = log.do(self._opened)
        self.epoch, self.now_ms = 0, BASE
        self.begin()

    def begin(self) -> None:
        """One more life, from what was saved and committed."""
        self.epoch += 1
        book, reader = CandleBook(self.epoch, periods=self.periods, slow_ms=0), open_reader(self.log.url)
        parts_of = (book, self.store, self.log.bus, reader, self.number)
        self.at, head = self.log.do(lambda: saved.restore(*parts_of, anew=self._anew))
        parts = (book, self.epoch, self.log.bus, self.store, self.log.calls, head, self.number)
        self.fast = FastQuery(*parts, start=dict(self.at), periods=self.periods, again=self._again)
        positions = ZERO | Lake(self.spark.settings.folder, self.number).positions()
        self.storage = Stored(self.spark, self.log, positions, files=self.files)
        parts_too = (positions, self.log.bus, self.log.calls, self.number)
        hears = self.fast.announce
        self.storage.query = StoreQuery(*parts_too, periods=self.periods, announce=hears, backlog=self.fast)

    def take(self, trades: Sequence[Trade], clock_ms: int) -> None:
        """What a feed appends."""
        if trades:
            self.log.append("trade", *[codec.encode(one) for one in trades])
        self.log.append("feed", codec.encode(Clock(provider="sim", epoch=1, ts=clock_ms, up_to="0")))

    def run(self) -> None:
        """A batch of each query, up to the heads."""
        self.fold()
        self.storage.run()

    def fold(self) -> None:
        """A batch of the candle query alone."""
        reader = READER(self.log.url, "md_stream")
        end = {stream: reader.head(stream) for stream in FAST}
        parts = {stream: span(reader, stream, self.at[stream], end[stream]) for stream in FAST}
        made = record_batch(bars.feed_rows(parts["feed"]), end, trade_bars(parts["trade"], self.periods))
        frame = self.spark.session.createDataFrame(bars.pa.Table.from_batches([made]))
        self.fast.take(frame.toArrow(), self.storage.batch, 0)
        self.fast.save()
        self.at = end

    def end(self, clock_ms: int) -> None:
        """Everything closes, and the lake has what the bus has."""
        self.take([], clock_ms)
        self.run()
        self.storage.run()
        self.log.do(self.store.close)

    def shown(self) -> list[Candle]:
        return [one for one in map(codec.decode, self.log.fields("candle")) if isinstance(one, Candle)]

    def stored(self, coin: str) -> dict[Key, Values]:
        """The market's rows in the lake, of each window one."""
        found = [row for row in self.spark.lake.scan("ohlc").to_pylist() if row["ticker"] == f"SIM:{coin}"]
        rows = {
            ("sim", coin, row["period_s"], round(row["start"].timestamp() * 1_000)): (
                *(canonical(row[name]) for name in ("open", "high", "low", "close", "volume")),
                str(row["trades"]),
            )
            for row in found
        }
        assert len(rows) == len(found)
        return rows

    async def _anew(self) -> Rebuilt | None:
        position = Lake(self.spark.settings.folder, self.number).positions()["trade"]
        made = partial(rebuild, self.spark.session, self.periods, position, self.now_ms)
        return await asyncio.to_thread(made) if position != START else None

    def _again(self, after: str, end: str) -> list[Raw]:
        return list(span(READER(self.log.url, "md_stream"), "trade", after, end))

    async def _opened(self) -> Store:
        return open_store(f"{self.log.url.removesuffix('bus.db')}store.db")
