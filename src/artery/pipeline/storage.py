"""The store query: every ten seconds from the bus to the lake."""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from artery import crash
from artery.bus import dead
from artery.bus.base import Bus, Entry, place
from artery.errors import ArteryError, BadEvent
from artery.lake.places import BATCH, LOG, POSITIONS, QUERY
from artery.lake.tables import BOOKS, GAPS, OHLC, REQUESTS, SYMBOLS, TABLES, TRADES, Table
from artery.model.events import Candle
from artery.model.periods import DERIVED, Period
from artery.pipeline import appends, decode, merges, rows
from artery.pipeline.calls import Calls
from artery.pipeline.candles import KEEP_MS
from artery.pipeline.corrections import NO_BACKLOG, Backlog, recompute
from artery.pipeline.data_files import Written
from artery.pipeline.merges import Slice
from artery.pipeline.offsets import STORE, Offsets
from artery.pipeline.outcomes import Outcomes
from artery.pipeline.parts import Key
from artery.pipeline.progress import Progress
from artery.pipeline.repairs import Repair, Repairs
from artery.pipeline.session import suit
from artery.pipeline.symbols import Tidings
from artery.pipeline.transforms import SLACK_MS
from artery.pipeline.turn import Turn
from artery.telemetry import logger

NAME = "store"
_log = logger("pipeline")
_PAGE = 1_000
LARGE = 20_000
"""Rows of a batch after which the next one is taken to be large too: the lake is catching up."""
TRY_AGAIN_S, TRY_FOR_S = 3.0, 600.0
"""How long a batch that could not be written waits before it is tried again; and after which time the pipeline is
started anew, in case that helps."""
GROUPS = {stream: f"cg_storage_{stream}" for stream in STORE}
_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)", re.MULTILINE)
_COLUMN = {
    rows.GAP: "gap",
    rows.SYMBOL: "symbol",
    rows.BOOK: "book",
    rows.CANDLE: "ohlc",
    rows.HISTORY: "ohlc",
    rows.TRADE: "trade",
}
_STREAM = {
    rows.GAP: "feed",
    rows.SYMBOL: "symbol",
    rows.BOOK: "book",
    rows.CANDLE: "candle",
    rows.HISTORY: "history",
    rows.TRADE: "trade",
}
"""In the order in which a batch commits: trades last, because their commit vouches for the whole batch."""
_INSERTED: Mapping[str, tuple[Table, str]] = {
    rows.GAP: (GAPS, "from"),
    rows.SYMBOL: (SYMBOLS, "valid_from"),
    rows.BOOK: (BOOKS, "ts"),
    rows.TRADE: (TRADES, "ts"),
}


_FILED = {rows.HISTORY: OHLC, rows.TRADE: TRADES}


class Found(msgspec.Struct, frozen=True):
    """What a batch holds: for each kind where its rows lie, how far it reaches, how many entries are bad, by how much
    the latest trade came late, how many requests end in it; and the files that hold what of its trades and its
    history no rows do."""

    slices: Mapping[str, list[Slice]]
    end: Offsets
    bad: int
    late_ms: int
    outcomes: int = 0
    rows: int = 0
    files: Sequence[Written] = ()
    repairs: Sequence[Repair] = ()

    def files_of(self, kind: str) -> list[Written]:
        """The files with the batch's rows of this kind."""
        table = _FILED.get(kind)
        return [file for file in self.files if table is not None and file.table == table.name]


