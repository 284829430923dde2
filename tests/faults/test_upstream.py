"""A venue that goes silent, talks garbage, shouts, or turns everybody away again and again."""

import asyncio
import re
import time

import msgspec

from tests.faults.logs import Log
from tests.faults.processes import Stage
from tests.faults.proxy import Proxy
from tests.faults.trial import Trial
from tests.faults.venue import Scene, scene

NOTICED_S, BACK_S = 15.0, 25.0
SILENT_S = 5.0
SLACK_S = 5.0
GARBAGE = 8

ONCE = True


def counted(stage: Stage, name: str) -> float:
    """A number that the feed printed at its end, over all labels."""
    return sum(float(value) for value in re.findall(rf"^{name}{{.*}} (\S+)$", stage.said(), re.MULTILINE))


async def half_open(one: Scene, proxy: Proxy) -> None:
    """The socket stays, and nothing comes any more."""
    await one.becomes(True, 30)
    began = time.monotonic()
    proxy.black_hole()
    assert await one.becomes(False, NOTICED_S + SLACK_S) > SILENT_S, "it was not the silence that was noticed"
    proxy.heal()
    proxy.reset()  # what the hole swallowed does not come back
    await one.becomes(True, BACK_S + SLACK_S)
    assert time.monotonic() - began < BACK_S + SLACK_S


async def storm(one: Scene, proxy: Proxy, lasts_s: float) -> None:
    """Everybody is cut off and turned away; how often the feed tries is what its backoff allows."""
    await one.becomes(True, 30)
    before = proxy.accepted
    await one.disturb(drop=True, refuse_s=lasts_s)
    await one.becomes(False, NOTICED_S + SLACK_S)
    await asyncio.sleep(lasts_s)
    tries = proxy.accepted - before
    assert 1 <= tries <= 3 + lasts_s / 4, f"{tries} tries in {lasts_s:.0f} s"
    await one.becomes(True, 30 + SLACK_S)


async def noise(one: Scene, proxy: Proxy, rounds: int) -> None:
    """Frames that are no good, and large ones, between good ones that come in small pieces."""
    for number in range(rounds):
        proxy.slice_bytes = 0 if number % 2 else 200
        await one.disturb(garbage=GARBAGE, huge_frame_bytes=10_000_000 if number % 2 else 0)
        await one.vouched(1)
    proxy.heal()
    marks = [entry for entry in await one.entries("feed") if entry.fields["t"] == "MARK"]
    assert len(marks) <= 2, "garbage is no reason for a hole"


async def test_a_bad_upstream_is_noticed_and_left_and_everything_it_said_well_is_there(
    trial: Trial, sqlite_log: Log, stage: Stage
) -> None:
    """Two feeds at the same time, because most of it is waiting."""

    async def silent() -> None:
        async with scene(stage, sqlite_log) as one, Proxy(one.port, trial.seed) as proxy:
            feed = one.feed("silent", ART_VENUE_WS_URL=f"ws://127.0.0.1:{proxy.port}/ws")
            await one.vouched(1)
            for _ in range(trial.pick(1, 2)):
                await half_open(one, proxy)
            await one.vouched(1)
            await feed.stop()
            await one.judge(trial)

    async def loud() -> None:
        other = msgspec.structs.replace(sqlite_log, base=f"{sqlite_log.base}_loud")
        async with scene(stage, other) as one, Proxy(one.port, trial.seed) as proxy:
            feed = one.feed("loud", ART_VENUE_WS_URL=f"ws://127.0.0.1:{proxy.port}/ws")
            await one.vouched(1)
            await noise(one, proxy, trial.pick(2, 20))
            await storm(one, proxy, trial.pick(3.0, 40.0))
            await one.vouched(1)
            await feed.stop()
            await one.judge(trial)
            assert counted(stage, "artery_provider_bad_total") >= GARBAGE

    async with asyncio.TaskGroup() as group:
        group.create_task(silent())
        group.create_task(loud())
