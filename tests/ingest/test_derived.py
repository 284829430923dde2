"""What was derived live is not asked for again, as far as the feed vouches for it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artery.ingest import derived as module
from artery.ingest.derived import Derived, untouched
from artery.ingest.fetching import chunks
from artery.lake.catalog import ensure_tables, open_catalog
from artery.lake.tables import GAPS, OHLC, TRADES
from artery.model import codec
from artery.model.events import Mark
from artery.model.periods import Period
from tests.ingest.make import T0
from tests.ingest.scripted import Stage
from tests.ingest.test_requests import ask, fetched, ingestor, wanted
from tests.lake.test_reads import append, candle, trade

MINUTE = 60_000
BEGIN = T0 - 60 * MINUTE


class House:
    """A stage beside a lake of which each minute of the last hour was derived live."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.stage = stage
        settings = stage.settings.with_(data={"dir": str(folder)})
        self.folder = settings.folder
        self.folder.mkdir(parents=True)
        ensure_tables(open_catalog(self.folder))
        self.derived = Derived(settings, stage.bus)

    async def keep(self, starts: Sequence[int], feed: str = "", **changes: object) -> None:
        """Candles, and how far in the log the lake is: as far as the feed has come."""
        append(self.folder, OHLC, [candle("SIM:BTC", start) | changes for start in starts])
        append(self.folder, TRADES, [trade(1, T0)], feed=feed or await self.say(1, 2))

    def note(self, from_ms: int, to_ms: int, market: str = "") -> None:
        ends = {"from": from_ms, "to": to_ms}
        times = {name: datetime.fromtimestamp(ms / 1_000, UTC) for name, ms in ends.items()}
        row: dict[str, object] = {"provider": "sim", "market": market, "cause": "disconnect", **times}
        append(self.folder, GAPS, [row | {"repaired_at": None, "repaired_from": None}])

    async def say(self, from_ms: int, to_ms: int, coin: str = "") -> str:
        mark = Mark(provider="sim", epoch=1, ts=to_ms, from_ms=from_ms, to_ms=to_ms, cause="disconnect", coin=coin)
        return (await self.stage.bus.append("feed", [codec.encode(mark)]))[-1]

    async def held(self) -> list[tuple[int, int]]:
        """Stretches, in minutes since the hour began."""
        found = await self.derived.held("sim", "BTC", Period(60), BEGIN, T0)
        return [((start - BEGIN) // MINUTE, (end - BEGIN) // MINUTE) for start, end in found]


HOUR = range(BEGIN, T0, MINUTE)


@pytest.fixture
def house(stage: Stage, tmp_path: Path) -> House:
    return House(stage, tmp_path / "data")


async def test_what_the_lake_has_of_the_feeds_own_trades_is_held_and_nothing_else(house: House) -> None:
    assert await house.held() == []
    await house.keep(HOUR[:20])
    await house.keep(HOUR[30:40])
    await house.keep(HOUR[20:25], closed=False)
    await house.keep(HOUR[25:30], source="history")
    assert await house.held() == [(0, 20), (30, 40)]


async def test_a_candle_that_a_mark_touches_is_not_held_wherever_the_mark_is(house: House) -> None:
    reached = await house.say(HOUR[10] + 1, HOUR[10] + 2)
    await house.keep(HOUR, feed=reached)
    assert await house.held() == [(0, 60)], "what the lake's place covers is in its table"
    house.note(HOUR[20] + 1, HOUR[21] - 1)
    house.note(HOUR[25], HOUR[26], market="ETH")
    assert await house.held() == [(0, 20), (21, 60)]
    await house.say(HOUR[40] - 1, HOUR[40])
    await house.say(HOUR[50], HOUR[51], coin="ETH")
    assert await house.held() == [(0, 20), (21, 39), (41, 60)]


async def test_nothing_is_held_where_the_marks_are_not_known(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await house.keep(HOUR)
    assert await house.held() == [(0, 60)]
    monkeypatch.setattr(module, "TAIL_MAX", 2)
    monkeypatch.setattr(module, "PAGE", 1)
    for _ in range(12):
        await house.say(1, 2)
    assert await house.held() == []


async def test_nothing_is_held_where_the_log_has_lost_what_the_feed_said(house: House) -> None:
    await house.keep(HOUR)
    for _ in range(30):
        await house.say(1, 2)
    await house.stage.bus.trim("feed", keep=1)
    assert await house.held() == []


async def test_nothing_is_held_where_the_lake_has_candles_of_another_log_alone(house: House) -> None:
    await house.keep(HOUR, feed="0")
    assert await house.held() == []


async def test_a_request_asks_the_venue_only_for_what_the_feed_did_not_bring(house: House) -> None:
    await house.keep([*HOUR[:20], *HOUR[30:]])
    stage = house.stage
    stage.venue.now_ms = T0 + MINUTE
    async with ingestor(stage, derived=house.derived):
        await ask(stage, wanted("r1", 60))
        found = await fetched(stage, "r1")
        assert stage.venue.asked == [("BTC", "1m", HOUR[20], HOUR[30])]
        await ask(stage, wanted("r2", 60))
        await fetched(stage, "r2")
    assert len(stage.venue.asked) == 1
    assert sum(len(page.rows) for page in found) == 10


STARTS = st.lists(st.integers(0, 40).map(lambda n: n * 10), max_size=30)
HOLES = st.lists(st.tuples(st.integers(0, 420), st.integers(0, 30)).map(lambda h: (h[0], h[0] + h[1])), max_size=5)


@given(STARTS, HOLES)
def test_stretches_are_exactly_the_windows_that_no_hole_touches(
    starts: list[int], holes: list[tuple[int, int]]
) -> None:
    expected = {at for at in starts if not any(low < at + 10 and high >= at for low, high in holes)}
    found = untouched(starts, 10, holes)
    assert {at for start, end in found for at in range(start, end, 10)} == expected
    assert all(before[1] < after[0] for before, after in pairwise(found))


def test_pieces_that_lie_near_each_other_are_one_question() -> None:
    scattered = [(at, at + 1) for at in range(0, 1_000, 2)]
    found = chunks(scattered, 100)
    assert len(found) == 10
    assert all(any(low <= start and end <= high for low, high in found) for start, end in scattered)
    assert chunks([(0, 90), (95, 230)], 100) == [(0, 100), (100, 200), (200, 230)]
