"""Feeds whose leader is frozen, killed, stopped, or dies at the worst moment."""

import asyncio
import contextlib
import time

from tests.faults.logs import Log
from tests.faults.processes import Stage
from tests.faults.trial import Trial
from tests.faults.venue import scene

SLACK_S = 5.0
"""What a busy machine may add to a bound."""


async def test_a_leader_that_is_frozen_killed_or_stopped_is_followed_and_its_fence_holds(
    trial: Trial, log: Log, stage: Stage
) -> None:
    ttl_s, pauses = trial.pick((1.5, "0.1 0.3"), (10.0, ""))
    async with scene(stage, log, ttl_s=ttl_s, pauses=pauses) as one:
        first = one.feed("one")
        await one.vouched()
        second = one.feed("two")
        epoch = await one.epoch()

        began = time.monotonic()
        with first.frozen():
            # A process that is frozen in the midst of a transaction holds SQLite's lock, and so everybody up.
            bound_s = ttl_s + 5 + SLACK_S
            with contextlib.suppress(TimeoutError) if log.name == "sqlite" else contextlib.nullcontext():
                epoch = await one.led_by_newer(epoch, bound_s)
            await asyncio.sleep(max(0.0, trial.pick(0.0, 40.0) - (time.monotonic() - began)))
        epoch = max(epoch, await one.led_by_newer(0))
        await one.vouched(trial.pick(1, 10))

        second.kill()
        third = one.feed("three")
        epoch = await one.led_by_newer(epoch, ttl_s + 5 + SLACK_S)
        await one.vouched()

        await first.stop()
        await one.led_by_newer(epoch, 5 + SLACK_S)
        await one.vouched()
        await third.stop()
        await one.judge(trial)
        assert "Traceback" not in stage.said()


async def test_a_leader_that_dies_at_the_worst_moment_leaves_no_hole_unmarked(
    trial: Trial, log: Log, stage: Stage
) -> None:
    async with scene(stage, log) as one:
        times = trial.dice.randint(10, 30)
        points = [f"ingest.appended:{times}", "ingest.fenced", f"ingest.appended:{times}"]
        if log.name == "sqlite":
            points += [f"sqlite.commit:{times}"]
        for point in points:
            assert await one.feed("one", ART_CRASH_POINT=point).ended() == -9
        last = one.feed("one")
        await one.vouched(3)
        await last.stop()
        await one.judge(trial)