class StoreQuery:
    """One micro-batch: each table a commit that names, with its rows, how far in its streams it has come.

    A restart reads on from what the commits name, stream by stream, so a crash between two of them repeats nothing
    that was committed; and as every commit is a MERGE by key, a trade that is on the bus twice is in the lake once.
    Only files of trades of which none is in the lake are committed as they are.
    """

    def __init__(
        self,
        start: Offsets,
        bus: Bus,
        calls: Calls,
        log: int = 0,
        *,
        outcomes: Outcomes | None = None,
        tidings: Tidings | None = None,
        periods: Sequence[Period] = DERIVED,
        announce: Callable[[Sequence[Candle]], None] = lambda _: None,
        backlog: Backlog = NO_BACKLOG,
    ) -> None:
        self.progress = Progress(positions=dict(start))
        self.committed_ms = 0
        self.commits: dict[str, int] = {}
        self.corrected = 0
        self._positions = dict(start)
        self._log = log
        self._bus = bus
        self._calls = calls
        self.between = Turn()
        """Held by a batch, and by whoever works on the lake between two of them."""
        self._outcomes = outcomes
        self._tidings = tidings
        self._periods = tuple(periods)
        self._announce = announce
        self._backlog = backlog
        self._rows = 0
        self._repairs = Repairs()

    def on_batch(self, found: Any, batch_id: int) -> None:
        """Spark's foreachBatch."""
        began = time.monotonic()
        suit(found.sparkSession, large=self._rows >= LARGE)
        with self.progress.batch_of(batch_id):
            batch = found.persist()
            try:
                while not self._tried(batch, batch_id, last=time.monotonic() - began > TRY_FOR_S):
                    self._calls.pause(TRY_AGAIN_S)
            finally:
                batch.unpersist()

    def _tried(self, batch: DataFrame, batch_id: int, *, last: bool) -> bool:
        """Whether the batch is in the lake; a disk that is full costs time, and neither a row nor the candles."""
        before = dict(self._positions)
        try:
            with self.between:
                self._store(batch, batch_id)
        except (ArteryError, Py4JError, PySparkException) as error:
            self._positions = before
            if last or self._calls.stopped or (isinstance(error, ArteryError) and not error.temporary):
                raise
            if not self.progress.error:
                _log.warning("the lake could not be written, trying again", error=reason(error))
            self.progress.error = f"the lake could not be written: {reason(error)}"
            return False
        self.progress.error = ""
        return True

    def _store(self, batch: DataFrame, batch_id: int) -> None:
        with self.progress.phase("look"):
            found = look(batch)
        if found.bad:
            self._bury(batch.where(F.col("kind") == rows.BAD).select("bad.*").collect())
        for kind, stream in _STREAM.items():
            parts = found.slices.get(kind, [])
            owed = self._backlog.owed(found.end[stream]) if kind == rows.TRADE else []
            if kind == rows.TRADE and (owed or found.late_ms >= KEEP_MS - SLACK_MS):
                self._sign(batch, batch_id)
                with self.progress.phase("correct"):
                    self._recompute(_trades(batch, found), owed, found.end[stream])
            if kind == rows.HISTORY and (found.repairs or found.slices.get(rows.GAP)):
                self._note_repairs(batch, batch_id, found.repairs)
            finishes = kind == rows.HISTORY and self._outcomes is not None and found.outcomes > 0
            files = found.files_of(kind)
            for number, part in enumerate(parts, 1):
                if number == len(parts) and not finishes and not files:
                    self._positions[stream] = found.end[stream]
                self._sign(batch, batch_id)
                with self.progress.phase(kind):
                    self._commit(batch, kind, part, whole=len(parts) == 1)
            if files:
                if not finishes:
                    self._positions[stream] = found.end[stream]
                with self.progress.phase(kind):
                    self._commit_files(batch, batch_id, kind, files)
            self._positions[stream] = found.end[stream]
            if finishes:
                self._finish(batch, batch_id)
        crash.point("pipeline.committed")
        self._ack(found.end)
        self.progress.positions = dict(found.end)
        self.progress.rows += found.rows + sum(file.rows for file in found.files)
        self._rows = found.rows

    def _commit(self, batch: DataFrame, kind: str, part: Slice, *, whole: bool) -> None:
        column = _COLUMN[kind]
        mine = batch.where(F.col("kind") == kind).select(f"{column}.*")
        table, at = _INSERTED.get(kind, (OHLC, "start"))
        if not whole:
            mine = mine.where(merges.within(F.col(f"`{at}`"), part))
        if kind == rows.CANDLE:
            merges.merge_candles(mine, part)
        elif kind == rows.HISTORY:
            merges.merge_history(mine, part)
        elif kind == rows.SYMBOL:
            self._keep_symbols(mine, part)
        else:
            merges.insert_new(mine, table, at, part)
        self._stored(table)

    def _commit_files(self, batch: DataFrame, batch_id: int, kind: str, files: Sequence[Written]) -> None:
        """Files are left where they are when their rows are merged instead: what no commit names goes by itself."""
        session, signature = batch.sparkSession, self._signature(batch_id)
        if not appends.append_new(session, files, signature):
            suit(session, large=True)
            merges.sign(session, signature)
            periods = tuple(sorted({file.period_s for file in files} - {0}))
            part = Slice(min(file.low for file in files), max(file.high for file in files), periods)
            if kind == rows.HISTORY:
                merges.merge_history(_read(batch, files), part)
            else:
                merges.insert_new(_read(batch, files), TRADES, "ts", part)
        self._stored(TABLES[files[0].table])

    def _keep_symbols(self, mine: DataFrame, part: Slice) -> None:
        """Committed, then told of."""
        if self._tidings:
            self._tidings.put_down(mine)
        merges.insert_new(mine, SYMBOLS, "valid_from", part)
        crash.point("pipeline.symbols")
        if self._tidings:
            self._tidings.say(mine.sparkSession)

    def _finish(self, batch: DataFrame, batch_id: int) -> None:
        """Requests whose last page is in this batch: this commit, not the candles', says that it was read."""
        assert self._outcomes is not None
        found = batch.where(F.col("kind") == rows.OUTCOME).select("outcome").collect()
        pages = self._outcomes.new(bytes(row["outcome"]) for row in found)
        if pages:
            self._sign(batch, batch_id)
            self._outcomes.commit(batch.sparkSession, pages)
            self._count(REQUESTS)
            self._outcomes.announce()

    def _note_repairs(self, batch: DataFrame, batch_id: int, repairs: Sequence[Repair]) -> None:
        """Before the candles that repair: a crash on the way does both again."""
        self._repairs.take(repairs, min(period.seconds for period in self._periods))
        self._sign(batch, batch_id)
        with self.progress.phase("repaired"):
            if merges.note_repairs(batch.sparkSession, self._repairs):
                self._count(GAPS)

    def _stored(self, table: Table) -> None:
        self._count(table)
        crash.point("pipeline.stored")

    def _count(self, table: Table) -> None:
        self.commits[table.name] = self.commits.get(table.name, 0) + 1
        self.committed_ms = int(time.time() * 1_000)

    def _recompute(self, mine: DataFrame, owed: Sequence[Key], end: str) -> None:
        """Candles that trades of the batch are too late for, and those that are owed, are folded anew.

        The batch's trades are committed only after that, so a crash on the way does all of it again.
        """
        candles = recompute(mine, owed, self._periods)
        if candles:
            self._count(OHLC)
            crash.point("pipeline.corrected")
            self.corrected += len(candles)
            self._announce(candles)
        self._backlog.settle(owed, end)

    def _sign(self, batch: DataFrame, batch_id: int) -> None:
        merges.sign(batch.sparkSession, self._signature(batch_id))

    def _signature(self, batch_id: int) -> dict[str, str]:
        named = msgspec.json.encode(self._positions).decode()
        return {QUERY: NAME, BATCH: str(batch_id), POSITIONS: named, LOG: str(self._log)}

    def _bury(self, found: Iterable[Any]) -> None:
        """Put what cannot be decoded with the dead letters."""
        by_stream: dict[str, list[tuple[Entry, str]]] = {}
        for row in found:
            entry = Entry(row["id"], _fields(row["line"]))
            by_stream.setdefault(row["stream"], []).append((entry, row["error"]))
        for stream, entries in by_stream.items():
            self._calls(partial(bury, self._bus, stream, entries), "putting entries with the dead letters")

    def _ack(self, end: Offsets) -> None:
        for stream, position in end.items():
            if place(position) > place(self.progress.positions[stream]):
                ack = partial(self._bus.ack_up_to, stream, GROUPS[stream], position)
                self._calls(ack, "saying what is in the lake")


