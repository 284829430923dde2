"""Whatever happens to log and lake meanwhile, a client that comes back holds the newest version of every candle."""

import asyncio
import json
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from artery.bus.base import Entry
from artery.errors import PositionLost
from artery.gateway.past import Past
from artery.gateway.stitch import Hole
from artery.gateway.trips import CandleTrip, Start
from artery.lake.reads import cuts
from artery.lake.tables import OHLC
from artery.model import codec
from artery.model.events import Candle
from artery.model.periods import Period
from artery.model.series import Position
from tests.gateway.test_history import lake_candle
from tests.gateway.wire import frames_of

PERIOD = Period(300)
T0 = 1_730_000_100_000
APART_MS = 20_000
MARKET = ("sim", "BTC")
Step = tuple[str, int]
Key = int
Version = tuple[bool, int, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(("open", "next", "correct", "leader", "trim", "commit", "cap")), st.integers(1, 6)),
    max_size=30,
)
SKEWS = st.lists(st.sampled_from((0, -15_000, 12_000)), min_size=1, max_size=4)


class Log:
    """Candles on a log and in its lake, which change at every read as they were told to.

    `trim` never passes what the lake has; `cap` does, and what it takes is lost: the trimmer's own mark tells of that.
    """

    def __init__(self, before: list[Step], meanwhile: list[Step], skews: list[int]) -> None:
        self.candles: list[Candle] = []
        self.lost: set[Position] = set()
        self.trimmed = self.reached = 0
        self._epoch, self._seq, self._skews = 1, 0, skews
        self._revs: dict[int, int] = {}
        self._start, self._now_ms = T0, T0
        self._meanwhile = meanwhile
        for step in before:
            self.do(*step)

    def do(self, what: str, count: int) -> None:
        if what == "open":
            self._write(self._start, closed=False)
        elif what == "next":
            self._write(self._start, closed=True)
            self._start = PERIOD.start(max(self._start + PERIOD.ms, self._now_ms))
        elif what == "correct" and self._revs:
            self._write(list(self._revs)[-1 - count % len(self._revs)], closed=True)
        elif what == "leader":
            self._epoch, self._seq = self._epoch + 1, 0
        elif what == "trim":
            self.trimmed = max(self.trimmed, min(self.reached, self.trimmed + count))
        elif what == "commit":
            self.reached = min(len(self.candles), max(self.reached + count, self.trimmed))
        elif what == "cap":
            end = min(len(self.candles), self.trimmed + count)
            self.lost |= {candle.position for candle in self.candles[max(self.reached, self.trimmed) : end]}
            self.trimmed = max(self.trimmed, end)

    def _write(self, start: int, *, closed: bool) -> None:
        if closed:
            self._revs[start] = self._revs.get(start, -1) + 1
        self._seq += 1
        self._now_ms = max(self._now_ms + APART_MS, start + PERIOD.ms if closed else start)
        # Each writer has a clock of its own: it may be behind that of the one before.
        at_ms = self._now_ms + self._skews[self._epoch % len(self._skews)]
        one = Decimal(1)
        self.candles.append(
            Candle(provider="sim", coin="BTC", period=PERIOD, start_ts=start, o=one, h=one, l=one, c=one, v=one, n=1,
                   closed=closed, rev=self._revs.get(start, 0), event_ts=at_ms, epoch=self._epoch, seq=self._seq)
        )  # fmt: skip

    def turn(self) -> None:
        if self._meanwhile:
            self.do(*self._meanwhile.pop(0))

    # As the bus

    async def head(self, stream: str) -> str:
        return str(len(self.candles))

    async def find(self, stream: str, ms: int) -> str:
        self.turn()
        return str(max((n for n, candle in enumerate(self.candles, 1) if candle.event_ts < ms), default=0))

    async def read(self, stream: str, after: str, limit: int) -> list[Entry]:
        self.turn()
        if int(after) < self.trimmed:
            raise PositionLost("trimmed", first=str(self.trimmed))
        found = self.candles[int(after) : int(after) + limit]
        return [Entry(str(int(after) + n), codec.encode(candle)) for n, candle in enumerate(found, 1)]

    # As the lake, which is read in a thread

    def positions(self) -> dict[str, str]:
        return {"candle": str(self.reached)}

    def snapshot(self, name: str) -> int:
        return self.reached * 1_000 + len(self.lost)

    def revision_cuts(self, ticker: str, period_s: int, updated_ms: int, start_ms: int, rows_max: int) -> list[int]:
        self.turn()
        held = [candle.start_ts for candle in self._kept(updated_ms) if candle.start_ts >= start_ms]
        return cuts([(start, start, 1) for start in held], start_ms, rows_max)

    def revisions(self, ticker: str, period_s: int, updated_ms: int, start_ms: int, end_ms: int) -> pa.Table:
        self.turn()
        found = [candle for candle in self._kept(updated_ms) if start_ms <= candle.start_ts < end_ms]
        return pa.Table.from_pylist([lake_candle(candle) for candle in found], schema=OHLC.schema)

    def _kept(self, updated_ms: int) -> list[Candle]:
        there = [candle for candle in self.candles[: self.reached] if candle.position not in self.lost]
        newest = newest_of(there)
        return [candle for _, candle in sorted(newest.items()) if candle.event_ts >= updated_ms]


