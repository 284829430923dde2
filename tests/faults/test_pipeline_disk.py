"""A pipeline whose disk is full; in long runs only, because each start of Spark takes its time."""

import msgspec

from artery.bus.base import place
from artery.lake.reads import Lake
from artery.pipeline.service import STATUS
from tests.bus.test_sqlite_trouble import mounted
from tests.faults.processes import Stage
from tests.faults.test_pipeline import START_S, a_log, ended, heads, judged, pipeline, stored
from tests.faults.trial import Trial
from tests.faults.venue import Scene, reaches, scene
from tests.pipeline.test_full_lake import fill_up


async def complains(one: Scene) -> bool:
    status = msgspec.json.decode(await one.store.get(STATUS) or b"{}")
    return "the lake could not be written" in str(status.get("error", ""))


async def moved(one: Scene, before: str) -> bool:
    return place(await one.bus.head("candle")) > place(before)


async def test_a_full_warehouse_costs_neither_a_row_nor_the_candles(trial: Trial, stage: Stage) -> None:
    async with scene(stage, a_log(stage)) as one:
        warehouse = one.folder / "sim" / "lake" / "warehouse"
        warehouse.mkdir(parents=True)
        with mounted(warehouse, "size=8m") as small:
            assert small, "only root can mount the small disk that this needs"
            feed = one.feed("feed")
            await one.vouched(2)
            child, lake = pipeline(one), Lake(one.folder / "sim")
            await reaches(lambda: stored(lake, {"trade": "1"}), START_S)
            ballast = fill_up(warehouse)
            await reaches(lambda: complains(one), START_S)
            before = await one.bus.head("candle")
            await reaches(lambda: moved(one, before), START_S)
            ballast.unlink()
            head = await heads(one)
            await reaches(lambda: stored(lake, head), START_S)
            await ended(one, feed, child)
            await judged(trial, one, head, lake)


async def test_a_full_disk_for_checkpoints_is_said_in_a_line_and_costs_no_row(trial: Trial, stage: Stage) -> None:
    async with scene(stage, a_log(stage)) as one:
        checkpoints = one.folder / "sim" / "checkpoints"
        checkpoints.mkdir(parents=True)
        with mounted(checkpoints, "size=64k") as small:
            assert small, "only root can mount the small disk that this needs"
            ballast = fill_up(checkpoints)
            feed = one.feed("feed")
            await one.vouched(2)
            child = pipeline(one)
            assert await child.ended(START_S) != 0
            assert "Traceback" not in child.log.read_text()
            ballast.unlink()
            child, lake = pipeline(one), Lake(one.folder / "sim")
            head = await heads(one)
            await reaches(lambda: stored(lake, head), START_S)
            await ended(one, feed, child)
            await judged(trial, one, head, lake)
