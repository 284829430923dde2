"""A pipeline that is killed at every point that it names, and each time robbed of its last commit as well; in long runs
in the midst of a write too, and of the whole checkpoint."""

import asyncio
import os
import shutil
import signal
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import psutil
import pytest

from artery import crash
from artery.bus.base import place
from artery.lake.reads import Lake
from artery.lake.tables import BOOKS, GAPS, OHLC, Table
from artery.model import codec, fold
from artery.model.events import Candle, Mark, Trade
from artery.model.periods import Period
from artery.pipeline.parts import Key
from artery.pipeline.rows import candle_of
from artery.pipeline.service import STATUS
from artery.providers.sim.listing import BY_COIN
from artery.wire import history, requests
from artery.wire.artery_pb2 import DataRequest, HistoryReadyNotification
from tests.faults.checker import Seen, Sent, Sight, check, closed_again
from tests.faults.logs import Log
from tests.faults.processes import Child, Stage, until
from tests.faults.trial import Trial
from tests.faults.venue import COINS, Scene, reaches, scene
from tests.journeys import ledger
from tests.spark import QUICK

START_S = 240.0
FIRST = ("symbols", "outcomes")
"""Markets are told of once, at the beginning; and a driver after one that died in `finishing` comes by `outcomes` with
nothing committed."""
POINTS = ("appended:3", "saved", "stored", "stored:2", "corrected", "finishing", "committed")
LATE, LATE_MS = "LATE", 2 * 3_600_000
"""A market of which every trade comes so late that only the lake can put it into its candle."""
PERIODS = (Period(5), Period(60))
ASKED, HOUR_MS = "ASKED", 3_600_000
"""A market whose candle of an hour comes from the venue alone, because a client asked for it."""


def a_log(stage: Stage) -> Log:
    return Log("sqlite", f"sqlite:///{stage.folder}/md_stream/sim/bus.db", "md_stream", None)


def pipeline(one: Scene, point: str = "") -> Child:
    more = {"ART_PIPELINE_STORE_S": "2", "ART_PIPELINE_SLOW_STORE_S": "4", "ART_CRASH_POINT": point}
    more |= {"ART_PIPELINE_PERIODS": "5s,1m"}
    return one.stage.run(["artery", "run", "pipeline"], "pipeline", one.environ | QUICK | more)


def killed(child: Child) -> None:
    """The driver and its Java at once, as by a power cut."""
    family = psutil.Process(child.pid).children(recursive=True)
    child.kill()
    for each in family:
        if each.is_running():
            os.kill(each.pid, signal.SIGKILL)


async def come_late(one: Scene, number: int) -> None:
    """A trade that is two hours late when it comes, as from a venue that was asked again."""
    now_ms = int(time.time() * 1_000)
    late = Trade(
        provider="sim", coin=LATE, event_ts=now_ms, epoch=1, seq=number, ts=now_ms - LATE_MS, tid=f"late-{number}",
        px=Decimal(100 + number), sz=Decimal(1), side="B",
    )  # fmt: skip
    await one.bus.append("trade", [codec.encode(late)])


async def ask(one: Scene, name: str) -> None:
    """What the relay and an ingestor would append for a request: the record, a page with a candle, the last page."""
    now_ms = int(time.time() * 1_000)
    start_ms = now_ms // HOUR_MS * HOUR_MS - 48 * HOUR_MS
    asked = DataRequest(
        request_id=name, client_id="c1", ticker=f"SIM:{ASKED}",
        historical=DataRequest.Historical(start_ms=start_ms, end_ms=start_ms + HOUR_MS, period_s=3_600),
    )  # fmt: skip
    candle = Candle(
        provider="sim", coin=ASKED, event_ts=now_ms, epoch=0, seq=0, period=Period(3_600), start_ts=start_ms,
        o=Decimal(1), h=Decimal(2), l=Decimal(1), c=Decimal(2), v=Decimal(3), n=4, closed=True,
    )  # fmt: skip
    record = requests.Record(requests.text(asked), "storing")
    await one.store.put(requests.key(name), requests.write_record(record))
    page = history.page(name, "sim", ASKED, candle.period, [candle], number=0, last=False)
    pages = [page, history.closing(asked, number=1, rows_total=1)]
    await one.bus.append("history", [history.encode(page, event_ts=now_ms) for page in pages])


