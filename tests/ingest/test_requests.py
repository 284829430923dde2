"""Clients' requests for history: each fetched once, by one ingestor, whatever happens to the others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from artery.errors import BadInput, Unavailable
from artery.ingest import fetching
from artery.ingest import requests as module
from artery.ingest.fetching import chunks
from artery.ingest.requests import Requests
from artery.ingest.service import serve_requests
from artery.live.lock import StoreLock
from artery.model.events import Candle
from artery.model.periods import Period
from artery.store.base import Store
from artery.wire import history, relays, requests
from artery.wire.artery_pb2 import DataRequest, OHLCBatch
from tests.ingest.make import T0
from tests.ingest.scripted import ScriptedVenue, Stage, until

MINUTE = 60_000
GROUP = "cg_ingest_request_sim"


def wanted(request_id: str, minutes: int = 600, ticker: str = "SIM:BTC", period_s: int = 60) -> DataRequest:
    return DataRequest(
        request_id=request_id,
        client_id="c1",
        type=DataRequest.HISTORICAL_OHLC,
        ticker=ticker,
        historical=DataRequest.Historical(start_ms=T0 - minutes * MINUTE, end_ms=T0, period_s=period_s),
    )


async def ask(stage: Stage, request: DataRequest) -> None:
    record = requests.Record(requests.text(request), "queued")
    await stage.store.put(requests.key(request.request_id), requests.write_record(record))
    await stage.bus.append("request", [requests.encode(request, event_ts=T0)])


@asynccontextmanager
async def ingestor(stage: Stage, **changes: Any) -> AsyncIterator[Requests]:
    one = Requests(replace(stage.parts, **changes), StoreLock(stage.store))
    task = asyncio.create_task(one.run())
    try:
        yield one
    finally:
        task.cancel()
        await asyncio.wait({task})


async def pages(stage: Stage, request_id: str) -> list[OHLCBatch]:
    found = [history.decode(entry.fields) for entry in await stage.entries("history")]
    return [page for page in found if page.request_id == request_id]


async def fetched(stage: Stage, request_id: str) -> list[OHLCBatch]:
    """The request's pages, once its entry was acked."""

    async def over() -> bool:
        record = requests.read_record(await stage.store.get(requests.key(request_id)))
        return record is not None and record.state == "storing"

    await until(over, f"{request_id} is fetched")
    return await pages(stage, request_id)


async def acked(stage: Stage) -> bool:
    state = await stage.bus.group("request", GROUP)
    return bool(state.lag == 0 and state.pending == 0)


async def test_a_request_becomes_pages_and_a_last_one_that_says_how_it_ended(stage: Stage) -> None:
    async with ingestor(stage):
        await ask(stage, wanted("r1", 1_200))
        found = await fetched(stage, "r1")
        await until(lambda: acked(stage), "the request is acked")
    assert [(page.page, page.last, len(page.rows)) for page in found] == [
        (0, False, 500), (1, False, 500), (2, False, 200), (3, True, 0),
    ]  # fmt: skip
    assert {page.client_id for page in found} == {"c1"}
    starts = [row.start_ms for page in found for row in page.rows]
    assert starts == list(range(T0 - 1_200 * MINUTE, T0, MINUTE))
    last = found[-1]
    assert (last.status, last.rows_total, last.start_ms, last.end_ms) == (
        OHLCBatch.OK, 1_200, T0 - 1_200 * MINUTE, T0,
    )  # fmt: skip
    record = requests.read_record(await stage.store.get(requests.key("r1")))
    assert record is not None
    assert (record.progress, record.rows, record.pages) == (1_000, 1_200, 4)
    assert await stage.store.get(requests.lease("r1")) is None


async def test_only_what_is_not_there_is_fetched(stage: Stage) -> None:
    stage.venue.now_ms = T0 + MINUTE
    async with ingestor(stage):
        await ask(stage, wanted("r1", 60))
        await fetched(stage, "r1")
        stage.venue.asked.clear()
        await ask(stage, wanted("again", 60))
        again = await fetched(stage, "again")
        assert stage.venue.asked == []
        await ask(stage, wanted("more", 100))
        more = await fetched(stage, "more")
    assert [(page.last, page.rows_total) for page in again] == [(True, 0)]
    assert stage.venue.asked == [("BTC", "1m", T0 - 100 * MINUTE, T0 - 60 * MINUTE)]
    assert sum(len(page.rows) for page in more) == 40


