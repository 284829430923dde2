"""What every bus owes readers that share a stream."""

import asyncio
import time

import pytest

from artery.bus.base import DEAD, START, Bus, Entry, GroupState, Trimmed, place
from artery.errors import BadInput, PositionLost
from tests.contracts.conftest import BusKit, until
from tests.contracts.processes import appender, go

G = "cg_storage_trade"


async def filled(bus: Bus, count: int, stream: str = "trade") -> list[str]:
    """A stream with so many entries and a group that was given none."""
    await bus.ensure_group(stream, G)
    return await bus.append(stream, [{"n": str(n)} for n in range(count)])


def numbers(entries: list[Entry]) -> list[int]:
    return [int(entry.fields["n"]) for entry in entries]


def ids(entries: list[Entry]) -> list[str]:
    return [entry.id for entry in entries]


async def idle(bus: Bus, consumer: str) -> list[Entry]:
    """What others have held for a moment, once they have."""
    claimed: list[Entry] = []
    async with asyncio.timeout(30):
        while not claimed:
            claimed = await bus.claim("trade", G, consumer, idle_ms=50)
    return claimed


async def test_a_group_is_given_each_entry_once_whoever_asks(bus: Bus) -> None:
    await filled(bus, 10)
    given = [await bus.read_new("trade", G, consumer, limit=4) for consumer in ("a", "b", "a", "b")]
    assert [numbers(entries) for entries in given] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], []]
    assert {entry.tries for entries in given for entry in entries} == {1}


async def test_a_consumer_may_claim_while_it_reads_and_is_given_nothing_twice(bus: Bus) -> None:
    """As a service does that works on some entries while it looks for what the dead have left."""
    await filled(bus, 5)
    assert numbers(await bus.read_new("trade", G, "a", limit=5)) == [0, 1, 2, 3, 4]
    for number in range(5, 15):
        await bus.append("trade", [{"n": str(number)}])
        asked = [bus.claim("trade", G, "a", 60_000), bus.read_new("trade", G, "a", wait_ms=5_000)]
        if number % 2:
            asked.reverse()
        assert numbers([entry for page in await asyncio.gather(*asked) for entry in page]) == [number]
        assert await bus.read_new("trade", G, "a") == []
    assert (await bus.group("trade", G)).pending == 15


async def test_what_follows_a_whole_page_is_given_whenever_it_came(bus_kit: BusKit) -> None:
    """A driver that fetches ahead meets the end first, then what was appended since: both may wait when it is asked."""
    bus, writer = bus_kit.open(), bus_kit.open()
    await filled(bus, 50)
    for after in range(50, 1_050, 100):
        page = await bus.read_new("trade", G, "a", limit=50)
        assert await bus.ack("trade", G, ids(page)) == 50
        await writer.read_back("trade", 1)
        for first in (after, after + 10):
            await writer.append("trade", [{"n": str(first + n)} for n in range(10)])
            await writer.read_back("trade", 1)
        page = await bus.read_new("trade", G, "a")
        assert numbers(page) == list(range(after, after + 20))
        await bus.ack("trade", G, ids(page))
        await writer.append("trade", [{"n": str(after + n)} for n in range(20, 100)])
        assert numbers(await bus.read_new("trade", G, "a", limit=30)) == list(range(after + 20, after + 50))


async def test_groups_do_not_disturb_each_other(bus: Bus) -> None:
    positions = await filled(bus, 5)
    await bus.ensure_group("trade", "late", start=positions[2])
    assert numbers(await bus.read_new("trade", G, "a")) == [0, 1, 2, 3, 4]
    assert numbers(await bus.read_new("trade", "late", "a")) == [3, 4]
    assert await bus.ack("trade", G, positions) == 5
    assert (await bus.group("trade", "late")).pending == 2


async def test_making_a_group_again_changes_nothing(bus: Bus) -> None:
    positions = await filled(bus, 5)
    await bus.read_new("trade", G, "a", limit=3)
    await bus.ensure_group("trade", G, start=positions[4])
    await bus.ensure_group("trade", G)
    assert numbers(await bus.read_new("trade", G, "a")) == [3, 4]


