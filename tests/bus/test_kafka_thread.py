"""A thread for Kafka's driver: whoever waits too long is told for how long."""

import threading

import pytest

from artery.bus.kafka_server import server_of
from artery.bus.kafka_thread import Lane
from artery.errors import PositionLost, Unavailable
from tests.servers import free_port, until


async def test_a_call_that_may_take_its_time_is_said_to_have_taken_that() -> None:
    lane, done = Lane(server_of(f"kafka://127.0.0.1:{free_port()}", "ART_BUS_URL"), "test"), threading.Event()
    with pytest.raises(Unavailable, match=r"did not answer within 0\.05 s"):
        await lane.call(done.wait, within_s=0.05)
    done.set()
    await lane.close()


async def test_an_error_of_which_its_caller_did_not_hear_is_handed_on() -> None:
    lane, found = Lane(server_of(f"kafka://127.0.0.1:{free_port()}", "ART_BUS_URL"), "test"), threading.Event()
    untold: list[Exception] = []

    def lose() -> None:
        found.wait()
        raise PositionLost("some was trimmed")

    with pytest.raises(Unavailable):
        await lane.call(lose, within_s=0.05, untold=untold.append)
    found.set()
    await until(lambda: bool(untold))
    assert isinstance(untold[0], PositionLost)
    await lane.close()