async def test_a_candle_that_is_not_over_is_not_fetched_and_is_asked_for_later(stage: Stage) -> None:
    stage.venue.now_ms = T0 - MINUTE // 2
    async with ingestor(stage):
        await ask(stage, wanted("r1", 2))
        first = await fetched(stage, "r1")
        stage.venue.now_ms = T0 + 1
        await ask(stage, wanted("r2", 2))
        second = await fetched(stage, "r2")
    assert [row.start_ms for page in first for row in page.rows] == [T0 - 2 * MINUTE]
    assert [row.start_ms for page in second for row in page.rows] == [T0 - MINUTE]


async def test_a_candle_that_ends_while_others_are_fetched_is_asked_for_by_the_next(stage: Stage) -> None:
    stage.venue.now_ms = T0 - MINUTE // 2

    class Slow(ScriptedVenue):
        """It needs a minute for an answer."""

        async def candles(self, coin: str, period: Period, start_ms: int, end_ms: int) -> list[Candle]:
            found = await super().candles(coin, period, start_ms, end_ms)
            stage.venue.now_ms += MINUTE
            return found

    async with ingestor(stage, venue=Slow(("BTC",))):
        await ask(stage, wanted("r1", 2))
        assert [row.start_ms for page in await fetched(stage, "r1") for row in page.rows] == [T0 - 2 * MINUTE]
        await ask(stage, wanted("r2", 2))
        assert [row.start_ms for page in await fetched(stage, "r2") for row in page.rows] == [T0 - MINUTE]


async def test_a_candle_that_has_just_ended_is_fetched_and_asked_for_again_once_it_has_settled(stage: Stage) -> None:
    last = [T0 - MINUTE]
    async with ingestor(stage):
        for request_id, over_ms, starts in (
            ("r1", 0, last),
            ("r2", 3_900, last),
            ("r3", 4_000, last),
            ("r4", 4_001, []),
        ):
            stage.venue.now_ms = T0 + over_ms
            await ask(stage, wanted(request_id, 1))
            assert [row.start_ms for page in await fetched(stage, request_id) for row in page.rows] == starts


class AwayOnce:
    """A store that does not answer the first question about what is covered."""

    def __init__(self, store: Store) -> None:
        self._store, self.failed = store, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, key: str) -> bytes | None:
        if key.startswith("artery:covered:") and not self.failed:
            self.failed = True
            raise Unavailable("the store is away")
        return await self._store.get(key)


async def test_a_store_that_is_away_for_a_moment_is_no_error_of_the_request(stage: Stage) -> None:
    store = AwayOnce(stage.store)
    async with ingestor(stage, store=store):
        await ask(stage, wanted("r1", 10))
        found = await fetched(stage, "r1")
    assert (found[-1].status, found[-1].rows_total, store.failed) == (OHLCBatch.OK, 10, True)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (wanted("r1", period_s=7), "no candles of 7s"),
        (wanted("r1", ticker="SIM:BTC", period_s=60), "the venue refuses"),
    ],
    ids=["period", "refused"],
)
async def test_what_the_venue_does_not_have_ends_with_an_error_at_once(
    stage: Stage, request_: DataRequest, reason: str
) -> None:
    stage.venue.rest_error = BadInput("the venue refuses")
    async with ingestor(stage):
        await ask(stage, request_)
        (last,) = await fetched(stage, "r1")
    assert (last.last, last.status, last.rows_total) == (True, OHLCBatch.ERROR, 0)
    assert reason in last.error


async def test_a_venue_that_is_away_is_asked_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "AGAIN_S", 0.01)
    stage.venue.rest_error = Unavailable("away")
    async with ingestor(stage):
        await ask(stage, wanted("r1", 10))

        async def asked() -> bool:
            return bool(stage.venue.asked)

        await until(asked, "the venue is asked")
        stage.venue.rest_error = None
        found = await fetched(stage, "r1")
    assert found[-1].status == OHLCBatch.OK
    assert found[-1].rows_total == 10


