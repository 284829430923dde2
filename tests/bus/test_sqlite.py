"""What the SQLite bus owes beyond the contract."""

import asyncio
import sqlite3
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from artery.bus.base import START
from artery.bus.open import open_bus
from artery.bus.sqlite import SqliteBus
from artery.errors import BadSetting, CannotStart, TooMuch, Unavailable
from artery.store import sqlite_thread


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[SqliteBus]:
    made = SqliteBus(str(tmp_path / "bus.db"))
    yield made
    await made.close()


def numbered(count: int) -> list[dict[str, str]]:
    return [{"n": str(n)} for n in range(count)]


async def test_positions_are_decimal_row_numbers(bus: SqliteBus) -> None:
    assert await bus.append("trade", numbered(3)) == ["1", "2", "3"]
    assert await bus.append("trade", numbered(1)) == ["4"]
    assert await bus.append("book", numbered(1)) == ["1"]


async def test_a_trim_is_exact_and_gives_the_space_back(bus: SqliteBus, tmp_path: Path) -> None:
    for _ in range(120):
        await bus.append("trade", numbered(100))
    assert (await bus.trim("trade", keep=777)).removed == 12_000 - 777
    state = (await bus.streams())[0]
    assert (state.length, state.first, state.head) == (777, "11224", "12000")
    with sqlite3.connect(tmp_path / "bus.db") as connection:
        rows, first = connection.execute('SELECT count(*), min(first) FROM "md_stream:trade"').fetchone()
    connection.close()
    assert (rows, first) == (8, 11_201)


async def test_find_knows_what_was_trimmed_and_does_not_go_back_with_the_clock(tmp_path: Path) -> None:
    now = [100.0]
    bus = SqliteBus(str(tmp_path / "bus.db"), clock=lambda: now[0])
    for second in (100.0, 101.0, 102.0, 50.0, 103.0):
        now[0] = second
        await bus.append("trade", numbered(2))
    assert [await bus.find("trade", ms) for ms in (100_000, 100_001, 101_500, 102_000, 102_001, 200_000)] == [
        START,
        "2",
        "4",
        "4",
        "8",
        "10",
    ]
    await bus.trim("trade", keep=5)
    assert [await bus.find("trade", ms) for ms in (101_500, 102_001)] == [START, "8"]
    await bus.trim("trade", keep=0)
    assert [await bus.find("trade", ms) for ms in (103_000, 103_001)] == [START, "10"]
    await bus.close()


async def test_closing_twice_is_fine_and_what_was_submitted_before_is_written(tmp_path: Path) -> None:
    bus = SqliteBus(str(tmp_path / "bus.db"))
    calls = [asyncio.create_task(bus.append("trade", numbered(10))) for _ in range(20)]
    await asyncio.sleep(0)
    await asyncio.gather(bus.close(), bus.close())
    assert len(await asyncio.gather(*calls)) == 20
    await bus.close()
    again = SqliteBus(str(tmp_path / "bus.db"))
    assert await again.head("trade") == "200"
    await again.close()


async def test_a_closed_bus_says_so_also_to_those_who_wait(tmp_path: Path) -> None:
    bus = SqliteBus(str(tmp_path / "bus.db"))
    await bus.ensure_group("trade", "g")
    following = asyncio.create_task(anext(aiter(bus.follow("trade"))))
    reading = asyncio.create_task(bus.read_new("trade", "g", "a", wait_ms=60_000))
    await bus.head("trade")
    await asyncio.sleep(0.02)
    await bus.close()
    for call in (following, reading, bus.append("trade", numbered(1)), bus.read("trade"), bus.streams()):
        with pytest.raises(Unavailable):
            await call


async def test_calls_in_excess_of_what_may_wait_are_refused(bus: SqliteBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_thread, "JOBS_MAX", 5)
    results = await asyncio.gather(*(bus.append("trade", numbered(1)) for _ in range(500)), return_exceptions=True)
    refused = [result for result in results if isinstance(result, TooMuch)]
    assert refused
    assert len(await bus.read("trade")) == 500 - len(refused)


async def test_a_bus_can_be_used_from_one_loop_after_another(tmp_path: Path) -> None:
    bus = SqliteBus(str(tmp_path / "bus.db"))

    def in_a_loop_of_its_own(start: str) -> list[str]:
        async def work() -> list[str]:
            waiting = asyncio.create_task(anext(aiter(bus.follow("trade", after=start))))
            await asyncio.sleep(0.03)
            await bus.append("trade", numbered(1))
            async with asyncio.timeout(30):
                return [entry.id for entry in await waiting]

        return asyncio.run(work())

    assert await asyncio.to_thread(in_a_loop_of_its_own, START) == ["1"]
    assert await asyncio.to_thread(in_a_loop_of_its_own, "1") == ["2"]
    await bus.close()


_APPEND_ONE = """
import asyncio, sys
from artery.bus.open import open_bus

async def main():
    bus = open_bus(sys.argv[1])
    await bus.append("trade", [{"n": "1"}])
    await bus.close()

asyncio.run(main())
"""


async def python(code: str, *arguments: str) -> Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-c", code, *arguments, stdout=PIPE, stderr=PIPE)


async def test_several_processes_may_open_a_new_log_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/deep/in/bus.db"
    processes = [await python(_APPEND_ONE, url) for _ in range(4)]
    for process in processes:
        _, said = await process.communicate()
        assert (process.returncode, said) == (0, b"")
    bus = open_bus(url)
    assert await bus.head("trade") == "4"
    await bus.close()


async def test_a_log_of_a_newer_artery_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "bus.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(CannotStart, match="newer"):
        SqliteBus(str(path))


@pytest.mark.parametrize("base", ["", "1a", 'a"b', "a b", "a" * 65, "a:b"])
async def test_a_base_that_cannot_name_streams_is_refused(tmp_path: Path, base: str) -> None:
    with pytest.raises(BadSetting, match="ART_BUS_BASE"):
        SqliteBus(str(tmp_path / "bus.db"), base)


@pytest.mark.parametrize("url", ["", "bus.db", "ftp://host/x", "sqlite://", "sqlite:///"])
async def test_a_url_that_names_no_log_is_refused(url: str) -> None:
    with pytest.raises(BadSetting, match="sqlite:///"):
        open_bus(url)