async def test_a_group_may_be_made_before_the_stream(bus: Bus) -> None:
    await bus.ensure_group("candle", G)
    assert await bus.read_new("candle", G, "a") == []
    await bus.append("candle", [{"n": "1"}])
    assert numbers(await bus.read_new("candle", G, "a")) == [1]


async def test_a_group_that_was_never_made_is_refused(bus: Bus) -> None:
    positions = await bus.append("trade", [{"n": "1"}])
    entry = (await bus.read("trade"))[0]
    for call in (
        bus.read_new("trade", "nobody", "a"),
        bus.read_pending("trade", "nobody", "a"),
        bus.claim("trade", "nobody", "a", 0),
        bus.ack("trade", "nobody", positions),
        bus.ack_up_to("trade", "nobody", positions[0]),
        bus.dead_letter("trade", "nobody", entry, "no"),
        bus.group("trade", "nobody"),
    ):
        with pytest.raises(BadInput):
            await call
    assert await bus.read(DEAD) == []


async def test_what_was_not_acked_is_given_again_and_what_was_is_not(bus: Bus) -> None:
    positions = await filled(bus, 6)
    await bus.read_new("trade", G, "a")
    assert await bus.ack("trade", G, [positions[1], positions[4]]) == 2
    assert numbers(await bus.read_pending("trade", G, "a")) == [0, 2, 3, 5]
    assert await bus.read_new("trade", G, "a") == []


async def test_what_is_done_is_acked_by_the_read_that_follows(bus: Bus) -> None:
    await filled(bus, 10)
    page = await bus.read_new("trade", G, "a", limit=4)
    for given in ([4, 5, 6, 7], [8, 9], []):
        page = await bus.read_new("trade", G, "a", limit=4, done=ids(page))
        assert numbers(page) == given
        assert (await bus.group("trade", G)).pending == len(given)
    assert await bus.read_pending("trade", G, "a") == []


async def test_what_is_done_is_acked_before_a_read_waits(bus: Bus) -> None:
    await filled(bus, 3)
    page = await bus.read_new("trade", G, "a")
    reading = asyncio.create_task(bus.read_new("trade", G, "a", wait_ms=30_000, done=ids(page)))
    async with asyncio.timeout(30):
        while (await bus.group("trade", G)).pending:
            continue
    assert not reading.done()
    await bus.append("trade", [{"n": "3"}])
    assert numbers(await reading) == [3]


async def test_what_is_done_is_acked_by_a_read_that_finds_a_loss_or_asks_for_nothing(bus: Bus) -> None:
    await filled(bus, 20)
    page = await bus.read_new("trade", G, "a", limit=4)
    assert await bus.read_new("trade", G, "a", limit=0, done=ids(page[:2])) == []
    assert (await bus.group("trade", G)).pending == 2
    await bus.trim("trade", keep=5)
    with pytest.raises(PositionLost):
        await bus.read_new("trade", G, "a", done=ids(page))
    assert (await bus.group("trade", G)).pending == 0


async def test_a_read_after_an_ack_to_a_group_that_was_never_made_is_refused(bus: Bus) -> None:
    positions = await bus.append("trade", [{"n": "1"}])
    with pytest.raises(BadInput):
        await bus.read_new("trade", "nobody", "a", done=positions)


async def test_pending_is_read_page_by_page_and_each_reading_counts_a_try(bus: Bus) -> None:
    await filled(bus, 10)
    await bus.read_new("trade", G, "a")
    for tries in (2, 3):
        after, pages = START, []
        while page := await bus.read_pending("trade", G, "a", after=after, limit=4):
            pages.append(page)
            after = page[-1].id
        assert [numbers(page) for page in pages] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert {entry.tries for page in pages for entry in page} == {tries}


async def test_pending_belongs_to_its_consumer(bus: Bus) -> None:
    await filled(bus, 6)
    await bus.read_new("trade", G, "a", limit=2)
    await bus.read_new("trade", G, "b", limit=2)
    await bus.read_new("trade", G, "a", limit=2)
    assert numbers(await bus.read_pending("trade", G, "a")) == [0, 1, 4, 5]
    assert numbers(await bus.read_pending("trade", G, "b")) == [2, 3]
    assert await bus.read_pending("trade", G, "c") == []


