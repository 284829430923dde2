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

ONCE = True


async def test_a_leader_that_is_frozen_killed_or_stopped_is_followed_and_its_fence_holds(
    trial: Trial, each_log: Log, stage: Stage
) -> None:
    ttl_s, pauses = trial.pick((2.0, "0.1 0.3"), (20.0, ""))
    bound_s = ttl_s + 5 + SLACK_S
    async with scene(stage, each_log, ttl_s=ttl_s, pauses=pauses) as one:
        one.feed("one")
        await one.vouched(1)
        one.feed("two")
        began, epoch = time.monotonic(), await one.epoch()
        with one.leader(epoch).frozen():
            # A process that is frozen in the midst of a transaction holds the lock of a SQLite file, of the log or of
            # the store, and so everybody up.
            with contextlib.nullcontext() if one.shared_url else contextlib.suppress(TimeoutError):
                await one.led_by_newer(epoch, bound_s)
            await asyncio.sleep(max(0.0, trial.pick(0.0, 40.0) - (time.monotonic() - began)))
        epoch = await one.led_by_newer(epoch)
        await one.vouched(trial.pick(1, 5))

        one.leader(epoch).kill()
        one.feed("three")
        epoch = await one.led_by_newer(epoch, bound_s)
        await one.vouched()

        await one.leader(epoch).stop()
        await one.led_by_newer(epoch, 5 + SLACK_S)
        await one.vouched(1)
        await one.judge(trial)
        assert "Traceback" not in stage.said()


async def test_a_leader_that_dies_at_the_worst_moment_leaves_no_hole_unmarked(
    trial: Trial, some_log: Log, stage: Stage
) -> None:
    async with scene(stage, some_log, ttl_s=1.5) as one:
        times = trial.dice.randint(10, 30)
        points = [f"ingest.appended:{times}", "ingest.fenced"]
        if some_log.name == "sqlite":
            points += [f"sqlite.commit:{times}"]
        for point in points:
            assert await one.feed("one", ART_CRASH_POINT=point).ended() == -9
        last = one.feed("one")
        await one.vouched(3)
        await last.stop()
        await one.judge(trial)
