"""What Spark's workers read from Kafka."""

import json
import pickle

import pytest

from artery.bus.base import START
from artery.bus.kafka import KafkaBus
from artery.bus.reader import open_reader
from artery.errors import PositionLost, Unavailable
from tests.kafka import BROKER
from tests.servers import free_port


async def test_what_was_appended_is_read_as_json_up_to_a_position() -> None:
    url, base = BROKER.running_url(), BROKER.new_base()
    bus, reader = KafkaBus(url, base), open_reader(url, base)
    assert (reader.head("trade"), reader.read_raw("trade", START, 10)) == (START, [])
    ids = []
    for part in range(4):
        ids += await bus.append("trade", [{"n": str(part * 5 + n), "text": '"ü\n'} for n in range(5)])
    assert reader.head("trade") == ids[-1]
    rows = reader.read_raw("trade", START, 100)
    assert [(id_, json.loads(body)) for id_, body in rows] == [
        (id_, {"n": str(n), "text": '"ü\n'}) for n, id_ in enumerate(ids)
    ]
    assert [id_ for id_, _ in reader.read_raw("trade", ids[3], 5)] == ids[4:9]
    assert [id_ for id_, _ in reader.read_raw("trade", ids[3], 100, up_to=ids[7])] == ids[4:8]
    assert reader.read_raw("trade", ids[7], 100, up_to=ids[7]) == []
    assert reader.read_raw("trade", ids[7], 100, up_to=ids[3]) == []
    assert reader.read_raw("trade", ids[-1], 100) == []
    reader.close()
    await bus.close()


async def test_a_position_that_is_gone_is_reported() -> None:
    url, base = BROKER.running_url(), BROKER.new_base()
    bus, reader = KafkaBus(url, base), open_reader(url, base)
    ids = await bus.append("trade", [{"n": str(n)} for n in range(20)])
    await bus.trim("trade", keep=5)
    for position in (START, ids[3]):
        with pytest.raises(PositionLost) as lost:
            reader.read_raw("trade", position, 100, up_to=ids[-1])
        assert [id_ for id_, _ in reader.read_raw("trade", lost.value.first, 100)] == ids[15:]
    with pytest.raises(PositionLost):
        reader.read_raw("trade", "99999999999999-1", 100)
    with pytest.raises(PositionLost):
        reader.read_raw("book", ids[0], 100)
    reader.close()
    await bus.close()


async def test_a_reader_travels_to_other_processes_and_says_when_there_is_no_broker() -> None:
    url, base = BROKER.running_url(), BROKER.new_base()
    bus = KafkaBus(url, base)
    ids = await bus.append("trade", [{"n": "1"}])
    await bus.close()
    reader = pickle.loads(pickle.dumps(open_reader(url, base)))
    assert reader.head("trade") == ids[0]
    assert reader.read_raw("trade", START, 10) == [(ids[0], b'{"n":"1"}')]
    reader.close()
    assert reader.head("trade") == ids[0]
    reader.close()
    with pytest.raises(Unavailable, match="nothing listens there"):
        open_reader(f"kafka://127.0.0.1:{free_port()}").head("trade")
