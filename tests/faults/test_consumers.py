"""Consumers that die, and entries that nobody can handle."""

import asyncio
import time
from collections import Counter
from functools import partial

from artery.bus.base import DEAD, Entry
from tests.faults.checker import Sent, Verdict, check
from tests.faults.entries import DEADLY, FAILING, FINE, UNDECODABLE, entry_of
from tests.faults.logs import Log
from tests.faults.processes import Stage, until
from tests.faults.records import lines, sights_of
from tests.faults.traffic import GROUP, STREAM, Traffic
from tests.faults.trial import Trial

OTHERS_WAIT_MS = 1_000
SLACK_MS = 2_000
"""What a busy machine may add to it, for one entry in ten."""

ONCE = True


def handled(stage: Stage, name: str) -> int:
    """How often this consumer has handled an entry, one that it was given again too."""
    return sum(bool(line.seen) for line in lines(stage.file(name)))


def has_handled(stage: Stage, name: str, more_than: int) -> bool:
    return handled(stage, name) > more_than


async def test_a_consumer_that_dies_again_and_again_and_then_for_good_loses_nothing(
    trial: Trial, log: Log, stage: Stage
) -> None:
    traffic = Traffic(stage, log, trial)
    traffic.generate(every_ms=30)
    crashes = ["", "bus.handled:1", "bus.handled:3"] * trial.pick(1, 2)
    for crash in trial.dice.sample(crashes, len(crashes)):
        before = handled(stage, "a")
        sink = traffic.consume("a", handle_ms=1.0, crash=crash)
        await until(partial(has_handled, stage, "a", before), "its first batch")
        await asyncio.sleep(trial.pick(0.0, 10.0))
        if crash:
            assert await sink.ended() == -9
        else:
            sink.kill()
    traffic.consume("b", idle_ms=500)
    await traffic.flows()
    assert traffic.generator is not None
    await traffic.generator.stop()
    await drained(log)
    await traffic.settle()
    async with log.opened() as bus:
        assert await bus.read(DEAD) == []


def numbered(trial: Trial, count: int) -> list[dict[str, str]]:
    """Entries of which some can never be handled."""
    fates = trial.dice.choices([FINE, UNDECODABLE, FAILING], [8, 1, 1], k=count)
    fates[1:3] = [UNDECODABLE, FAILING]
    return [entry_of("me", number, fate) for number, fate in enumerate(fates)]


async def drained(log: Log) -> None:
    """Until the group has acknowledged all that there is, also what a dead consumer had been given."""
    async with log.opened() as bus, asyncio.timeout(60):
        while True:
            state = await bus.group(STREAM, GROUP)
            if not state.pending and not state.lag:
                return
            await asyncio.sleep(0.1)


async def buried(log: Log, count: int) -> list[Entry]:
    """The dead letters, once there are so many; a moment later there must not be more."""
    found: list[Entry] = []
    async with log.opened() as bus, asyncio.timeout(60):
        while len(found) < count:
            await asyncio.sleep(0.1)
            found = await bus.read(DEAD)
        await asyncio.sleep(0.2)
        return await bus.read(DEAD)


async def append(log: Log, entries: list[dict[str, str]]) -> dict[str, int]:
    """Append each by itself; when each was there, in Unix milliseconds."""
    there: dict[str, int] = {}
    async with log.opened() as bus:
        for entry in entries:
            await bus.append(STREAM, [entry])
            there[entry["id"]] = int(time.time() * 1_000)
    return there


def judged(stage: Stage, entries: list[dict[str, str]], *readers: str) -> Verdict:
    """Those that can be handled were, each once."""
    good = [entry["id"] for entry in entries if not entry["fate"]]
    return check([Sent(good, set(good))], sights_of(stage.file(name) for name in readers), ordered=False)


async def test_an_entry_that_cannot_be_handled_is_buried_after_its_tries_and_others_do_not_wait(
    trial: Trial, log: Log, stage: Stage
) -> None:
    traffic = Traffic(stage, log, trial)
    first = entry_of("first", 0)
    await append(log, [first])
    sink = traffic.consume("a")
    await stage.sees({first["id"]}, "a")
    entries = numbered(trial, trial.pick(40, 400))
    there = await append(log, entries)
    bad = {entry["id"]: entry["fate"] for entry in entries if entry["fate"]}
    await stage.sees({entry["id"] for entry in entries} - set(bad), "a")
    found = await buried(log, len(bad))
    await sink.stop()
    trial.judge(judged(stage, [first, *entries], "a"))
    tries = {UNDECODABLE: "1", FAILING: "5"}
    assert {letter.fields["group"] for letter in found} == {GROUP}
    said = sorted((letter.fields["fate"], letter.fields["tries"]) for letter in found)
    assert said == sorted((fate, tries[fate]) for fate in bad.values())
    failed = Counter(line.error for line in lines(stage.file("a")) if line.error)
    assert failed == {id_: 5 for id_, fate in bad.items() if fate == FAILING}
    waits = sorted(line.at_ms - there[line.seen] for line in lines(stage.file("a")) if line.seen in there)
    assert waits[len(waits) * 9 // 10 - 1] < OTHERS_WAIT_MS
    assert waits[-1] < OTHERS_WAIT_MS + SLACK_MS


async def test_a_consumer_that_dies_while_it_buries_an_entry_buries_it_once(
    trial: Trial, some_log: Log, stage: Stage
) -> None:
    traffic = Traffic(stage, some_log, trial)
    entries = numbered(trial, 20)
    await append(some_log, entries)
    for crash in ("bus.refused", "bus.buried"):
        assert await traffic.consume("a", crash=crash).ended() == -9
    sink = traffic.consume("a")
    bad = [entry for entry in entries if entry["fate"]]
    await stage.sees({entry["id"] for entry in entries if not entry["fate"]}, "a")
    found = await buried(some_log, len(bad))
    await drained(some_log)
    await sink.stop()
    trial.judge(judged(stage, entries, "a"))
    assert sorted(letter.fields["fate"] for letter in found) == sorted(entry["fate"] for entry in bad)


async def test_an_entry_that_kills_its_consumers_is_buried_in_the_end_and_takes_no_other_with_it(
    trial: Trial, log: Log, stage: Stage
) -> None:
    traffic = Traffic(stage, log, trial)
    deadly = trial.dice.randint(1, 18)
    entries = [entry_of("me", number, DEADLY if number == deadly else FINE) for number in range(20)]
    async with log.opened() as bus:
        await bus.append(STREAM, entries)
    for _ in range(5):
        assert await traffic.consume("a").ended() == -9
    sink = traffic.consume("a")
    [letter] = await buried(log, 1)
    await drained(log)
    await sink.stop()
    trial.judge(judged(stage, entries, "a"))
    assert (letter.fields["fate"], letter.fields["tries"]) == (DEADLY, "5")
