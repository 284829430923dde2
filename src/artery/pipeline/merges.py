"""How rows of a batch become rows of the lake's tables: each an Iceberg commit that is idempotent by key."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from artery.lake.places import NAME
from artery.lake.tables import GAPS, OHLC, REQUESTS, Table
from artery.pipeline.repairs import Repairs
from artery.pipeline.upkeep import load

VALUES = ("open", "high", "low", "close", "volume", "trades")
_PROPERTY = "spark.sql.iceberg.snapshot-property."


class Slice(msgspec.Struct, frozen=True):
    """Where some rows lie: their first and last time in µs, and their periods, if they have any."""

    low: int
    high: int
    periods: tuple[int, ...] = ()


def insert_new(rows: DataFrame, table: Table, time: str, part: Slice) -> None:
    """Insert the rows whose key the table does not have.

    What Spark makes of a MERGE that only inserts, but for the commit: it is refused if rows came to the table since it
    was looked at, as they do when this driver has slept and another has taken its place.
    """
    looked = _newest(rows.sparkSession, table)
    there = rows.sparkSession.table(f"{NAME}.{table.full_name}").alias(table.name)
    _append(rows.alias("s").join(there, _same(table, time, part), "left_anti"), table, looked)


def insert_outcomes(rows: DataFrame, ids: Sequence[str]) -> None:
    """Insert the outcomes of requests that have none yet. They are few, so that looking first takes a fraction of the
    time of a join; people wait for it."""
    looked = _newest(rows.sparkSession, REQUESTS)
    name = f"{NAME}.{REQUESTS.full_name}"
    there = rows.sparkSession.table(name).where(F.col("request_id").isin(*ids)).select("request_id")
    known = [row["request_id"] for row in there.collect()]
    _append(rows.where(~F.col("request_id").isin(*known)) if known else rows, REQUESTS, looked)


def merge_candles(rows: DataFrame, part: Slice) -> None:
    """Our own candles: the newer version wins, and a closed one changes only by a higher `rev`."""
    s, t = _source(OHLC), _target(OHLC)
    later = (s["rev"] > t["rev"]) | ((s["rev"] == t["rev"]) & (s["updated"] > t["updated"]))
    newer = (~t["closed"] & (s["closed"] | later)) | (t["closed"] & s["closed"] & (s["rev"] > t["rev"]))
    _into(rows, OHLC, "start", part).whenMatched(newer).updateAll().whenNotMatched().insertAll().merge()


def merge_history(rows: DataFrame, part: Slice) -> None:
    """A venue's closed candles: one that differs from ours wins with a higher `rev`, an equal one changes nothing."""
    t = _target(OHLC)
    _correct(rows, part, ~t["closed"] | _differs())


def merge_recomputed(rows: DataFrame, part: Slice) -> None:
    """Closed candles folded anew from the lake's trades; the venue's word stands."""
    t = _target(OHLC)
    _correct(rows, part, (t["source"] != F.lit("history")) & (~t["closed"] | _differs()))


def note_repairs(session: Any, repairs: Repairs) -> bool:
    """Say in `gaps` what is known to be filled; whether there was something to say."""
    reach = repairs.reach_ms()
    if reach is None:
        return False
    part = Slice(reach[0] * 1_000, reach[1] * 1_000)
    rows = session.table(f"{NAME}.{GAPS.full_name}").where(within(F.col("`from`"), part))
    found = repairs.repaired(rows.toArrow().to_pylist())
    if found:
        s = _source(GAPS)
        fresh = {name: s[name] for name in ("repaired_at", "repaired_from")}
        filled = session.createDataFrame(pa.Table.from_pylist(found, schema=GAPS.schema))
        _into(filled, GAPS, "from", part).whenMatched().update(fresh).merge()
    return bool(found)


def sign(session: Any, summary: dict[str, str]) -> None:
    """Have every commit of this session name these in its summary."""
    for name, value in summary.items():
        session.conf.set(_PROPERTY + name, value)


def _correct(rows: DataFrame, part: Slice, when: Column) -> None:
    s, t = _source(OHLC), _target(OHLC)
    fresh = {name: s[name] for name in (*VALUES, "closed", "source", "updated")} | {"rev": t["rev"] + F.lit(1)}
    _into(rows, OHLC, "start", part).whenMatched(when).update(fresh).whenNotMatched().insertAll().merge()


def _differs() -> Column:
    s, t = _source(OHLC), _target(OHLC)
    differs = F.lit(False)
    for name in VALUES:
        differs = differs | (s[name] != t[name])
    return differs


def _into(rows: DataFrame, table: Table, time: str, part: Slice) -> Any:
    """A MERGE on the key."""
    return rows.alias("s").mergeInto(f"{NAME}.{table.full_name}", _same(table, time, part))


def _same(table: Table, time: str, part: Slice) -> Column:
    """Whether rows have the same key; the ranges are literals, so that files without a match are not even opened."""
    s, t = _source(table), _target(table)
    same = within(t[time], part)
    if part.periods:
        same = same & t["period_s"].isin(*part.periods)
    for name in table.key:
        same = same & (t[name] == s[name])
    return same


def _newest(session: Any, table: Table) -> str:
    """The table's newest snapshot; nothing, where there is none."""
    found = load(session, table).currentSnapshot()
    return str(found.snapshotId()) if found is not None else ""


def _append(rows: DataFrame, table: Table, looked: str) -> None:
    """Append the rows unless others were added after the snapshot `looked`: Iceberg compares with an overwrite, here
    of nothing, and with no plain append. Files that were only joined since then are no hindrance."""
    writer = rows.writeTo(f"{NAME}.{table.full_name}").option("isolation-level", "serializable")
    if looked:
        writer = writer.option("validate-from-snapshot-id", looked)
    writer.overwrite(F.lit(False))


def within(time: Column, part: Slice) -> Column:
    """Whether a time lies in the slice."""
    return time.between(F.timestamp_micros(F.lit(part.low)), F.timestamp_micros(F.lit(part.high)))


def _source(table: Table) -> dict[str, Column]:
    return _named(table, "s")


def _target(table: Table) -> dict[str, Column]:
    return _named(table, table.name)


def _named(table: Table, prefix: str) -> dict[str, Column]:
    return {name: F.col(f"{prefix}.`{name}`") for name in table.schema.names}


def slices(found: Iterable[tuple[int, int, Iterable[int]]]) -> list[Slice]:
    """The rows of each day as at most two slices: the newest day, and all before it.

    Files of a day are rewritten together, and a day that is over is left in peace.
    """
    days = sorted(found, key=lambda day: day[0])
    parts = [days[:-1], days[-1:]]
    return [
        Slice(
            min(low for low, _, _ in part),
            max(high for _, high, _ in part),
            tuple(sorted({period for _, _, periods in part for period in periods})),
        )
        for part in parts
        if part
    ]
