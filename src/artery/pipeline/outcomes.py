"""What became of clients' requests: a row in `requests` once all their pages are in the lake, then the announcement.

The outcomes of a batch are put down in the store before they are committed, so that a driver that dies between the
commit and the announcement is followed by one that knows what is left to say.
"""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from artery import crash
from artery.bus.base import Bus
from artery.lake.places import NAME as CATALOG
from artery.lake.tables import OHLC, REQUESTS, Table
from artery.pipeline import merges
from artery.pipeline.calls import Calls
from artery.store.base import Store
from artery.telemetry import counter
from artery.wire import requests
from artery.wire.artery_pb2 import HistoryReadyNotification, OHLCBatch
from artery.wire.requests import Record

KEY = "artery:pipeline:outcomes"
_OUTCOMES = counter("pipeline_outcomes", "Outcomes of clients' requests, by status", "status")
Ready = HistoryReadyNotification


class Outcomes:
    """Turns last pages into outcomes; each request has one, however often its last page is read."""

    def __init__(self, bus: Bus, store: Store, calls: Calls) -> None:
        self._bus = bus
        self._store = store
        self._calls = calls

    def new(self, pages: Iterable[bytes]) -> list[OHLCBatch]:
        """Those of these last pages whose requests have no outcome yet."""
        found = [OHLCBatch.FromString(page) for page in pages]
        done = self._calls(partial(self._done, [page.request_id for page in found]), "reading what was asked for")
        return [page for page in found if page.request_id not in done]

    def commit(self, session: Any, pages: Sequence[OHLCBatch]) -> None:
        """Put the outcomes down and commit them; the candles must have been committed before."""
        made = outcomes_of(pages, count(session, pages), snapshot(session))
        value = msgspec.json.encode([requests.text(outcome) for outcome in made])
        self._calls(lambda: self._store.put(KEY, value), "putting outcomes down")
        frame = session.createDataFrame(table_of(made, {page.request_id: page.page + 1 for page in pages}))
        crash.point("pipeline.finishing")
        merges.insert_outcomes(frame, [page.request_id for page in pages])

    def announce(self) -> None:
        """Say what was put down and committed; this may be done again at any time."""
        crash.point("pipeline.outcomes")
        self._calls(self._announce, "announcing outcomes")

    def take_up(self, session: Any) -> None:
        """After a start: announce what was committed and not announced; what was not committed comes again."""
        left = self._calls(self._left, "reading what is left to announce")
        if not left:
            return
        ids = [outcome.request_id for outcome in left]
        rows = session.table(f"{CATALOG}.{REQUESTS.full_name}").where(F.col("request_id").isin(ids))
        there = {row["request_id"] for row in rows.select("request_id").collect()}
        kept = [requests.text(outcome) for outcome in left if outcome.request_id in there]
        self._calls(lambda: self._store.put(KEY, msgspec.json.encode(kept)), "putting outcomes down")
        self.announce()

    async def _done(self, ids: Sequence[str]) -> set[str]:
        values = await asyncio.gather(*(self._store.get(requests.key(request_id)) for request_id in ids))
        records = zip(ids, map(requests.read_record, values), strict=True)
        return {request_id for request_id, record in records if record is not None and record.state == "done"}

    async def _left(self) -> list[Ready]:
        value = await self._store.get(KEY)
        return [Record("", outcome=text).notification for text in msgspec.json.decode(value or b"[]", type=list[str])]

    async def _announce(self) -> None:
        left = await self._left()
        if left:
            now_ms = _now_ms()
            await self._bus.append("notify", [requests.encode_outcome(outcome, event_ts=now_ms) for outcome in left])
            await asyncio.gather(*(self._note(outcome) for outcome in left))
        await self._store.delete(KEY)
        for outcome in left:
            _OUTCOMES.labels(Ready.Status.Name(outcome.status)).inc()

    async def _note(self, outcome: Ready) -> None:
        key = requests.key(outcome.request_id)
        record = requests.read_record(await self._store.get(key)) or Record("")
        done = msgspec.structs.replace(
            record, state="done", progress=1_000, since_ms=_now_ms(), outcome=requests.text(outcome)
        )
        await self._store.put(key, requests.write_record(done), requests.TTL_S)


def outcomes_of(pages: Sequence[OHLCBatch], rows: Sequence[int], snapshot_id: int) -> list[Ready]:
    """What is to be said of each request, given how many candles of its range the lake holds."""
    return [
        Ready(
            request_id=page.request_id,
            client_id=page.client_id,
            ticker=page.ticker,
            period_s=page.period_s,
            start_ms=page.start_ms,
            end_ms=page.end_ms,
            status=status_of(page, found),
            rows=found,
            snapshot_id=snapshot_id,
            error=page.error,
        )
        for page, found in zip(pages, rows, strict=True)
    ]


def status_of(page: OHLCBatch, rows: int) -> "Ready.Status":
    """An error after some rows is a part of it; no rows and no error is an answer too."""
    if page.status == OHLCBatch.ERROR:
        return Ready.PARTIAL if page.rows_total else Ready.ERROR
    return Ready.READY if rows else Ready.EMPTY


def count(session: Any, pages: Sequence[OHLCBatch]) -> list[int]:
    """How many candles of each request's range the lake holds, in one small job."""
    wanted = [page for page in pages if page.period_s > 0 and page.start_ms < page.end_ms]
    if not wanted:
        return [0] * len(pages)
    low, high = min(page.start_ms for page in wanted), max(page.end_ms for page in wanted)
    start_ms = F.unix_millis("start")
    there = (
        session.table(f"{CATALOG}.{OHLC.full_name}")
        .where(F.col("period_s").isin(sorted({page.period_s for page in wanted})))
        .where(F.col("ticker").isin(sorted({page.ticker for page in wanted})))
        .where((F.col("start") >= _moment(low)) & (F.col("start") < _moment(high)))
        .select("ticker", "period_s", start_ms.alias("start_ms"))
    )
    sums = [
        F.count_if(
            (F.col("ticker") == F.lit(page.ticker))
            & (F.col("period_s") == F.lit(page.period_s))
            & (F.col("start_ms") >= F.lit(page.start_ms))
            & (F.col("start_ms") < F.lit(page.end_ms))
        ).alias(f"n{number}")
        for number, page in enumerate(pages)
    ]
    return [int(found) for found in there.agg(*sums).first()]


def snapshot(session: Any, table: Table = OHLC) -> int:
    """The newest snapshot of a table, 0 where there is none."""
    load = session._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable
    newest = load(session._jsparkSession, f"{CATALOG}.{table.full_name}").currentSnapshot()
    return int(newest.snapshotId()) if newest is not None else 0


def table_of(outcomes: Sequence[Ready], pages: dict[str, int]) -> pa.Table:
    """The outcomes as rows of `requests`."""
    finished = datetime.now(UTC)
    return pa.Table.from_pylist(
        [
            {
                "request_id": outcome.request_id,
                "client_id": outcome.client_id,
                "ticker": outcome.ticker,
                "period_s": outcome.period_s,
                "start": _time(outcome.start_ms),
                "end": _time(outcome.end_ms),
                "status": Ready.Status.Name(outcome.status),
                "rows": outcome.rows,
                "pages": pages[outcome.request_id],
                "finished": finished,
                "snapshot_id": outcome.snapshot_id or None,
                "error": outcome.error or None,
            }
            for outcome in outcomes
        ],
        schema=REQUESTS.schema,
    )


def _moment(ms: int) -> Any:
    return F.timestamp_micros(F.lit(ms * 1_000))


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1_000, UTC)


def _now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1_000)
