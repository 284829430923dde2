"""A log whose server is killed, frozen or emptied, or is behind a bad line."""

import asyncio
import time

from tests.bus.steps import SAID_S, lateness, soon
from tests.faults.logs import Log
from tests.faults.processes import Stage
from tests.faults.proxy import Proxy
from tests.faults.traffic import FOLLOWER, WRITER, Traffic
from tests.faults.trial import Trial


async def started(stage: Stage, log: Log, trial: Trial, url: str = "") -> Traffic:
    """A writer and readers that have all found the server."""
    traffic = Traffic(stage, log, trial, url)
    traffic.follow()
    traffic.consume("a")
    traffic.generate()
    await traffic.flows(1)
    await traffic.arrived()
    return traffic


async def test_a_killed_server_loses_nothing_that_it_acknowledged(trial: Trial, server_log: Log, stage: Stage) -> None:
    traffic = await started(stage, server_log, trial)
    assert server_log.server is not None
    for number in range(trial.pick(1, 3)):
        await traffic.flows(trial.dice.randint(20, 200))
        server_log.server.kill()
        await asyncio.sleep(trial.pick(0.5, 1.0 if number else 10.0))
        server_log.server.start()
    await traffic.flows()
    await traffic.settle()


async def test_calls_to_a_frozen_server_end_in_three_seconds_and_work_goes_on(
    trial: Trial, server_log: Log, stage: Stage
) -> None:
    traffic = await started(stage, server_log, trial)
    assert server_log.server is not None
    await traffic.flows()
    async with server_log.opened() as bus:
        await bus.head("trade")
        thaw = time.monotonic() + trial.pick(3.5, 20.0)
        async with lateness() as late:
            with server_log.server.frozen():
                waits = await asyncio.gather(
                    soon(bus.append("book", [{"id": "unheard"}])),
                    soon(bus.head("trade")),
                    soon(bus.streams()),
                )
                await asyncio.sleep(thaw - time.monotonic())
            assert max(waits) < SAID_S + late()
    await traffic.flows()
    await traffic.settle()


async def test_readers_of_a_server_that_came_back_empty_are_told_and_go_on(
    trial: Trial, server_log: Log, stage: Stage
) -> None:
    traffic = await started(stage, server_log, trial)
    assert server_log.server is not None
    for _ in range(trial.pick(1, 3)):
        await traffic.flows(trial.dice.randint(20, 200))
        assert traffic.generator is not None
        async with traffic.generator.resting(stage.file(WRITER)):  # frozen, it might not have heard of an ack
            await traffic.arrived()
            server_log.server.kill()
            server_log.server.forget()
            server_log.server.start()
        await traffic.flows()
    await traffic.settle()
    assert traffic.gaps("a") >= 1
    assert traffic.gaps(FOLLOWER) >= 1


async def test_a_bad_line_to_the_server_loses_nothing(trial: Trial, redis_log: Log, stage: Stage) -> None:
    async with Proxy(redis_log.redis.port, trial.seed) as proxy:
        traffic = await started(stage, redis_log, trial, f"redis://127.0.0.1:{proxy.port}/0")
        await traffic.flows()
        for _ in range(trial.pick(6, 20)):
            fault = trial.dice.choice(["reset", "black hole", "latency", "slices", "cut off"])
            if fault == "reset":
                proxy.reset()
            elif fault == "black hole":
                proxy.black_hole()
            elif fault == "latency":
                proxy.latency_s = (0.0, 0.2)
            elif fault == "slices":
                proxy.slice_bytes = trial.dice.choice([1, 7, 100])
            else:
                proxy.cut_bytes = trial.dice.randint(1_000, 30_000)
            await asyncio.sleep(trial.dice.uniform(0.2, trial.pick(0.8, 2.5)))
            proxy.heal()
            if fault == "black hole":
                proxy.reset()  # what was held back arrives, or does not
            await traffic.flows(5)
        await traffic.settle()
