"""What every bus owes a writer, and a reader that keeps its own position."""

import asyncio
import time

import pytest

from artery.bus.base import START, Bus, Entry, place
from artery.errors import BadInput, Fenced, PositionLost
from tests.contracts.conftest import BusKit, until
from tests.contracts.processes import appender, go


def numbered(*numbers: int) -> list[dict[str, str]]:
    return [{"n": str(number), "coin": "BTC"} for number in numbers]


def numbers(entries: list[Entry]) -> list[int]:
    return [int(entry.fields["n"]) for entry in entries]


async def test_a_stream_that_does_not_exist_is_empty(bus: Bus) -> None:
    assert await bus.head("trade") == START
    assert await bus.read("trade") == []
    assert await bus.read_back("trade", 10) == []
    assert await bus.find("trade", 2**41) == START
    assert await bus.streams() == []
    assert await bus.groups("trade") == []


async def test_what_was_appended_is_read_in_order_with_the_positions_given(bus: Bus) -> None:
    positions = await bus.append("trade", numbered(1, 2, 3)) + await bus.append("trade", numbered(4))
    entries = await bus.read("trade")
    assert [entry.id for entry in entries] == positions
    assert [entry.fields for entry in entries] == numbered(1, 2, 3, 4)
    assert sorted(positions, key=place) == positions
    assert len(set(positions)) == 4
    assert await bus.head("trade") == positions[-1]


async def test_text_of_any_kind_comes_back_as_it_was(bus: Bus) -> None:
    fields = {"t": 'line\nbreak "quoted" \\ \t\x00', "ü": "価格 🚀", "empty": "", "json": '[["1","2"]]'}
    await bus.append("trade", [fields])
    assert (await bus.read("trade"))[0].fields == fields


async def test_reading_goes_on_after_any_position(bus: Bus) -> None:
    positions = []
    for first in range(0, 300, 30):
        positions += await bus.append("trade", numbered(*range(first, first + 30)))
    for at in (0, 1, 28, 29, 30, 31, 150, 298, 299):
        assert numbers(await bus.read("trade", after=positions[at])) == list(range(at + 1, 300))
    assert numbers(await bus.read("trade", after=positions[44], limit=50)) == list(range(45, 95))
    assert numbers(await bus.read("trade", limit=1)) == [0]


async def test_an_append_larger_than_any_block_keeps_its_order(bus: Bus) -> None:
    positions = await bus.append("trade", numbered(*range(1_000)))
    assert numbers(await bus.read("trade", limit=2_000)) == list(range(1_000))
    assert numbers(await bus.read("trade", after=positions[499], limit=3)) == [500, 501, 502]


async def test_read_back_gives_the_newest_first(bus: Bus) -> None:
    positions = []
    for first in range(0, 40, 4):
        positions += await bus.append("trade", numbered(*range(first, first + 4)))
    assert numbers(await bus.read_back("trade", 5)) == [39, 38, 37, 36, 35]
    assert numbers(await bus.read_back("trade", 6, before=positions[30])) == [29, 28, 27, 26, 25, 24]
    assert numbers(await bus.read_back("trade", 100)) == list(range(39, -1, -1))
    assert numbers(await bus.read_back("trade", 100, before=positions[0])) == []


async def test_streams_do_not_mix_and_bases_do_not_either(bus_kit: BusKit) -> None:
    bus, other = bus_kit.open(), bus_kit.open(bus_kit.new_base())
    await bus.append("trade", numbered(1))
    await bus.append("book", numbered(2))
    await other.append("trade", numbered(3))
    assert numbers(await bus.read("trade")) == [1]
    assert numbers(await bus.read("book")) == [2]
    assert numbers(await other.read("trade")) == [3]
    assert [state.name for state in await other.streams()] == ["trade"]


async def test_find_gives_the_last_position_before_a_time(bus: Bus) -> None:
    moments, heads = [], [START]
    for number in range(7):
        moments.append(await _next_ms())
        heads.append((await bus.append("trade", numbered(*range(number * 3, number * 3 + 3))))[-1])
    moments.append(await _next_ms())
    assert [await bus.find("trade", ms) for ms in moments] == heads
    assert await bus.find("trade", 0) == START