async def test_pending_survives_a_restart_with_its_tries(bus_kit: BusKit) -> None:
    first = bus_kit.open()
    positions = await filled(first, 4)
    await first.read_new("trade", G, "a")
    await first.ack("trade", G, positions[:1])
    await first.close()
    again = bus_kit.open()
    entries = await again.read_pending("trade", G, "a")
    assert (numbers(entries), {entry.tries for entry in entries}) == ([1, 2, 3], {2})
    assert await again.read_new("trade", G, "a") == []


async def test_ack_says_how_many_were_pending(bus: Bus) -> None:
    positions = await filled(bus, 6)
    await bus.read_new("trade", G, "a", limit=4)
    assert await bus.ack("trade", G, []) == 0
    assert await bus.ack("trade", G, [positions[5]]) == 0
    assert await bus.ack("trade", G, [positions[0], positions[0], positions[2], positions[5]]) == 2
    assert await bus.ack("trade", G, positions) == 2
    assert await bus.ack("trade", G, positions) == 0


@pytest.mark.parametrize("order", [1, -1])
async def test_acks_in_any_order_leave_nothing_behind(bus: Bus, order: int) -> None:
    positions = await filled(bus, 20)
    await bus.read_new("trade", G, "a")
    for position in (positions[::2] + positions[1::2])[::order]:
        assert await bus.ack("trade", G, [position]) == 1
    assert (await bus.group("trade", G)).pending == 0
    assert await bus.read_pending("trade", G, "a") == []


async def test_ack_up_to_is_enough_for_a_reader_that_keeps_its_own_position(bus: Bus) -> None:
    positions = await filled(bus, 10)
    await bus.ack_up_to("trade", G, positions[3])
    assert await bus.group("trade", G) == GroupState(G, lag=6, pending=0, last=positions[3])
    await bus.read_new("trade", G, "a", limit=4)
    await bus.ack_up_to("trade", G, positions[5])
    assert numbers(await bus.read_pending("trade", G, "a")) == [6, 7]
    await bus.ack_up_to("trade", G, positions[2])
    assert await bus.group("trade", G) == GroupState(G, 2, 2, positions[7], positions[6])
    await bus.ack_up_to("trade", G, positions[9])
    assert await bus.group("trade", G) == GroupState(G, lag=0, pending=0, last=positions[9])


async def test_nobody_can_be_done_with_what_was_never_written(bus_kit: BusKit) -> None:
    bus, other = bus_kit.open(), bus_kit.open(bus_kit.new_base())
    await filled(bus, 2)
    beyond = (await filled(other, 50))[-1]
    with pytest.raises(BadInput):
        await bus.ack_up_to("trade", G, beyond)
    await bus.append("trade", [{"n": "2"}])
    assert numbers(await bus.read_new("trade", G, "a")) == [0, 1, 2]


async def test_lag_and_pending_are_counted(bus: Bus) -> None:
    positions = await filled(bus, 10)
    assert await bus.group("trade", G) == GroupState(G, lag=10, pending=0, last=START)
    await bus.read_new("trade", G, "a", limit=6)
    await bus.ack("trade", G, positions[:2])
    assert await bus.group("trade", G) == GroupState(G, 4, 4, positions[5], positions[2])
    await bus.ensure_group("trade", "another", start=positions[8])
    assert [(state.name, state.lag) for state in await bus.groups("trade")] == [("another", 1), (G, 4)]


async def test_a_dead_consumers_entries_are_claimed_in_order_and_count_a_try(bus: Bus) -> None:
    positions = await filled(bus, 8)
    await bus.read_new("trade", G, "dead", limit=3)
    await bus.read_new("trade", G, "b", limit=2)
    await bus.read_new("trade", G, "dead", limit=3)
    await bus.ack("trade", G, [positions[1]])
    pages = [await bus.claim("trade", G, "b", idle_ms=0, limit=3) for _ in range(3)]
    assert [numbers(page) for page in pages] == [[0, 2, 5], [6, 7], []]
    assert {entry.tries for page in pages for entry in page} == {2}
    assert numbers(await bus.read_pending("trade", G, "b")) == [0, 2, 3, 4, 5, 6, 7]
    assert await bus.read_pending("trade", G, "dead") == []


