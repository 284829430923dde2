"""Reading a SQLite log without an event loop."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from artery.bus.base import START
from artery.bus.reader import SqliteReader, open_reader
from artery.bus.sqlite import SqliteBus
from artery.errors import BadInput, BadSetting, PositionLost


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[SqliteBus]:
    made = SqliteBus(str(tmp_path / "bus.db"))
    yield made
    await made.close()


@pytest.fixture
def reader(tmp_path: Path) -> SqliteReader:
    return SqliteReader(str(tmp_path / "bus.db"))


def test_a_log_that_does_not_exist_yet_is_empty_and_is_not_made(tmp_path: Path) -> None:
    reader = open_reader(f"sqlite:///{tmp_path}/bus.db")
    assert reader.head("trade") == START
    assert reader.read_raw("trade", START, 10) == []
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "bus.db").touch()
    assert reader.head("trade") == START
    reader.close()


async def test_a_range_past_the_head_gives_what_there_is(bus: SqliteBus, reader: SqliteReader) -> None:
    await bus.append("trade", [{"n": "1"}, {"n": "2"}])
    assert [position for position, _ in reader.read_raw("trade", "1", 100, "50")] == ["2"]
    reader.close()


async def test_what_was_trimmed_or_replaced_is_reported_lost(bus: SqliteBus, reader: SqliteReader) -> None:
    await bus.append("trade", [{"n": str(n)} for n in range(300)])
    await bus.trim("trade", keep=100)
    for after, first in ((START, "200"), ("150", "200"), ("301", "200")):
        with pytest.raises(PositionLost) as lost:
            reader.read_raw("trade", after, 10)
        assert lost.value.first == first
    assert reader.read_raw("trade", "200", 1)[0][0] == "201"
    with pytest.raises(PositionLost):
        reader.read_raw("book", "5", 10)
    reader.close()


async def test_it_cannot_write(bus: SqliteBus, reader: SqliteReader) -> None:
    await bus.append("trade", [{"n": "1"}])
    assert reader.head("trade") == "1"
    with pytest.raises(Exception, match="readonly"):
        reader._connection.execute("DELETE FROM streams")  # type: ignore[union-attr]
    reader.close()


def test_what_it_cannot_use_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="sqlite:///"):
        open_reader("ftp://host")
    reader = open_reader(f"sqlite:///{tmp_path}/bus.db")
    with pytest.raises(BadInput):
        reader.head("No Stream")
    with pytest.raises(BadInput):
        reader.read_raw("trade", "x", 1)