async def _next_ms() -> int:
    """A whole millisecond that nothing before was written in, and nothing after will be written before."""
    start = time.time_ns() // 1_000_000
    await until(lambda: time.time_ns() // 1_000_000 >= start + 2)
    return start + 2


async def test_entries_that_cannot_be_kept_are_refused_as_a_whole(bus: Bus) -> None:
    bad: list[list[dict[str, str]]] = [
        [{"n": "1"}, {"n": 2}],  # type: ignore[dict-item]
        [{"n": "1"}, {"n": None}],  # type: ignore[dict-item]
        [{"n": "1"}, {"n": b"2"}],  # type: ignore[dict-item]
        [{"n": "1"}, {"n": "\ud800"}],
        [{"n": "1"}, {}],
        [{"n": "1"}, {"n": "x" * (1024 * 1024 + 1)}],
    ]
    for entries in bad:
        with pytest.raises(BadInput):
            await bus.append("trade", entries)
    assert await bus.read("trade") == []
    assert await bus.append("trade", [{"n": "x" * 1_000_000}])


@pytest.mark.parametrize("stream", ["", "Trade", 'x"; DROP TABLE streams; --', "a:b", "a" * 100, "trade\n"])
async def test_a_name_that_is_no_stream_is_refused(bus: Bus, stream: str) -> None:
    with pytest.raises(BadInput):
        await bus.append(stream, numbered(1))
    with pytest.raises(BadInput):
        await bus.read(stream)


@pytest.mark.parametrize("position", ["", "x", "-1", "1.5", "٣", "1" * 40, "1 "])
async def test_what_is_no_position_is_refused(bus: Bus, position: str) -> None:
    await bus.append("trade", numbered(1))
    with pytest.raises(BadInput):
        await bus.read("trade", after=position)


async def test_a_lower_epoch_is_refused_and_writes_nothing(bus_kit: BusKit) -> None:
    old, new = bus_kit.open(), bus_kit.open()
    await old.append("trade", numbered(1), writer="sim", epoch=100)
    await new.append("trade", numbered(2), writer="sim", epoch=101)
    with pytest.raises(Fenced):
        await old.append("trade", numbered(3, 4), writer="sim", epoch=100)
    await new.append("trade", numbered(5), writer="sim", epoch=101)
    assert numbers(await old.read("trade")) == [1, 2, 5]


async def test_an_empty_append_only_fences(bus_kit: BusKit) -> None:
    old, new = bus_kit.open(), bus_kit.open()
    assert await new.append("trade", [], writer="sim", epoch=7) == []
    with pytest.raises(Fenced):
        await old.append("trade", numbered(1), writer="sim", epoch=6)
    assert await old.head("trade") == START


async def test_a_fence_holds_for_every_stream_of_its_writer_and_for_no_other_writer(bus: Bus) -> None:
    await bus.append("trade", [], writer="sim", epoch=7)
    with pytest.raises(Fenced):
        await bus.append("book", numbered(1), writer="sim", epoch=6)
    await bus.append("trade", numbered(2), writer="pipeline", epoch=1)
    await bus.append("trade", numbered(3))
    assert numbers(await bus.read("trade")) == [2, 3]


async def test_a_fence_outlives_a_restart(bus_kit: BusKit) -> None:
    first = bus_kit.open()
    await first.append("trade", [], writer="sim", epoch=1_730_000_000_000)
    await first.close()
    with pytest.raises(Fenced):
        await bus_kit.open().append("trade", numbered(1), writer="sim", epoch=1_729_999_999_999)


async def test_of_many_appends_at_once_each_is_whole_and_the_fenced_ones_are_not_there(bus: Bus) -> None:
    await bus.append("trade", [], writer="sim", epoch=10)
    calls = [
        bus.append("trade", numbered(*range(at * 10, at * 10 + 10)), writer="sim", epoch=9 if at % 3 == 0 else 10)
        for at in range(60)
    ]
    results = await asyncio.gather(*calls, return_exceptions=True)
    found = {entry.id: int(entry.fields["n"]) for entry in await bus.read("trade")}
    for at, result in enumerate(results):
        if at % 3 == 0:
            assert isinstance(result, Fenced)
        else:
            assert isinstance(result, list)
            assert [found.pop(position) for position in result] == list(range(at * 10, at * 10 + 10))
    assert found == {}


async def test_an_append_that_nobody_waits_for_any_more_is_whole_or_absent(bus: Bus) -> None:
    task = asyncio.create_task(bus.append("trade", numbered(*range(50))))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await bus.append("trade", numbered(99))
    assert numbers(await bus.read("trade")) in ([99], [*range(50), 99])


async def test_several_processes_write_one_stream_without_loss_or_mixture(bus_kit: BusKit) -> None:
    bus = bus_kit.open()
    processes = [await appender(bus_kit, "trade", who, batches=15, size=4) for who in ("a", "b")]

    async def own() -> None:
        for batch in range(15):
            await bus.append("trade", [{"who": "own", "batch": str(batch), "n": str(n)} for n in range(4)])

    await asyncio.gather(own(), *(go(process) for process in processes))
    entries = await bus.read("trade")
    assert len({entry.id for entry in entries}) == 180
    for at in range(0, 180, 4):
        assert len({(entry.fields["who"], entry.fields["batch"]) for entry in entries[at : at + 4]}) == 1
    for who in ("a", "b", "own"):
        seen = [(int(e.fields["batch"]), int(e.fields["n"])) for e in entries if e.fields["who"] == who]
        assert seen == [(batch, n) for batch in range(15) for n in range(4)]


async def test_follow_replays_then_waits_for_more(bus: Bus) -> None:
    await bus.append("trade", numbered(0, 1, 2))
    seen: list[int] = []

    async def watch() -> None:
        async for entries in bus.follow("trade", limit=2):
            assert 1 <= len(entries) <= 2
            seen.extend(numbers(entries))

    task = asyncio.create_task(watch())
    await until(lambda: seen == [0, 1, 2])
    for number in range(3, 10):
        await bus.append("trade", numbered(number))
        await until(lambda: seen[-1] == number)  # noqa: B023
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert seen == list(range(10))


async def test_what_was_appended_is_read_at_once_while_others_follow(bus_kit: BusKit) -> None:
    bus, other = bus_kit.open(), bus_kit.open()
    await bus.append("trade", numbered(0))
    seen: list[int] = []

    async def watch() -> None:
        async for entries in bus.follow("trade"):
            seen.extend(numbers(entries))

    task = asyncio.create_task(watch())
    await until(lambda: seen == [0])
    before = await bus.head("trade")
    for number in range(1, 100):
        [position] = await (bus if number % 2 else other).append("trade", numbered(number))
        assert numbers(await bus.read("trade", before)) == [number]
        assert numbers(await bus.read("trade"))[-1] == number
        before = position
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_follow_waits_for_a_stream_that_does_not_exist_yet(bus_kit: BusKit) -> None:
    bus, other = bus_kit.open(), bus_kit.open()
    task = asyncio.create_task(anext(aiter(bus.follow("candle"))))
    await asyncio.sleep(0.05)
    await other.append("candle", numbered(1))
    async with asyncio.timeout(30):
        assert numbers(await task) == [1]


async def test_many_followers_all_get_everything(bus_kit: BusKit) -> None:
    bus, other = bus_kit.open(), bus_kit.open()
    seen: list[list[int]] = [[] for _ in range(8)]

    async def watch(own: list[int]) -> None:
        async for entries in bus.follow("trade"):
            own.extend(numbers(entries))

    tasks = [asyncio.create_task(watch(own)) for own in seen]
    for number in range(30):
        await (bus if number % 2 else other).append("trade", numbered(number))
    await until(lambda: all(len(own) == 30 for own in seen))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(own == list(range(30)) for own in seen)


async def test_follow_sees_what_another_process_appends(bus_kit: BusKit) -> None:
    bus = bus_kit.open()
    process = await appender(bus_kit, "trade", "other", batches=5, size=3)
    seen: list[tuple[str, str]] = []

    async def watch() -> None:
        async for entries in bus.follow("trade"):
            seen.extend((entry.fields["batch"], entry.fields["n"]) for entry in entries)

    task = asyncio.create_task(watch())
    await go(process)
    await until(lambda: len(seen) == 15)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert seen == [(str(batch), str(n)) for batch in range(5) for n in range(3)]


async def test_a_trimmed_position_is_reported_lost_with_the_place_to_go_on_from(bus: Bus) -> None:
    positions = await bus.append("trade", numbered(*range(10)))
    await bus.append("trade", numbered(*range(10, 1_000)))
    await bus.trim("trade", keep=500)
    for after in (START, positions[3]):
        with pytest.raises(PositionLost) as lost:
            await bus.read("trade", after=after)
        rest = await bus.read("trade", after=lost.value.first, limit=2_000)
        state = (await bus.streams())[0]
        assert rest[0].id == state.first
        assert numbers(rest)[-1] == 999
        assert len(rest) == state.length


async def test_a_follower_whose_position_is_trimmed_is_told(bus: Bus) -> None:
    await bus.append("trade", numbered(*range(1_000)))
    await bus.trim("trade", keep=0)
    with pytest.raises(PositionLost):
        await anext(aiter(bus.follow("trade")))


async def test_a_position_past_the_head_is_reported_lost(bus_kit: BusKit) -> None:
    long, short = bus_kit.open(), bus_kit.open(bus_kit.new_base())
    await short.append("trade", numbered(0))
    positions = await long.append("trade", numbered(*range(50)))
    with pytest.raises(PositionLost) as lost:
        await short.read("trade", after=positions[-1])
    assert numbers(await short.read("trade", after=lost.value.first)) == [0]


async def test_the_head_stays_when_everything_is_trimmed_and_after_a_restart(bus_kit: BusKit) -> None:
    bus = bus_kit.open()
    positions = await bus.append("trade", numbered(*range(300)))
    trimmed = await bus.trim("trade", keep=0)
    assert trimmed.removed == 300
    assert await bus.head("trade") == positions[-1]
    assert await bus.read("trade", after=positions[-1]) == []
    assert await bus.read_back("trade", 10) == []
    state = (await bus.streams())[0]
    assert (state.length, state.first, state.head) == (0, START, positions[-1])
    await bus.close()
    again = bus_kit.open()
    assert await again.head("trade") == positions[-1]
    new = await again.append("trade", numbered(300))
    assert place(new[0]) > place(positions[-1])
    assert numbers(await again.read("trade", after=positions[-1])) == [300]


async def test_positions_are_never_used_again(bus_kit: BusKit) -> None:
    seen: list[str] = []
    for _ in range(4):
        bus = bus_kit.open()
        seen += await bus.append("trade", numbered(1, 2, 3))
        await bus.trim("trade", keep=0)
        seen += await bus.append("trade", numbered(4))
        await bus.close()
    assert sorted(seen, key=place) == seen
    assert len(set(seen)) == 16