def newest_of(candles: list[Candle]) -> dict[Key, Candle]:
    """The newest version of each candle, as a client keeps them."""
    found: dict[Key, Candle] = {}
    for candle in candles:
        if candle.start_ts not in found or candle.version >= found[candle.start_ts].version:
            found[candle.start_ts] = candle
    return found


def seen_in(wire: bytes) -> list[tuple[Key, Version]]:
    """The candles of frames on the wire: (start, version)."""
    found = []
    for _, payload in frames_of(wire):
        data = json.loads(payload)["data"]
        found.append((int(data["startTs"]), (data["isClosed"] == "true", int(data["rev"]), int(data["eventTs"]))))
    return found


async def travel(log: Log, start: Start) -> tuple[list[tuple[Key, Version]], bool]:
    """The versions that a client is sent, the past and then live, and whether it was told of a hole."""
    trip = CandleTrip(Past(log, log, page=3, rows=4), MARKET, PERIOD, start)  # type: ignore[arg-type]
    head = len(log.candles)
    seen: list[tuple[Key, Version]] = []
    told = False
    async for found in trip.run():
        if isinstance(found, Hole):
            told = True
        else:
            seen += seen_in(found.stretch.bytes_of(found.low, found.high))
    past = [key for key, _ in seen]
    assert len(past) <= 2 * len(set(past)), "each once, or twice if the lake has taken up a newer one meanwhile"
    log.turn()
    live = [candle for candle in log.candles[head:] if trip.last is None or candle.position > trip.last]
    return [*seen, *((candle.start_ts, candle.version) for candle in live)], told


def held(before: list[Candle], seen: list[tuple[Key, Version]]) -> dict[Key, Version]:
    """What a client holds that had these and was sent those."""
    found = {start: candle.version for start, candle in newest_of(before).items()}
    for start, version in seen:
        found[start] = max(found.get(start, version), version)
    return found


def check(log: Log, found: dict[Key, Version], wanted: dict[Key, Candle]) -> None:
    """The client holds the newest of every candle but those of which something was lost."""
    lost = {candle.start_ts for candle in log.candles if candle.position in log.lost}
    there = {start: candle.version for start, candle in wanted.items() if start not in lost}
    assert {start: version for start, version in found.items() if start not in lost} == there


def log_of(before: list[Step], meanwhile: list[Step], skews: list[int], *, capped: bool) -> Log:
    kind: Callable[[list[Step]], list[Step]] = lambda steps: [s for s in steps if capped or s[0] != "cap"]  # noqa: E731
    return Log([("open", 1), ("next", 1), ("open", 1), *kind(before), ("open", 1)], kind(meanwhile), skews)


@settings(max_examples=150, deadline=None)
@given(STEPS, STEPS, SKEWS, st.booleans(), st.booleans(), st.data())
def test_behind_a_place_a_client_holds_the_newest_of_every_candle_or_is_told(
    before: list[Step], meanwhile: list[Step], skews: list[int], capped: bool, near: bool, data: st.DataObject
) -> None:
    log = log_of(before, meanwhile, skews, capped=capped)
    at = data.draw(st.integers(0, len(log.candles) - 1))
    place = log.candles[at].position
    seen, told = asyncio.run(travel(log, Start(place, place.event_ts, near)))
    check(log, held(log.candles[: at + 1], seen), newest_of(log.candles))
    assert capped or not told, "nothing was lost"
    assert {version for _, version in seen} <= {candle.version for candle in log.candles}, "nothing but the log"


@settings(max_examples=150, deadline=None)
@given(STEPS, STEPS, st.booleans(), st.booleans(), st.data())
def test_from_a_time_a_client_holds_the_newest_of_every_candle_that_ends_after_it(
    before: list[Step], meanwhile: list[Step], capped: bool, near: bool, data: st.DataObject
) -> None:
    log = log_of(before, meanwhile, [0], capped=capped)
    ms = data.draw(st.integers(T0 // 1_000, log.candles[-1].event_ts // 1_000)) * 1_000
    seen, told = asyncio.run(travel(log, Start(None, ms, near)))
    wanted = {start: candle for start, candle in newest_of(log.candles).items() if candle.end_ts > ms}
    check(log, {start: version for start, version in held([], seen).items() if start in wanted}, wanted)
    assert capped or not told, "nothing was lost"


def test_a_correction_by_a_writer_whose_clock_is_behind_is_not_left_out() -> None:
    log = log_of([("leader", 1), ("correct", 1), ("commit", 4)], [], [0, 12_000, -15_000], capped=False)
    place = log.candles[2].position
    assert log.candles[3].event_ts < place.event_ts
    seen, _ = asyncio.run(travel(log, Start(place, place.event_ts, is_near=False)))
    check(log, held(log.candles[:3], seen), newest_of(log.candles))


def test_an_open_candle_that_was_written_long_before_a_time_comes_too() -> None:
    log = log_of([("correct", 1)] * 12, [], [0], capped=False)
    log.candles.pop()  # so that the market has been still
    ms = log.candles[-1].event_ts
    seen, _ = asyncio.run(travel(log, Start(None, ms, is_near=True)))
    wanted = {start: candle for start, candle in newest_of(log.candles).items() if candle.end_ts > ms}
    assert wanted
    check(log, held([], seen), wanted)
