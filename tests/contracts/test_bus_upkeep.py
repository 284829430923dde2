"""What people's commands rely on: counts, times, fences, entries of other logs, dead letters requeued once."""

import time

import pytest

from artery.bus.base import DEAD, START, Bus, Entry
from artery.errors import BadInput, Fenced
from tests.contracts.conftest import BusKit

OLD_MS = 1_700_000_000_000


async def given_up(bus: Bus, fields: dict[str, str], stream: str = "trade") -> str:
    """An entry that its group has given up; the position of its letter."""
    await bus.ensure_group(stream, "cg_test")
    await bus.append(stream, [fields])
    [entry] = await bus.read_new(stream, "cg_test", "one")
    await bus.dead_letter(stream, "cg_test", entry, "it would not do")
    return await bus.head(DEAD)


async def test_what_follows_a_position_is_counted(bus: Bus) -> None:
    assert await bus.count_after("trade", START) == 0
    ids = await bus.append("trade", [{"n": str(n)} for n in range(300)])
    assert await bus.count_after("trade", START) == 300
    assert await bus.count_after("trade", ids[99]) == 200
    assert await bus.count_after("trade", ids[-1]) == 0
    await bus.trim("trade", keep=50)
    assert await bus.count_after("trade", ids[99]) == 50
    assert await bus.count_after("trade", ids[260]) == 39


async def test_an_entry_knows_when_it_was_appended(bus: Bus) -> None:
    before = int(time.time() * 1_000)
    ids = await bus.append("trade", [{"n": "1"}, {"n": "2"}])
    after = int(time.time() * 1_000)
    times = await bus.when("trade", ids)
    assert len(times) == 2
    assert all(before <= ms <= after for ms in times)
    assert await bus.when("trade", []) == []


async def test_fences_name_the_highest_epoch_of_each_writer(bus: Bus) -> None:
    assert await bus.fences() == {}
    await bus.append("trade", [{"n": "1"}], writer="sim", epoch=7)
    await bus.append("candle", [], writer="pipeline", epoch=1_730_000_000_000)
    await bus.append("book", [{"n": "1"}], writer="sim", epoch=9)
    assert await bus.fences() == {"sim": 9, "pipeline": 1_730_000_000_000}
    with pytest.raises(Fenced):
        await bus.append("trade", [{"n": "1"}], writer="sim", epoch=8)


async def test_restored_entries_keep_their_times_and_their_order(bus: Bus) -> None:
    rows = [(OLD_MS + n // 3 * 1_000, {"n": str(n)}) for n in range(300)]
    ids = await bus.restore("trade", rows)
    entries = await bus.read("trade")
    assert [entry.id for entry in entries] == ids
    assert [entry.fields["n"] for entry in entries] == [str(n) for n in range(300)]
    assert await bus.when("trade", ids) == [ms for ms, _ in rows]
    assert await bus.find("trade", OLD_MS + 1_000) == ids[2]
    assert await bus.restore("trade", []) == []


async def test_a_restored_time_before_the_heads_counts_as_the_heads(bus: Bus) -> None:
    first = await bus.restore("trade", [(OLD_MS, {"n": "1"})])
    second = await bus.restore("trade", [(OLD_MS - 5_000, {"n": "2"}), (OLD_MS + 5, {"n": "3"})])
    assert [entry.fields["n"] for entry in await bus.read("trade")] == ["1", "2", "3"]
    assert await bus.when("trade", first + second) == [OLD_MS, OLD_MS, OLD_MS + 5]


@pytest.mark.parametrize("rows", [[(-1, {"n": "1"})], [(OLD_MS, {})], [(OLD_MS, {"n": "1"}), (OLD_MS, {"n": 2})]])
async def test_what_cannot_be_restored_leaves_nothing(bus: Bus, rows: list[tuple[int, dict[str, str]]]) -> None:
    with pytest.raises(BadInput):
        await bus.restore("trade", rows)
    assert await bus.read("trade") == []


async def test_a_dead_letter_is_requeued_once_as_it_was(bus: Bus) -> None:
    letter = await given_up(bus, {"t": "TRADE", "id": "the entry's own", "px": "1"})
    assert await bus.requeued([letter]) == set()
    position = await bus.requeue(letter)
    entries = await bus.read("trade")
    assert (entries[-1].id, entries[-1].fields) == (position, {"t": "TRADE", "id": "the entry's own", "px": "1"})
    assert await bus.requeued([letter]) == {letter}
    with pytest.raises(BadInput, match="requeued before"):
        await bus.requeue(letter)
    assert len(await bus.read("trade")) == 2
    [again] = await bus.read_new("trade", "cg_test", "one")
    assert again.id == position


async def test_an_entry_that_was_trimmed_is_requeued_from_its_letter(bus: Bus) -> None:
    letter = await given_up(bus, {"t": "TRADE", "px": "1"})
    await bus.trim("trade", keep=0)
    await bus.requeue(letter)
    entries = await bus.read_back("trade", 1)
    assert entries[0].fields == {"t": "TRADE", "px": "1"}


async def test_what_is_no_letter_or_holds_nothing_is_refused(bus: Bus) -> None:
    with pytest.raises(BadInput, match="no dead letter"):
        await bus.requeue("12")
    letter = await given_up(bus, {"px": "1"})
    with pytest.raises(BadInput, match="no dead letter"):
        await bus.requeue(str(int(letter.split("-")[0]) + 5))
    [given] = await _pending(bus)
    await bus.dead_letter("trade", "cg_test", Entry(given.id, {}, 1), "trimmed before it was handled")
    with pytest.raises(BadInput, match="nothing of it is left"):
        await bus.requeue(await bus.head(DEAD))


async def _pending(bus: Bus) -> list[Entry]:
    await bus.append("trade", [{"px": "2"}])
    given = await bus.read_new("trade", "cg_test", "one")
    await bus.trim("trade", keep=0)
    return given


async def test_a_mark_is_seen_by_every_process(bus_kit: BusKit) -> None:
    letter = await given_up(bus_kit.open(), {"px": "1"})
    await bus_kit.open().requeue(letter)
    assert await bus_kit.open().requeued([letter, "1"]) >= {letter}
    with pytest.raises(BadInput, match="requeued before"):
        await bus_kit.open().requeue(letter)
