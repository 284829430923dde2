"""Whatever happens to the log meanwhile, a client that comes back sees the log, or is told exactly what is missing."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from artery.bus.base import Entry
from artery.errors import PositionLost
from artery.gateway.past import Past
from artery.gateway.stitch import Hole
from artery.gateway.trips import Start, TradeTrip
from artery.lake.reads import cuts
from artery.lake.tables import TRADES
from artery.model import codec
from artery.model.events import Trade
from artery.model.series import Position
from tests.gateway.test_history import lake_trade

T0 = 1_730_000_000_000
MARKET = ("sim", "BTC")
Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(("trades", "leader", "trim", "commit", "cap", "repair")), st.integers(1, 6)), max_size=30
)


class Log:
    """A log and its lake, small and in memory, which change at every read as they were told to.

    `trim` never passes what the lake has; `cap` does, so that something is lost; `repair` gives that to the lake.
    """

    def __init__(self, before: list[Step], meanwhile: list[Step], skews: list[int]) -> None:
        self.trades: list[Trade] = []
        self.lost: set[Position] = set()
        self.trimmed = self.reached = 0
        self._epoch, self._seq, self._skews = 1, 0, skews
        self._meanwhile = meanwhile
        for step in before:
            self._do(*step)

    def _do(self, what: str, count: int) -> None:
        if what == "trades":
            for _ in range(count):
                self._seq += 1
                self.trades.append(self._trade())
        elif what == "leader":
            self._epoch, self._seq = self._epoch + 1, 0
        elif what == "trim":
            self.trimmed = max(self.trimmed, min(self.reached, self.trimmed + count))
        elif what == "commit":
            self.reached = min(len(self.trades), max(self.reached + count, self.trimmed))
        elif what == "cap":
            end = min(len(self.trades), self.trimmed + count)
            self.lost |= {trade.position for trade in self.trades[max(self.reached, self.trimmed) : end]}
            self.trimmed = max(self.trimmed, end)
        else:
            self.lost -= set(sorted(self.lost)[:count])
            self.reached = max(self.reached, self.trimmed)

    def _trade(self) -> Trade:
        # Each leader has a clock of its own: it may be behind that of the one before.
        at = T0 + len(self.trades) * 1_000 + self._skews[self._epoch % len(self._skews)]
        return Trade(provider="sim", coin="BTC", event_ts=at, epoch=self._epoch, seq=self._seq, ts=at,
                     tid=str(len(self.trades)), px=1, sz=1, side="B")  # type: ignore[arg-type]  # fmt: skip

    def turn(self) -> None:
        if self._meanwhile:
            self._do(*self._meanwhile.pop(0))

    # As the bus

    async def head(self, stream: str) -> str:
        return str(len(self.trades))

    async def find(self, stream: str, ms: int) -> str:
        self.turn()
        return str(max(0, min(len(self.trades), (ms - T0) // 1_000)))

    async def read(self, stream: str, after: str, limit: int) -> list[Entry]:
        self.turn()
        if int(after) < self.trimmed:
            raise PositionLost("trimmed", first=str(self.trimmed))
        found = self.trades[int(after) : int(after) + limit]
        return [Entry(str(int(after) + n), codec.encode(trade)) for n, trade in enumerate(found, 1)]

    # As the lake, which is read in a thread

    def positions(self) -> dict[str, str]:
        return {"trade": str(self.reached)}

    def snapshot(self, name: str) -> int:
        return self.reached * 1_000 + len(self.lost)

    def arrival_cuts(self, ticker: str, start_ms: int, rows_max: int) -> list[int]:
        self.turn()
        held = [trade for trade in self._kept() if trade.event_ts >= start_ms]
        return cuts([(trade.event_ts, trade.event_ts, 1) for trade in held], start_ms, rows_max)

    def arrivals(self, ticker: str, start_ms: int, end_ms: int) -> pa.Table:
        self.turn()
        found = sorted((t for t in self._kept() if start_ms <= t.event_ts < end_ms), key=lambda t: t.position)
        return pa.Table.from_pylist([lake_trade(trade) for trade in found], schema=TRADES.schema)

    def _kept(self) -> list[Trade]:
        return [trade for trade in self.trades[: self.reached] if trade.position not in self.lost]


Seen = list[Position | Hole]


def trip_of(log: Log, start: Start) -> TradeTrip:
    return TradeTrip(Past(log, log, page=3, rows=4), MARKET, start)  # type: ignore[arg-type]


async def past_of(trip: TradeTrip) -> AsyncIterator[Hole | Position]:
    async for found in trip.run():
        for item in [found] if isinstance(found, Hole) else map(found.stretch.place, range(found.low, found.high)):
            yield item


async def cut_off(log: Log, start: Start, events: int) -> Seen:
    """What a client sees of the past until its connection is cut behind so many events."""
    seen: Seen = []
    async for item in past_of(trip_of(log, start)):
        if events == 0:
            break
        seen.append(item)
        events -= isinstance(item, Position)
    return seen


async def travel(log: Log, start: Start) -> Seen:
    """What a client sees: the past, then live from where the head was."""
    trip = trip_of(log, start)
    head = len(log.trades)
    seen: Seen = [item async for item in past_of(trip)]
    log._do("trades", 3)
    for trade in log.trades[head:]:
        seen += [item if isinstance(item, Hole) else trade.position for item in trip.stitch.take(trade.position, None)]  # type: ignore[arg-type]
    return seen


def check(log: Log, seen: Seen, wanted: list[Position], after: Position | None) -> None:
    """Of what lies before the first event only a client that was there before can know."""
    events = [item for item in seen if isinstance(item, Position)]
    assert events == sorted(set(events)), "order, and no repeat"
    assert set(events) <= set(wanted), "nothing but the log"
    assert events[-1] == wanted[-1], "it ends where the log ends"
    last, hole = after, None
    for item in seen:
        if isinstance(item, Hole):
            hole = item
            continue
        missing = [place for place in wanted if (last is None or place > last) and place < item]
        if last is not None:
            assert not missing or hole is not None, "an undetected gap"
        if hole is not None and last is not None:
            assert missing or item.seq == 1, "a gap where nothing is missing and no leader changed"
            assert hole.after == last
            assert (hole.to.epoch, hole.to.seq) == (item.epoch, item.seq - 1)
        last, hole = item, None


@settings(max_examples=100, deadline=None)
@given(STEPS, STEPS, st.lists(st.sampled_from((0, -5_000, 4_000)), min_size=1, max_size=4), st.data())
def test_a_client_sees_the_log_or_is_told_what_is_missing(
    before: list[Step], meanwhile: list[Step], skews: list[int], data: st.DataObject
) -> None:
    log = Log([("trades", 3), *before, ("trades", 1)], meanwhile, skews)
    at = data.draw(st.integers(0, len(log.trades) - 1))
    near = data.draw(st.booleans())
    place = log.trades[at].position
    seen = asyncio.run(travel(log, Start(place, place.event_ts, near)))
    check(log, seen, [trade.position for trade in log.trades[at + 1 :]], place)


@settings(max_examples=50, deadline=None)
@given(STEPS, STEPS, st.lists(st.integers(0, 5), min_size=1, max_size=4), st.booleans())
def test_a_client_that_is_cut_again_and_again_sees_the_same(
    before: list[Step], meanwhile: list[Step], cuts_after: list[int], near: bool
) -> None:
    log = Log([("trades", 3), *before, ("trades", 1)], meanwhile, [0, 4_000])
    place = first = log.trades[0].position
    seen: Seen = []
    for events in cuts_after:
        seen += asyncio.run(cut_off(log, Start(place, place.event_ts, near), events))
        place = next((item for item in reversed(seen) if isinstance(item, Position)), first)
    seen += asyncio.run(travel(log, Start(place, place.event_ts, near)))
    check(log, seen, [trade.position for trade in log.trades[1:]], first)


@settings(max_examples=50, deadline=None)
@given(STEPS, STEPS, st.booleans())
def test_from_a_time_a_client_sees_the_log_from_there(before: list[Step], meanwhile: list[Step], near: bool) -> None:
    log = Log([("trades", 3), *before, ("trades", 1)], meanwhile, [0])
    seen = asyncio.run(travel(log, Start(None, T0 + 2_000, near)))
    check(log, seen, [trade.position for trade in log.trades[2:]], None)


@settings(max_examples=50, deadline=None)
@given(STEPS, STEPS, st.lists(st.sampled_from((0, -5_000, 4_000)), min_size=1, max_size=4), st.integers(0, 2))
def test_where_nothing_was_lost_nothing_is_said_to_be(
    before: list[Step], meanwhile: list[Step], skews: list[int], at: int
) -> None:
    """Leaders change, the bus is trimmed and the lake commits: the client sees every event and no loss."""
    kind: Callable[[list[Step]], list[Step]] = lambda steps: [step for step in steps if step[0] != "cap"]  # noqa: E731
    log = Log([("trades", 3), *kind(before), ("trades", 1)], kind(meanwhile), skews)
    place = log.trades[at].position
    seen = asyncio.run(travel(log, Start(place, place.event_ts, False)))
    assert [item for item in seen if isinstance(item, Position)] == [trade.position for trade in log.trades[at + 1 :]]
    assert all(item.turn for item in seen if isinstance(item, Hole))


@settings(max_examples=50, deadline=None)
@given(STEPS, STEPS, st.lists(st.sampled_from((0, -5_000, 4_000)), min_size=1, max_size=4), st.integers(0, 9))
def test_only_a_place_that_the_log_never_had_is_ahead_of_it(
    before: list[Step], meanwhile: list[Step], skews: list[int], back: int
) -> None:
    kind: Callable[[list[Step]], list[Step]] = lambda steps: [step for step in steps if step[0] != "cap"]  # noqa: E731
    steps = [("trades", 3), *kind(before), ("trades", 1)]
    place = Log(steps, [], skews).trades[-1 - back % 3].position
    for foreign, near in ((False, False), (False, True), (True, False), (True, True)):
        log = Log(steps, kind(meanwhile), skews)
        start = Position(place.epoch + 99, place.seq, place.event_ts) if foreign else place
        trip = trip_of(log, Start(start, start.event_ts, near))
        asyncio.run(drained(trip))
        assert trip.stitch.is_ahead is foreign


async def drained(trip: TradeTrip) -> None:
    async for _ in trip.run():
        pass


def test_the_model_speaks_of_times_as_the_lake_does() -> None:
    log = Log([("trades", 2), ("commit", 2)], [], [0])
    rows: list[dict[str, Any]] = log.arrivals("SIM:BTC", 0, T0 * 2).to_pylist()
    assert rows[1]["received"] == datetime.fromtimestamp(T0 / 1_000 + 1, UTC)
