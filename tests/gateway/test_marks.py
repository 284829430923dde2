"""Holes of the feed are told to whoever goes back in time, however deep, from the bus and from the lake."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from artery.errors import Unavailable
from artery.gateway.marks import TOLD_MAX, Marks, Outage
from artery.gateway.tails import decoded
from artery.lake.catalog import ensure_tables, open_catalog
from artery.lake.tables import GAPS
from artery.model.channels import Channel
from artery.model.events import Mark
from tests.gateway.made import BTC, T0, candle, mark, trade
from tests.gateway.running import Running, hear, started, subscribe, until
from tests.gateway.test_history import store, when

MARKET = Channel("sim", "BTC")


def row(made: Mark) -> dict[str, Any]:
    return {
        "provider": made.provider, "market": made.coin, "from": when(made.from_ms), "to": when(made.to_ms),
        "cause": made.cause,
    }  # fmt: skip


def table(*marks: Mark) -> pa.Table:
    return pa.Table.from_pylist([row(made) for made in marks], schema=GAPS.schema)


def keep(folder: Path, *marks: Mark) -> None:
    """Holes as the pipeline commits them."""
    catalog = open_catalog(folder)
    ensure_tables(catalog)
    catalog.load_table(GAPS.full_name).append(table(*marks))
    catalog.engine.dispose()


async def gaps_of(running: Running, series: str, since: dict[str, Any]) -> list[tuple[str, int, int]]:
    """The holes that a replay tells, as reason and times from T0."""
    async with running.connect() as socket:
        await subscribe(socket, {"channel": BTC, "types": [series], "since": since})
        found = []
        while (item := await hear(socket))["type"] != "replay_complete":
            if item["type"] == "gap":
                assert item["series"] == series
                found.append((item["reason"], item["from_ms"] - T0, item["to_ms"] - T0))
    return found


@pytest.mark.parametrize("series", ["TRADE", "CANDLE:1m"])
async def test_a_replay_tells_the_marks_of_the_bus_to_every_series_also_the_first(tmp_path: Path, series: str) -> None:
    async with started(tmp_path) as running:
        await running.append("trade", trade(1), trade(2))
        await running.candles(candle(0))
        made = [mark(1, T0 + 5, T0 + 9), mark(1, T0 + 20, T0 + 25, coin="ETH"), mark(1, T0 + 30, T0 + 35, coin="BTC"),
                mark(2, T0 + 50, T0 + 60)]  # fmt: skip
        await running.append("feed", *made)
    async with started(tmp_path) as running:
        told = [("upstream", 5, 9), ("upstream", 30, 35), ("failover", 50, 60)]
        assert await gaps_of(running, series, {"ms": T0}) == told
        assert await gaps_of(running, series, {"ms": T0 + 40}) == told[2:]


@pytest.mark.parametrize("series", ["TRADE", "CANDLE:1m"])
async def test_a_replay_tells_what_only_the_lake_remembers(tmp_path: Path, series: str) -> None:
    folder = tmp_path / "sim"
    folder.mkdir()
    store(folder, [candle(0)], [trade(1)], trade="0", candle="0")
    late = mark(2, T0 + 90, T0 + 95)
    keep(folder, mark(1, T0 + 5, T0 + 9), mark(1, T0 + 20, T0 + 30, cause="restart"), mark(1, T0, T0 + 9, coin="ETH"),
         late)  # fmt: skip
    async with started(tmp_path) as running:
        await running.append("feed", late)
        await until(lambda: running.gateway._tails.marks.count)
        told = [("upstream", 5, 9), ("failover", 20, 30), ("upstream", 90, 95)]
        assert await gaps_of(running, series, {"ms": T0}) == told, "and what both have once"
        assert await gaps_of(running, series, {"ms": T0 + 10}) == told[1:]
        async with running.http() as http:
            rows = (await http.get("/v1/gaps?provider=sim&limit=3")).json()["gaps"]
        assert [(each["from_ms"] - T0, each["epoch"]) for each in rows] == [(90, 2), (20, 0), (5, 0)]


async def test_a_mark_that_is_written_while_the_gateway_starts_is_heard(tmp_path: Path) -> None:
    async with started(tmp_path) as running:
        tails, lake = running.gateway._tails, running.lake
        await running.append("feed", mark(1, T0 + 1, T0 + 2))
        read_back = running.bus.read_back

        async def late(stream: str, limit: int, before: str = "") -> Any:
            found = await read_back(stream, limit, before)
            if stream == "feed":
                await running.append("feed", mark(1, T0 + 3, T0 + 4))
            return found

        running.bus.read_back = late  # type: ignore[method-assign]
        again = type(tails)(
            running.bus, lake, tails._hub, tails._catalog, tails._recent, Marks(running.gateway._past.gaps)
        )
        await again.start()
        (entry,) = await running.bus.read("feed", again._feed_head)
        assert (again.marks.count, decoded(entry).from_ms) == (1, T0 + 3)


async def test_what_cannot_be_read_is_a_hole_and_too_many_holes_are_told_as_one() -> None:
    async def broken(provider: str | None, since_ms: int, limit: int) -> pa.Table:
        raise Unavailable("away")

    marks = Marks(broken, marks_max=TOLD_MAX + 10)
    marks.known_ms = T0
    assert await marks.told(MARKET, T0 - 500, marks.count) == [Outage(T0 - 500, T0, "upstream")]
    for number in range(TOLD_MAX + 5):
        marks.add(mark(1, T0 + number * 10, T0 + number * 10 + 5))
    told = await marks.told(MARKET, T0 - 500, marks.count)
    assert (len(told), told[0]) == (TOLD_MAX, Outage(T0 - 500, T0 + 55, "upstream"))


async def test_a_mark_that_made_room_is_read_from_the_lake_and_one_that_came_live_is_not_told_again() -> None:
    made = [mark(1, T0 + number * 200_000, T0 + number * 200_000 + 5) for number in range(4)]

    async def lake(provider: str | None, since_ms: int, limit: int) -> pa.Table:
        return table(*made[:3])

    marks = Marks(lake, marks_max=2)
    for each in made:
        marks.add(each)
    told = await marks.told(MARKET, T0, 3)
    assert [(each.from_ms - T0) // 200_000 for each in told] == [0, 1, 2]
