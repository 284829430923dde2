"""A group that is behind has its next page read ahead: nobody sees a difference but in time."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from artery.bus.open import open_bus
from artery.bus.sqlite import SqliteBus
from artery.errors import PositionLost

GROUP = "cg_storage_trade"


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[SqliteBus]:
    made = open_bus(f"sqlite:///{tmp_path}/bus.db")
    assert isinstance(made, SqliteBus)
    await made.append("trade", [{"n": str(n)} for n in range(1, 101)])
    await made.ensure_group("trade", GROUP)
    yield made
    await made.close()


async def page_ahead(bus: SqliteBus) -> None:
    """Read and ack a page, and wait until the next one is there."""
    first = await bus.read_new("trade", GROUP, "one", 10)
    assert await bus.ack("trade", GROUP, [entry.id for entry in first]) == 10
    await bus.head("trade")  # behind it in the same thread
    assert [entry.fields["n"] for entry in bus._ahead["md_stream:trade", GROUP]] == [str(n) for n in range(11, 21)]


async def given(bus: SqliteBus, consumer: str, limit: int) -> list[tuple[str, str, int]]:
    return [(entry.id, entry.fields["n"], entry.tries) for entry in await bus.read_new("trade", GROUP, consumer, limit)]


async def test_a_page_that_was_read_ahead_is_given_to_one_and_pending_as_any_other(bus: SqliteBus) -> None:
    await page_ahead(bus)
    wanted = [(str(n), str(n), 1) for n in range(11, 21)]
    assert await given(bus, "two", 10) == wanted
    assert (await bus.group("trade", GROUP)).pending == 10
    assert await given(bus, "one", 10) == [(str(n), str(n), 1) for n in range(21, 31)]


async def test_a_page_of_another_size_is_read_anew(bus: SqliteBus) -> None:
    await page_ahead(bus)
    assert await given(bus, "one", 3) == [(str(n), str(n), 1) for n in range(11, 14)]
    assert await given(bus, "one", 10) == [(str(n), str(n), 1) for n in range(14, 24)]


async def test_what_was_trimmed_after_it_was_read_ahead_is_reported_lost(bus: SqliteBus) -> None:
    await page_ahead(bus)
    await bus.trim("trade", keep=50, required=[], keep_at_most=50)
    with pytest.raises(PositionLost):
        await bus.read_new("trade", GROUP, "one", 10)
    assert await given(bus, "one", 10) == [(str(n), str(n), 1) for n in range(51, 61)]


async def test_the_end_of_the_log_is_not_read_ahead(bus: SqliteBus) -> None:
    last = await bus.read_new("trade", GROUP, "one", 95)
    await bus.ack("trade", GROUP, [entry.id for entry in last])
    await bus.head("trade")
    assert not bus._ahead.get(("md_stream:trade", GROUP))
    assert len(await given(bus, "one", 95)) == 5