async def test_a_venue_that_stays_away_is_an_error_after_what_came_before(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "AGAIN_S", 0.001)
    monkeypatch.setattr(fetching, "CHUNK", 100)

    async with ingestor(stage):
        stage.venue.fail_after = 2
        await ask(stage, wanted("r1", 500))
        found = await fetched(stage, "r1")
    assert (found[-1].status, found[-1].rows_total) == (OHLCBatch.ERROR, 200)
    assert "away" in found[-1].error


async def test_of_three_ingestors_exactly_one_works(stage: Stage) -> None:
    async with ingestor(stage), ingestor(stage), ingestor(stage):
        for number in range(10):
            await ask(stage, wanted(f"r{number}", 10 + number, period_s=60 if number % 2 else 300))
        for number in range(10):
            found = await fetched(stage, f"r{number}")
            assert [page.last for page in found].count(True) == 1
        await until(lambda: acked(stage), "all are acked")


async def test_what_a_dead_ingestor_left_is_finished_by_another(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_MS", 50)
    monkeypatch.setattr(module, "KEEP_S", 0.05)
    monkeypatch.setattr(module, "LEASE_PAUSE_S", (0.01, 0.02))
    await stage.bus.ensure_group("request", GROUP)
    await ask(stage, wanted("r1", 10))
    assert len(await stage.bus.read_new("request", GROUP, "dead")) == 1
    assert await StoreLock(stage.store).acquire(requests.lease("r1"), 0.3) is not None
    async with ingestor(stage):
        found = await fetched(stage, "r1")
        await until(lambda: acked(stage), "the request is acked")
    assert found[-1].rows_total == 10


async def test_a_cancelled_request_ends_with_an_error(stage: Stage) -> None:
    async with ingestor(stage) as one:
        one.cancel("r1")
        await ask(stage, wanted("r1"))
        (last,) = await fetched(stage, "r1")
    assert "cancelled" in last.error


async def test_a_request_of_another_exchange_is_left_alone_and_a_bad_one_is_dead_lettered(stage: Stage) -> None:
    async with ingestor(stage):
        await ask(stage, wanted("r1", ticker="BINANCE:BTC/USDT"))
        await stage.bus.append("request", [{"ver": "1", "t": "REQUEST", "body": "%"}])
        await until(lambda: acked(stage), "both are acked")
    assert await stage.entries("history") == []
    assert [entry.fields["stream"] for entry in await stage.entries("dead")] == ["request"]


async def test_a_request_that_fails_for_good_ends_with_an_error_after_some_tries(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEEP_S", 0.01)
    endless = "r" * 2_000  # longer than any key of the store: neither its lease nor its record can be written
    async with ingestor(stage):
        await stage.bus.append("request", [requests.encode(wanted(endless), event_ts=T0)])
        await until(lambda: pages(stage, endless), "it has ended")
        await until(lambda: acked(stage), "it is acked")
        await ask(stage, wanted("r1", 10))
        assert (await fetched(stage, "r1"))[-1].rows_total == 10
    (last,) = await pages(stage, endless)
    assert (last.last, last.status) == (True, OHLCBatch.ERROR)
    assert "a key has" in last.error


async def test_a_request_that_was_fetched_before_a_crash_is_not_fetched_again(stage: Stage) -> None:
    async with ingestor(stage):
        await ask(stage, wanted("r1", 10))
        await fetched(stage, "r1")
        before = len(await stage.entries("history"))
        await stage.bus.append("request", [requests.encode(wanted("r1", 10), event_ts=T0)])  # the relay's second try

        async def read() -> bool:
            return (await stage.bus.group("request", GROUP)).lag == 0

        await until(read, "the second entry is read")
        await until(lambda: acked(stage), "it is acked")
    assert len(await stage.entries("history")) == before


async def test_requests_are_served_beside_the_feed_and_without_any_relay(stage: Stage) -> None:
    task = asyncio.create_task(serve_requests(stage.parts, StoreLock(stage.store)))
    try:
        await stage.store.put(relays.key("bad"), b"{")
        await ask(stage, wanted("r1", 10))
        assert (await fetched(stage, "r1"))[-1].rows_total == 10
    finally:
        task.cancel()
        await asyncio.wait({task})


def test_chunks_are_all_of_it_in_order_and_none_is_longer() -> None:
    assert chunks([(0, 250), (300, 310)], 100) == [(0, 100), (100, 200), (200, 250), (300, 310)]
    assert Period(60).ms == MINUTE
