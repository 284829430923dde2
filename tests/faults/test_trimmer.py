"""The trimmer against a group that stands still: it holds, and where memory forces it, the loss is counted and said."""

from artery.bus.trimmer import HARD_CAP, trim_stream
from tests.faults.logs import Log
from tests.faults.processes import Stage
from tests.faults.traffic import FOLLOWER, GROUP, STREAM, Traffic
from tests.faults.trial import Trial


async def test_a_group_that_stands_still_holds_the_trimmer_and_a_forced_loss_is_counted_exactly(
    trial: Trial, some_log: Log, stage: Stage
) -> None:
    cap = trial.pick(100, 2_000)
    traffic = Traffic(stage, some_log, trial)
    follower, sink = traffic.follow(), traffic.consume("a")
    await traffic.generate(every_ms=0, count=cap // 2).ended()
    await traffic.arrived()
    await follower.stop()
    await sink.stop()
    await traffic.generate(every_ms=0, count=3 * cap, first=cap // 2, epoch=1).ended()
    async with some_log.opened() as dead:
        held = await dead.read_new(STREAM, GROUP, "gone for good", limit=10)
    async with some_log.opened() as bus:
        done = await trim_stream(bus, STREAM, cap)
        assert done.lost == 0
        state = await bus.group(STREAM, GROUP)
        assert (state.pending, state.lag) == (len(held), 3 * cap - len(held))
        await traffic.generate(every_ms=0, count=4 * cap, first=cap // 2 + 3 * cap, epoch=2).ended()
        done = await trim_stream(bus, STREAM, cap)
        length = next(state for state in await bus.streams() if state.name == STREAM)
        assert length.length == HARD_CAP * cap
        assert length.lost == done.lost == 3 * cap
    traffic.follow()
    traffic.consume("a", idle_ms=200)
    gone = frozenset(f"gen-{number}" for number in range(cap // 2 + 1, cap // 2 + 3 * cap + 1))
    verdict = await traffic.settle(counted=length.lost, gone=gone)
    assert verdict.said == 2 * length.lost  # by the group as by the follower
    assert traffic.gaps(FOLLOWER) == 1
    assert traffic.gaps("a") == 1
