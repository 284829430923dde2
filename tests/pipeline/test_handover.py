"""Spark makes the next batch while one is taken, and none is taken after one that could not be."""

import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

from artery.errors import Unavailable
from artery.pipeline.handover import Handover

WAIT_S = 10.0


class Made:
    """What Spark hands over; `when` is called as it is made."""

    def __init__(self, when: Callable[[], None] = lambda: None) -> None:
        self._when = when

    def toArrow(self) -> pa.Table:  # noqa: N802 (Spark's name)
        self._when()
        return pa.table({"n": [1]})


def test_the_next_batch_is_made_while_one_is_taken_and_they_are_taken_in_turn() -> None:
    was_made = threading.Event()
    taken: list[int] = []

    def take(table: pa.Table, batch_id: int, fold_ms: int) -> None:
        if batch_id == 0:
            assert was_made.wait(WAIT_S), "the next batch was not made meanwhile"
        taken.append(batch_id)

    handover = Handover(take)
    handover.on_batch(Made(), 0)
    handover.on_batch(Made(was_made.set), 1)
    handover.on_batch(Made(), 2)
    handover.on_batch(Made(), 3)
    assert taken[:3] == [0, 1, 2]
    handover.stop()


def test_no_batch_is_taken_after_one_that_could_not_be_and_whoever_asks_is_told_why() -> None:
    taken: list[int] = []
    ended = threading.Event()

    def take(table: pa.Table, batch_id: int, fold_ms: int) -> None:
        taken.append(batch_id)
        if batch_id == 1:
            ended.set()
            raise Unavailable("the bus is away")

    handover = Handover(take)
    handover.on_batch(Made(), 0)
    assert handover.error() is None
    handover.on_batch(Made(), 1)
    assert ended.wait(WAIT_S)
    for later in (2, 3):
        with pytest.raises(Unavailable, match="the bus is away"):
            handover.on_batch(Made(), later)
    assert taken == [0, 1]
    assert isinstance(handover.error(), Unavailable)
    handover.stop()
