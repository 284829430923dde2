"""What every log owes Spark's workers: they read it without an event loop, by a position of their own."""

import json
import pickle
import subprocess
import sys

import pytest

from artery.bus.base import START, Bus, place
from artery.bus.reader import BusReader, open_reader
from artery.errors import PositionLost
from tests.contracts.conftest import BusKit

PAST = {"sqlite": "99999", "redis": "99999999999999-0", "kafka": "99999999999999-1"}
"""A position that no log of the test reaches."""


async def filled(bus: Bus) -> list[str]:
    """Twenty entries, appended in several goes, because some logs have holes between those."""
    ids = []
    for first in range(0, 20, 5):
        ids += await bus.append("trade", [{"n": str(first + n), "text": '"ü\n'} for n in range(5)])
    return ids


async def test_what_was_appended_is_read_as_json_up_to_a_position(bus_kit: BusKit) -> None:
    reader = open_reader(bus_kit.url, bus_kit.base)
    assert (reader.head("trade"), reader.read_raw("trade", START, 10)) == (START, [])
    ids = await filled(bus_kit.open())
    assert reader.head("trade") == ids[-1]
    rows = reader.read_raw("trade", START, 100)
    assert [(id_, json.loads(body)) for id_, body in rows] == [
        (id_, {"n": str(n), "text": '"ü\n'}) for n, id_ in enumerate(ids)
    ]
    assert [id_ for id_, _ in reader.read_raw("trade", ids[3], 5)] == ids[4:9]
    assert [id_ for id_, _ in reader.read_raw("trade", ids[3], 100, up_to=ids[7])] == ids[4:8]
    assert [id_ for id_, _ in reader.read_raw("trade", ids[3], 2, up_to=ids[7])] == ids[4:6]
    assert reader.read_raw("trade", ids[7], 100, up_to=ids[7]) == []
    assert reader.read_raw("trade", ids[7], 100, up_to=ids[3]) == []
    assert reader.read_raw("trade", ids[-1], 100) == []
    reader.close()


async def test_steps_lead_through_the_whole_log_a_few_entries_at_a_time(bus_kit: BusKit) -> None:
    """Where a log can tell where so many entries end, that is a position like any other, with or without an entry."""
    bus, reader = bus_kit.open(), open_reader(bus_kit.url, bus_kit.base)
    ids = await filled(bus)
    await bus.ensure_group("trade", "steps")
    for limit in (1, 2, 7):
        after, seen = ids[0], [ids[0]]
        while after != ids[-1]:
            step = reader.step(after, limit)
            end = min(step or ids[-1], ids[-1], key=place)
            page = [id_ for id_, _ in reader.read_raw("trade", after, 100, up_to=end)]
            assert step is None or len(page) <= limit
            seen, after = seen + page, end
            await bus.ack_up_to("trade", "steps", end)
        assert seen == ids
    half = reader.step(ids[3], 2) or ids[5]
    await bus.ensure_group("trade", "half")
    await bus.ack_up_to("trade", "half", half)
    given = await bus.read_new("trade", "half", "me", limit=100)
    assert [entry.id for entry in given] == [id_ for id_ in ids if place(id_) > place(half)]
    reader.close()


async def test_a_position_that_is_gone_is_reported(bus_kit: BusKit) -> None:
    bus, reader = bus_kit.open(), open_reader(bus_kit.url, bus_kit.base)
    ids = await filled(bus)
    await bus.trim("trade", keep=5)
    for position in (START, ids[3]):
        with pytest.raises(PositionLost) as lost:
            reader.read_raw("trade", position, 100, up_to=ids[-1])
        assert [id_ for id_, _ in reader.read_raw("trade", lost.value.first, 100)] == ids[15:]
    for stream, position in (("trade", PAST[bus_kit.url.partition(":")[0]]), ("book", ids[0])):
        with pytest.raises(PositionLost):
            reader.read_raw(stream, position, 100)
    reader.close()


async def test_a_reader_travels_to_another_process_and_opens_again_after_it_was_closed(bus_kit: BusKit) -> None:
    [position] = await bus_kit.open().append("trade", [{"n": "1"}])
    reader = open_reader(bus_kit.url, bus_kit.base)
    assert reader.head("trade") == position
    reader.close()
    assert reader.head("trade") == position
    assert read_elsewhere(reader) == f'[({position!r}, b\'{{"n":"1"}}\')]\n'
    reader.close()


def read_elsewhere(reader: BusReader) -> str:
    """What a process of its own reads with it."""
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).read_raw('trade', '0', 5))"
    given = pickle.dumps(reader)
    done = subprocess.run([sys.executable, "-c", code], input=given, capture_output=True, timeout=60, check=True)
    return done.stdout.decode()