async def at_point(one: Scene, point: str) -> None:
    if point == "corrected":
        await come_late(one, 1)
    if point in ("finishing", "outcomes"):
        await ask(one, point)
    assert await pipeline(one, f"pipeline.{point}").ended(START_S) == -signal.SIGKILL, point


async def in_mid_write(one: Scene) -> None:
    """Killed once a file of trades is there that no commit knows of yet."""
    files = one.folder / "sim" / "lake" / "warehouse" / "market" / "trades" / "data"
    before = set(files.rglob("*.parquet"))
    child = pipeline(one)
    await until(lambda: bool(set(files.rglob("*.parquet")) - before), "a file is being written", START_S, 0.001)
    killed(child)


def last_commit_deleted(one: Scene) -> int:
    """The crash between the sink's commit and the checkpoint's, as Spark's guide makes it; how many files went. A life
    makes its checkpoint anew and reads none, so this shows only that nothing depends on what it says; a short life may
    have written none."""
    folders = [one.folder / "sim" / "checkpoints" / query / "commits" for query in ("fast", "store")]
    last = [path for folder in folders for path in sorted(folder.glob("[0-9]*"), key=lambda path: int(path.name))[-1:]]
    for path in last:
        path.unlink()
    return len(last)


def checkpoints_deleted(one: Scene) -> None:
    shutil.rmtree(one.folder / "sim" / "checkpoints", ignore_errors=True)


async def heads(one: Scene) -> dict[str, str]:
    """The newest entries of the streams that are rows of the lake."""
    return {stream: await one.bus.head(stream) for stream in ("trade", "candle", "feed", "history")}


async def stored(lake: Lake, wanted: dict[str, str]) -> bool:
    """Whether the lake has come so far."""
    found = await asyncio.to_thread(lake.positions)
    return all(place(found.get(stream, "0")) >= place(position) for stream, position in wanted.items())


async def reopened(one: Scene) -> int:
    """How often a candle that was closed is open again in the log."""
    shown = defaultdict(list)
    for entry in await one.entries("candle"):
        said = entry.fields
        key = (said["coin"], said["interval"], said["startTs"])
        shown[key].append((said["isClosed"] == "true", int(said["rev"])))
    assert shown
    return sum(closed_again(states) for states in shown.values())


async def wrong_candles(one: Scene, lake: Lake, head: str) -> tuple[int, int]:
    """Of the closed candles on the bus that overlap no MARK: how many there are, and how many are not their fold or,
    if the lake has read so far, not there as on the bus, or as an older version of it closed."""
    trades = [event for entry in await one.entries("trade") if isinstance(event := codec.decode(entry.fields), Trade)]
    marks = [event for entry in await one.entries("feed") if isinstance(event := codec.decode(entry.fields), Mark)]
    candles: dict[Key, Candle] = {}
    said: dict[Key, set[tuple[Any, ...]]] = defaultdict(set)
    due: set[Key] = set()
    for entry in await one.entries("candle"):
        event = codec.decode(entry.fields)
        assert isinstance(event, Candle)
        candles[event.key] = event
        if event.closed:
            said[event.key].add(_values(event))
            if place(entry.id) <= place(head):
                due.add(event.key)
    bars = {
        (*key[:2], period.seconds, key[2]): bar for period in PERIODS for key, bar in fold.bars(trades, period).items()
    }
    rows = {row.key: row for row in map(candle_of, lake.scan("ohlc").to_pylist()) if row.closed}
    whole = [
        candle for candle in candles.values() if candle.closed and not any(_overlaps(mark, candle) for mark in marks)
    ]
    wrong = 0
    for candle in whole:
        row = rows.get(candle.key)
        right = _values(candle)[:-1] == tuple(getattr(bars[candle.key], name) for name in "ohlcvn")
        wrong += (
            not right or (row is None and candle.key in due) or (row is not None and _values(row) not in said[row.key])
        )
    return len(whole), wrong


def _values(candle: Candle) -> tuple[Any, ...]:
    return (*(getattr(candle, name) for name in "ohlcvn"), candle.rev)


async def marked(one: Scene, head: str) -> set[tuple[datetime, str]]:
    """Every hole that was said up to there: when it began, and its cause."""
    found = [codec.decode(entry.fields) for entry in await one.entries("feed") if place(entry.id) <= place(head)]
    marks = [event for event in found if isinstance(event, Mark)]
    return {(datetime.fromtimestamp(mark.from_ms / 1_000, UTC), mark.cause) for mark in marks}


