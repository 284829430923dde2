"""Whatever the point at which the driver dies: no row is missing, none is there twice, every candle is its fold; here
with late trades and large batches. tests/faults/test_pipeline.py kills a process at each point, in small batches."""

import pytest

from artery import crash
from tests.pipeline.conftest import House, Log
from tests.pipeline.test_storage import rows_of
from tests.pipeline.whole import BASE, DAY, Whole, newest, scenario, values, wanted

POINTS = ("appended", "saved", "stored", "stored:2", "corrected", "committed")


class Died(BaseException):
    """Where a process of its own would be killed."""


def die() -> None:
    raise Died


def test_a_driver_that_dies_at_every_named_point_loses_and_repeats_nothing(spark: House, log: Log) -> None:
    coin = "DEATHS"
    entries = scenario(7, coin)
    whole = Whole(spark, log, number=8_005, files=True)
    size = len(entries) // len(POINTS)
    for number, point in enumerate(POINTS):
        part = entries[number * size : (number + 1) * size]
        whole.take(part, part[-1].event_ts - 1_000)
        crash.arm(f"pipeline.{point}", die)
        try:
            with pytest.raises(Died):
                whole.run()
        finally:
            crash.arm("")
        whole.begin()
    whole.take(entries[len(POINTS) * size :], entries[-1].event_ts)
    whole.run()
    whole.end(BASE + 10 * DAY)
    unique = {one.tid: one for one in entries}
    assert sorted(row["tid"] for row in rows_of(spark, "trades", f"SIM:{coin}")) == sorted(unique)
    assert {key: values(candle) for key, candle in newest(whole.shown()).items()} == wanted(list(unique.values()))
    assert whole.stored(coin) == wanted(list(unique.values()))
