"""Whatever the point at which the driver dies: no row is missing, none is there twice, every candle is its fold."""

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


@pytest.mark.parametrize("kept_as", ["rows", "files"])
def test_a_driver_that_dies_at_every_named_point_loses_and_repeats_nothing(
    spark: House, log: Log, kept_as: str
) -> None:
    coin = f"DEATHS{kept_as}"
    entries = scenario(7, coin)
    whole = Whole(spark, log, number=8_000 + len(kept_as), files=kept_as == "files")
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


def test_every_point_of_the_pipeline_is_tried() -> None:
    elsewhere = {"pipeline.finishing", "pipeline.outcomes"}  # test_storage_outcomes
    elsewhere |= {"pipeline.symbols"}  # test_storage_symbols
    tried = {f"pipeline.{point.partition(':')[0]}" for point in POINTS}
    assert tried | elsewhere == {name for name in crash.POINTS if name.startswith("pipeline.")}
