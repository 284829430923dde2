"""Parts of a series join without a hole or a repeat, however they were cut; what is missing is said."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from artery.gateway.stitch import Hole, Stitch
from artery.gateway.stretch import Part, Stretch
from artery.model.series import Position

Seen = list[Hole | Position]
EPOCHS = st.lists(st.integers(1, 12), min_size=1, max_size=5)


def log_of(epochs: list[int]) -> list[Position]:
    """A series: so many events in each epoch."""
    return [
        Position(epoch, seq, epoch * 1_000 + seq) for epoch, size in enumerate(epochs, 1) for seq in range(1, size + 1)
    ]


def stretch(places: Sequence[Position]) -> Stretch:
    """Places as a stretch, each with one byte on the wire."""
    rows = np.array([(at.epoch, at.seq, at.event_ts, at.event_ts) for at in places], np.int64).reshape(-1, 4)
    return Stretch(*rows.T, np.arange(1, len(places) + 1), b"x" * len(places))


def one_by_one(stitch: Stitch[Position], part: Sequence[Position]) -> Seen:
    return [item for place in part for item in stitch.take(place, place)]


def at_once(stitch: Stitch[Position], part: Sequence[Position]) -> Seen:
    seen: Seen = []
    for item in stitch.take_all(Part(stretch(part), 0, len(part))):
        seen += [item] if isinstance(item, Hole) else [item.stretch.place(i) for i in range(item.low, item.high)]
    return seen


def events(seen: Seen) -> list[Position]:
    return [item for item in seen if isinstance(item, Position)]


def losses(seen: Seen) -> list[Hole]:
    """Holes in which something is missing; the change of leaders alone is none."""
    return [item for item in seen if isinstance(item, Hole) and not item.turn]


@given(EPOCHS, st.data())
def test_overlapping_parts_give_the_log_from_where_the_client_was(epochs: list[int], data: st.DataObject) -> None:
    log = log_of(epochs)
    start = data.draw(st.integers(0, len(log)))
    lake_end = data.draw(st.integers(start, len(log)))
    bus_start = data.draw(st.integers(0, lake_end))
    bus_end = data.draw(st.integers(lake_end, len(log)))
    live_start = data.draw(st.integers(0, bus_end))
    stitch: Stitch[Position] = Stitch(log[start - 1] if start else None)
    parts = [log[max(0, start - 2) : lake_end], log[bus_start:bus_end], log[live_start:]]
    ways = [data.draw(st.sampled_from((one_by_one, at_once))) for _ in parts]
    seen = [item for way, part in zip(ways, parts, strict=True) for item in way(stitch, part)]
    assert events(seen) == log[start:]
    assert losses(seen) == []


@given(EPOCHS, st.data())
def test_a_change_of_leaders_is_told_where_it_was(epochs: list[int], data: st.DataObject) -> None:
    log = log_of(epochs)
    way = data.draw(st.sampled_from((one_by_one, at_once)))
    seen = way(Stitch(), log)
    turns = [seen[index + 1] for index, item in enumerate(seen) if isinstance(item, Hole)]
    assert turns == [place for place in log if place.seq == 1 and place.epoch > 1]


@given(EPOCHS, st.data())
def test_what_is_in_no_part_is_a_hole_exactly_there(epochs: list[int], data: st.DataObject) -> None:
    """Any stretches of the log are lost, also whole epochs and their ends; nothing is lost in silence."""
    log = log_of(epochs)
    there = data.draw(st.lists(st.booleans(), min_size=len(log), max_size=len(log)))
    start = data.draw(st.integers(0, len(log)))
    stitch: Stitch[Position] = Stitch(log[start - 1] if start else None)
    seen: Seen = []
    part = log[start - 1 : start] if start else []  # the log reaches back to what the client has
    for index, is_there in enumerate([*there[start:], False], start):
        if is_there:
            part.append(log[index])
            continue
        way = data.draw(st.sampled_from((one_by_one, at_once)))
        seen += way(stitch, part)
        part = []
        stitch.torn()
    assert events(seen) == [place for place, is_there in zip(log[start:], there[start:], strict=True) if is_there]
    last = log[start - 1] if start else None
    hole: Hole | None = None
    for item in seen:
        if isinstance(item, Hole):
            hole = item
            continue
        missing = [place for place in log if (last is None or place > last) and place < item]
        if last is not None or not there[0]:
            assert (hole is not None and not hole.turn) == bool(missing)
        if hole is not None and missing and last is not None:
            assert hole.after == last
            assert (hole.to.epoch, hole.to.seq) == (item.epoch, item.seq - 1)
        last, hole = item, None


@given(EPOCHS, st.data())
def test_many_at_once_are_taken_as_one_by_one(epochs: list[int], data: st.DataObject) -> None:
    log = log_of(epochs)
    first: Stitch[Position] = Stitch()
    second: Stitch[Position] = Stitch()
    for _ in range(data.draw(st.integers(1, 4))):
        part = sorted(data.draw(st.sets(st.sampled_from(log))))
        if data.draw(st.booleans()):
            first.torn(7)
            second.torn(7)
        assert at_once(first, part) == one_by_one(second, part)
        assert first.last == second.last


def test_a_new_epoch_that_does_not_begin_at_its_first_event_has_a_hole() -> None:
    stitch: Stitch[int] = Stitch(Position(1, 5, 0))
    assert stitch.take(Position(1, 5, 0), 0) == []
    turn, item = stitch.take(Position(2, 1, 0), 1)
    assert isinstance(turn, Hole)
    assert (turn.turn, item) == (True, 1)
    lost = stitch.take(Position(3, 2, 0), 2)[0]
    assert isinstance(lost, Hole)
    assert not lost.turn


def test_a_new_epoch_in_a_log_that_does_not_reach_back_is_a_hole() -> None:
    stitch: Stitch[int] = Stitch(Position(1, 5, 0))
    lost = stitch.take(Position(2, 1, 0), 1)[0]
    assert isinstance(lost, Hole)
    assert not lost.turn