def unique(lake: Lake, table: Table) -> bool:
    """Whether the table has every key once, and any at all."""
    keys = [tuple(row[name] for name in table.key) for row in lake.scan(table.name).select(list(table.key)).to_pylist()]
    return 0 < len(keys) == len(set(keys))


def _overlaps(mark: Mark, candle: Candle) -> bool:
    return mark.coin in ("", candle.coin) and mark.from_ms < candle.end_ts and mark.to_ms >= candle.start_ts


async def ended(one: Scene, feed: Child, last: Child) -> None:
    """The feed ends first, so that no trade can come late for a candle that the pipeline has closed and then left."""
    await feed.stop()
    head = await one.bus.head("trade")

    async def folded() -> bool:
        status = msgspec.json.decode(await one.store.get(STATUS) or b"{}")
        return place(status.get("trade_position", "0")) >= place(head)

    await reaches(folded, START_S)
    await last.stop()


async def judged(trial: Trial, one: Scene, head: dict[str, str], lake: Lake) -> None:
    """Every row is in the lake once, every candle is its fold on the bus and in the lake, and none was opened again."""
    sent = [entry.fields | {"place": entry.id} for entry in await one.entries("trade")]
    names = {f"{said['coin']}/{said['ts']}/{said['tid']}": said["place"] for said in sent}
    acked = {name for name, at in names.items() if place(at) <= place(head["trade"])}
    rows = ledger.lake_trades(lake, sorted({*COINS, *(said["coin"] for said in sent)}))
    sights: list[Sight] = [
        Seen(f"{coin}/{ts}/{tid}", str(copy)) for (coin, ts, tid), copies in rows.items() for copy in range(copies)
    ]
    trial.judge(check([Sent(list(names), acked)], sights, ordered=False))
    assert await reopened(one) == 0, trial.again
    assert all(unique(lake, table) for table in (OHLC, BOOKS, GAPS)), trial.again
    assert {(row["from"], row["cause"]) for row in lake.scan("gaps").to_pylist()} >= await marked(one, head["feed"])
    candles, wrong = await wrong_candles(one, lake, head["candle"])
    assert candles > 0, trial.again
    assert wrong == 0, f"{wrong} of {candles} candles are not their fold; {trial.again}"
    found = lake.scan("symbols")
    versions = sorted(zip(found["ticker"].to_pylist(), found["version"].to_pylist(), strict=True))
    assert versions == [(f"SIM:{coin}", 1) for coin in sorted(BY_COIN)], trial.again


async def outcomes(one: Scene, lake: Lake, names: list[str]) -> None:
    """Every request has one row and one outcome, which was announced with its candle."""
    assert Counter(lake.scan("requests").column("request_id").to_pylist()) == Counter(names)
    said = [entry.fields for entry in await one.entries("notify")]
    told = [requests.decode_outcome(fields) for fields in said if fields["kind"] == "history"]
    ready = {(name, HistoryReadyNotification.READY, 1) for name in names}
    assert {(outcome.request_id, outcome.status, outcome.rows) for outcome in told} == ready


def test_every_point_of_the_pipeline_kills_its_driver() -> None:
    tried = {f"pipeline.{point.partition(':')[0]}" for point in (*FIRST, *POINTS)}
    assert tried == {name for name in crash.POINTS if name.startswith("pipeline.")}


@pytest.mark.timeout(1_200)  # it starts Spark ten times
async def test_a_pipeline_that_is_killed_and_robbed_of_its_checkpoint_at_every_point_stores_everything_once(
    trial: Trial, stage: Stage
) -> None:
    async with scene(stage, a_log(stage)) as one:
        feed = one.feed("feed")
        await one.vouched(2)
        deleted = 0
        for point in (*FIRST, *trial.dice.sample(POINTS, len(POINTS))):
            await at_point(one, point)
            deleted += last_commit_deleted(one)
        assert deleted > 0, trial.again
        for die in trial.pick([], [in_mid_write]):
            await die(one)
            checkpoints_deleted(one)
        last = pipeline(one)
        head, lake = await heads(one), Lake(one.folder / "sim")
        await reaches(lambda: stored(lake, head), START_S)
        await ended(one, feed, last)
        await judged(trial, one, head, lake)
        await outcomes(one, lake, ["finishing", "outcomes"])