async def test_what_is_held_for_a_short_time_is_not_claimed(bus: Bus) -> None:
    await filled(bus, 3)
    await bus.read_new("trade", G, "a")
    assert await bus.claim("trade", G, "b", idle_ms=3_600_000) == []
    assert numbers(await bus.read_pending("trade", G, "a")) == [0, 1, 2]


async def test_what_was_idle_long_enough_is_claimed(bus: Bus) -> None:
    await filled(bus, 3)
    await bus.read_new("trade", G, "a")
    assert numbers(await idle(bus, "b")) == [0, 1, 2]


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_clock_that_jumps_neither_takes_from_the_living_nor_keeps_from_the_dead(
    bus_kit: BusKit, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    wall_s, wall_ns, bus = time.time, time.time_ns, bus_kit.open()
    await filled(bus, 3)
    await bus.read_new("trade", G, "a")
    monkeypatch.setattr(time, "time", lambda: wall_s() + hours * 3_600)
    monkeypatch.setattr(time, "time_ns", lambda: wall_ns() + hours * 3_600_000_000_000)
    assert await bus.claim("trade", G, "b", idle_ms=1_800_000) == []
    assert numbers(await idle(bus, "b")) == [0, 1, 2]
    await bus.close()
    monkeypatch.undo()
    assert numbers(await idle(bus_kit.open(), "c")) == [0, 1, 2]


async def test_a_dead_letter_is_written_and_acked_in_one_step(bus: Bus) -> None:
    await filled(bus, 3)
    entries = await bus.read_new("trade", G, "a")
    entries = await bus.read_pending("trade", G, "a")
    await bus.dead_letter("trade", G, entries[1], "cannot be read")
    assert numbers(await bus.read_pending("trade", G, "a")) == [0, 2]
    (letter,) = await bus.read(DEAD)
    assert letter.fields == {
        "n": "1",
        "stream": "trade",
        "id": entries[1].id,
        "group": G,
        "error": "cannot be read",
        "tries": "2",
    }


async def test_a_dead_letter_is_written_once_whoever_gives_up(bus_kit: BusKit) -> None:
    one, two = bus_kit.open(), bus_kit.open()
    await filled(one, 1)
    (entry,) = await one.read_new("trade", G, "a")
    await asyncio.gather(*(bus.dead_letter("trade", G, entry, "no") for bus in (one, two, one, two)))
    assert len(await one.read(DEAD)) == 1
    assert (await one.group("trade", G)).pending == 0


async def test_the_largest_entry_can_be_given_up(bus: Bus) -> None:
    await bus.ensure_group("trade", G)
    await bus.append("trade", [{"n": "x" * 1_048_000}])
    (entry,) = await bus.read_new("trade", G, "a")
    await bus.dead_letter("trade", G, entry, "e" * 5_000)
    (letter,) = await bus.read(DEAD)
    assert letter.fields["n"] == entry.fields["n"]
    assert len(letter.fields["error"]) == 1_000


async def test_read_new_waits_for_the_first_entry_of_this_process_and_of_others(bus_kit: BusKit) -> None:
    bus, process = bus_kit.open(), await appender(bus_kit, "trade", "other", batches=1, size=2)
    await bus.ensure_group("trade", G)
    waiting = asyncio.create_task(bus.read_new("trade", G, "a", wait_ms=60_000))
    await bus.append("trade", [{"n": "1"}])
    assert numbers(await waiting) == [1]
    waiting = asyncio.create_task(bus.read_new("trade", G, "a", wait_ms=60_000))
    await go(process)
    assert [entry.fields["who"] for entry in await waiting] == ["other", "other"]


async def test_read_new_does_not_wait_for_ever(bus: Bus) -> None:
    await bus.ensure_group("trade", G)
    async with asyncio.timeout(30):
        assert await bus.read_new("trade", G, "a", wait_ms=30) == []


async def test_consumers_that_wait_together_share_what_comes(bus: Bus) -> None:
    await bus.ensure_group("trade", G)
    got: list[str] = []

    async def take(name: str) -> None:
        while True:
            entries = await bus.read_new("trade", G, name, limit=3, wait_ms=10_000)
            got.extend(ids(entries))
            await bus.ack("trade", G, ids(entries))

    tasks = [asyncio.create_task(take(str(name))) for name in range(4)]
    positions: list[str] = []
    for _ in range(20):
        positions += await bus.append("trade", [{"n": "1"}] * 5)
    await until(lambda: len(got) >= 100)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(got, key=place) == positions


async def test_trimming_never_passes_what_a_required_group_has_not_acked(bus: Bus) -> None:
    positions = await filled(bus, 2_000)
    await bus.ensure_group("trade", "optional")
    assert await bus.trim("trade", keep=0, required=(G, "never made")) == Trimmed(removed=0, lost=0)
    assert len(await bus.read("trade", limit=5_000)) == 2_000
    await bus.read_new("trade", G, "a", limit=1_500)
    await bus.trim("trade", keep=0, required=(G,))
    assert len(await bus.read("trade", limit=5_000)) == 2_000
    await bus.ack("trade", G, positions[:1_000])
    trimmed = await bus.trim("trade", keep=0, required=(G,))
    assert trimmed.lost == 0
    assert 0 < trimmed.removed <= 1_000
    state = next(state for state in await bus.streams() if state.name == "trade")
    assert place(state.first) <= place(positions[1_000])
    assert numbers(await bus.read_pending("trade", G, "a", limit=5_000)) == list(range(1_000, 1_500))
    assert numbers(await bus.read_new("trade", G, "a", limit=5_000)) == list(range(1_500, 2_000))


async def test_trimming_keeps_what_it_was_told_to_keep(bus: Bus) -> None:
    await filled(bus, 3_000)
    trimmed = await bus.trim("trade", keep=1_000)
    state = (await bus.streams())[0]
    assert state.length == 3_000 - trimmed.removed
    assert 1_000 <= state.length < 1_500
    assert (await bus.trim("trade", keep=5_000)).removed == 0
    assert (await bus.trim("book", keep=0)).removed == 0


async def test_a_forced_trim_counts_exactly_what_was_lost(bus: Bus) -> None:
    positions = await filled(bus, 2_000)
    await bus.ensure_group("trade", "other")
    await bus.read_new("trade", G, "a", limit=1_000)
    await bus.ack("trade", G, positions[:500:2])
    await bus.ack_up_to("trade", "other", positions[99])
    trimmed = await bus.trim("trade", keep=100, required=(G, "other"), keep_at_most=1_000)
    first = next(state.first for state in await bus.streams() if state.name == "trade")
    at = positions.index(first)
    assert trimmed.removed == at
    acked = {n for n in range(0, 500, 2) if n < 100}
    assert trimmed.lost == at - len(acked)
    assert [state.lost for state in await bus.streams() if state.name == "trade"] == [trimmed.lost]
    again = await bus.trim("trade", keep=100, required=(G, "other"), keep_at_most=1_000)
    assert again.lost == again.removed


async def test_a_group_is_told_once_that_its_next_entries_were_trimmed(bus: Bus) -> None:
    await filled(bus, 2_000)
    assert len(await bus.read_new("trade", G, "a", limit=10)) == 10
    await bus.trim("trade", keep=500)
    with pytest.raises(PositionLost) as lost:
        await bus.read_new("trade", G, "a")
    state = (await bus.streams())[0]
    assert (await bus.group("trade", G)).lag == state.length
    entries = await bus.read_new("trade", G, "a", limit=5_000)
    assert entries == [
        Entry(entry.id, entry.fields, 1) for entry in await bus.read("trade", after=lost.value.first, limit=5_000)
    ]
    assert entries[0].id == state.first


async def test_pending_that_was_trimmed_comes_back_without_fields_until_it_is_dealt_with(bus: Bus) -> None:
    positions = await filled(bus, 2_000)
    await bus.read_new("trade", G, "a", limit=3)
    await bus.trim("trade", keep=100)
    vanished = await bus.read_pending("trade", G, "a")
    assert [(entry.id, entry.fields) for entry in vanished] == [(position, {}) for position in positions[:3]]
    await bus.dead_letter("trade", G, vanished[0], "trimmed")
    assert await bus.ack("trade", G, positions[1:3]) == 2
    assert await bus.read_pending("trade", G, "a") == []
    assert [letter.fields["id"] for letter in await bus.read(DEAD)] == [positions[0]]
