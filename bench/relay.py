"""The relay: how many messages it passes on, how soon it answers, and a year of minutes on request."""

import asyncio
import time
from pathlib import Path

import pyarrow.parquet as pq

from artery.client.relay import Relay as Client
from artery.client.snapshots import NAMES, candles_of
from artery.lake.reads import Lake
from artery.store.open import open_store
from artery.wire import messages, relays
from artery.wire.artery_pb2 import HistoryReadyNotification, SubmitHistoricalRequest, SubmitResponse
from artery.wire.sockets import Context, Kind
from bench import relay_fanout
from bench.rows import Row, row
from bench.running import Running, opened

SUBMITS, AT_ONCE = 1_000, 4
MINUTES, MINUTE_MS = 525_600, 60_000
READS = 7


async def submit_p99_ms(requests: str, work: str) -> float:
    """From submitting a request to ACCEPTED, several at a time."""
    context = Context()
    ingestor = context.socket(Kind.SUB)
    ingestor.connect([work])
    ingestor.subscribe("SIM:")
    now_ms = int(time.time() * 1_000)
    try:
        clients = [context.socket(Kind.DEALER) for _ in range(AT_ONCE)]
        took_ms: list[float] = []

        async def submit(number: int) -> None:
            client = clients[number]
            client.connect([requests])
            for turn in range(SUBMITS // AT_ONCE + 1):
                asked = SubmitHistoricalRequest(
                    request_id=f"{number}-{turn}",
                    ticker="SIM:BTC",
                    start_ms=now_ms - 3_600_000,
                    end_ms=now_ms,
                    period_s=60,
                )
                began = time.perf_counter()
                client.send([b"", *messages.write(asked)])
                answer = messages.read((await client.receive())[1:])
                assert isinstance(answer, SubmitResponse)
                assert answer.status == SubmitResponse.ACCEPTED, answer
                if turn:  # the first one waits for the ingestor
                    took_ms.append((time.perf_counter() - began) * 1_000)

        await asyncio.gather(*(submit(number) for number in range(AT_ONCE)))
    finally:
        await context.close()
    return sorted(took_ms)[int(len(took_ms) * 0.99)]


async def relay_of(running: Running) -> relays.Relay:
    """Where the relay of a running Artery is."""
    store = open_store(f"sqlite:///{running.folder}/sim/store.db")
    try:
        while True:
            if found := relays.decode(await store.scan(relays.PREFIX)):
                return found[0]
            await asyncio.sleep(0.1)
    finally:
        await store.close()


async def fetched(client: Client, start_ms: int, end_ms: int) -> tuple[HistoryReadyNotification, float]:
    began = time.monotonic()
    outcome = await client.fetch("SIM:BTC", "1m", start_ms, end_ms, wait_s=900)
    return outcome, time.monotonic() - began


async def history() -> list[Row]:
    """A year of minutes that the lake does not have, the same again, and how fast its rows are read."""
    end_ms = int(time.time() * 1_000) // MINUTE_MS * MINUTE_MS - 5 * 86_400_000  # before what a first start brings
    start_ms = end_ms - MINUTES * MINUTE_MS
    async with opened(ART_SIM_CANDLES_KEPT="0") as running:
        where = await relay_of(running)
        async with Client(where.requests, where.clients) as client:
            await fetched(client, start_ms - 86_400_000, start_ms)  # a day, so that Spark has done it once
            first, took_s = await fetched(client, start_ms, end_ms)
            again, again_s = await fetched(client, start_ms, end_ms)
        assert first.rows == again.rows > MINUTES * 0.99, (first, again)  # a minute without a trade is no candle
        ours_s, theirs_s = await asyncio.to_thread(read_s, running.folder / "sim", again)
    return [
        row("history.ready_rows_per_s", first.rows / took_s, "rows/s"),
        row("history.read.pyarrow", ours_s, "s", "<= 2", "PyArrow", theirs_s),
        row("history.again_ms", again_s * 1_000, "ms", "< 4000"),
    ]


def read_s(folder: Path, outcome: HistoryReadyNotification) -> tuple[float, float]:
    """(the SDK's read at the announced snapshot, PyArrow's of the same files): the best of some, in turn."""
    lake, ours, theirs = Lake(folder), [], []
    files = lake.candle_files(outcome.snapshot_id, outcome.ticker, outcome.period_s, outcome.start_ms, outcome.end_ms)
    lake.close()
    for _ in range(READS):
        began = time.perf_counter()
        found = candles_of(folder, outcome)
        ours.append(time.perf_counter() - began)
        assert found.num_rows == outcome.rows
        began = time.perf_counter()
        pq.ParquetDataset(files).read(columns=list(NAMES))
        theirs.append(time.perf_counter() - began)
    return min(ours), min(theirs)


async def measure() -> list[Row]:
    ours, theirs = await asyncio.to_thread(relay_fanout.measure)
    with relay_fanout.started("relay") as urls:
        p99_ms = await submit_p99_ms(urls[2], urls[3])
    return [
        row("relay.fanout.libzmq", ours, "messages/s", ">= 0.8", "libzmq's proxy", theirs),
        row("relay.submit_p99_ms", p99_ms, "ms", "< 20"),
        *await history(),
    ]
