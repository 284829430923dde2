"""A pipeline that dies between two of its steps; in long runs only, because each start of Spark takes half a minute."""

import asyncio
from collections import defaultdict

from artery.bus.base import place
from artery.lake.reads import Lake
from tests.faults.checker import Seen, Sent, Sight, check, closed_again
from tests.faults.logs import Log
from tests.faults.processes import Child, Stage
from tests.faults.trial import Trial
from tests.faults.venue import COINS, Scene, reaches, scene
from tests.journeys import ledger

ONCE = True
START_S = 240.0


def pipeline(one: Scene, point: str = "") -> Child:
    more = {"ART_PIPELINE_STORE_S": "2", "ART_PIPELINE_SLOW_STORE_S": "4", "ART_CRASH_POINT": point}
    return one.stage.run(["artery", "run", "pipeline"], "pipeline", one.environ | more)


async def stored_up_to(lake: Lake, position: str) -> bool:
    found = await asyncio.to_thread(lake.positions)
    return place(found.get("trade", "0")) >= place(position)


async def reopened(one: Scene) -> int:
    """How often a candle that was closed is open again in the log."""
    shown = defaultdict(list)
    for entry in await one.entries("candle"):
        said = entry.fields
        key = (said["coin"], said["interval"], said["startTs"])
        shown[key].append((said["isClosed"] == "true", int(said["rev"])))
    assert shown
    return sum(closed_again(states) for states in shown.values())


async def test_a_pipeline_that_dies_between_its_steps_stores_every_trade_once(trial: Trial, stage: Stage) -> None:
    log = Log("sqlite", f"sqlite:///{stage.folder}/md_stream/sim/bus.db", "md_stream", None)
    async with scene(stage, log) as one:
        feed = one.feed("feed")
        await one.vouched(2)
        for point in (f"pipeline.appended:{trial.dice.randint(2, 6)}", "pipeline.committed"):
            assert await pipeline(one, point).ended(START_S) == -9
        last = pipeline(one)
        head, lake = await one.bus.head("trade"), Lake(one.folder / "sim")
        await reaches(lambda: stored_up_to(lake, head), START_S)
        await last.stop()
        await feed.stop()
        sent = [entry.fields | {"place": entry.id} for entry in await one.entries("trade")]
        names = {f"{said['coin']}/{said['ts']}/{said['tid']}": said["place"] for said in sent}
        acked = {name for name, at in names.items() if place(at) <= place(head)}
        rows = ledger.lake_trades(lake, COINS)
        sights: list[Sight] = [
            Seen(f"{coin}/{ts}/{tid}", str(copy)) for (coin, ts, tid), copies in rows.items() for copy in range(copies)
        ]
        trial.judge(check([Sent(list(names), acked)], sights, ordered=False))
        assert await reopened(one) == 0, trial.again