async def bury(bus: Bus, stream: str, entries: Sequence[tuple[Entry, str]]) -> None:
    """Dead-letter each entry once, also if this is done again after a crash.

    Only what a group was given and has not acked can be dead-lettered, so the group is given everything up to them.
    """
    group, last = GROUPS[stream], max(place(entry.id) for entry, _ in entries)
    while place((await bus.group(stream, group)).last) < last:
        if not await bus.read_new(stream, group, NAME, limit=_PAGE):
            break
    for entry, error in entries:
        await dead.bury(bus, stream, group, entry, error)


def look(batch: DataFrame) -> Found:
    """One small job that says what there is to commit."""
    at = F.coalesce("trade.ts", "book.ts", "ohlc.start", "gap.from", "symbol.valid_from")
    late = F.unix_millis("trade.received") - F.unix_millis("trade.ts")
    seen = (
        batch.select("kind", at.alias("at"), F.col("ohlc.period_s").alias("period_s"), late.alias("late_ms"), "end")
        .groupBy("kind", F.to_date("at").alias("day"))
        .agg(
            F.count("*").alias("count"),
            F.unix_micros(F.min("at")).alias("low"),
            F.unix_micros(F.max("at")).alias("high"),
            F.collect_set("period_s").alias("periods"),
            F.max("end").alias("end"),
            F.max("late_ms").alias("late_ms"),
        )
        .collect()
    )
    said = next(row["end"] for row in seen if row["kind"] == rows.END)
    reached = msgspec.json.decode(said, type=rows.Reached)
    late_ms = [row["late_ms"] or 0 for row in seen] + [file.late_ms for file in reached.files]
    return Found(
        {
            kind: merges.slices((row["low"], row["high"], row["periods"]) for row in seen if row["kind"] == kind)
            for kind in _STREAM
        },
        reached.positions,
        sum(row["count"] for row in seen if row["kind"] == rows.BAD),
        max(late_ms),
        sum(row["count"] for row in seen if row["kind"] == rows.OUTCOME),
        sum(row["count"] for row in seen if row["kind"] in _STREAM),
        reached.files,
        reached.repairs,
    )


def _trades(batch: DataFrame, found: Found) -> DataFrame:
    """The batch's trades, wherever they are."""
    mine = batch.where(F.col("kind") == rows.TRADE).select(f"{rows.TRADE}.*")
    files = found.files_of(rows.TRADE)
    return mine.unionByName(_read(batch, files)) if files else mine


def _read(batch: DataFrame, files: Sequence[Written]) -> DataFrame:
    return batch.sparkSession.read.parquet(*[f"file://{file.path}" for file in files])


def reason(error: Exception) -> str:
    """What went wrong in Spark, in one line: of a chain of causes the last, what Python raised, or what Java said."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if raised := _RAISED.findall(text):
        return str(raised[-1])[:300]
    causes = [line.removeprefix("Caused by:").strip() for line in lines if line.startswith("Caused by:")]
    said = [line.removeprefix(":").strip() for line in lines if not line.startswith("An error occurred while calling")]
    return (causes[-1:] or said or [type(error).__name__])[0][:300]


def _fields(line: str) -> dict[str, str]:
    try:
        return decode.fields(line.encode())
    except BadEvent:
        return {"raw": line}
