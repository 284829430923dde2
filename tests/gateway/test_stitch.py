"""Parts of a series join without a hole or a repeat, however they were cut."""

from hypothesis import given
from hypothesis import strategies as st

from artery.gateway.stitch import Hole, Stitch
from artery.model.series import Position


def log_of(epochs: list[int]) -> list[Position]:
    """A series: so many events in each epoch."""
    return [
        Position(epoch, seq, epoch * 1_000 + seq) for epoch, size in enumerate(epochs, 1) for seq in range(1, size + 1)
    ]


@given(st.lists(st.integers(1, 12), min_size=1, max_size=5), st.data())
def test_overlapping_parts_give_the_log_from_where_the_client_was(epochs: list[int], data: st.DataObject) -> None:
    log = log_of(epochs)
    start = data.draw(st.integers(0, len(log)))
    lake_end = data.draw(st.integers(start, len(log)))
    bus_start = data.draw(st.integers(0, lake_end))
    bus_end = data.draw(st.integers(lake_end, len(log)))
    live_start = data.draw(st.integers(0, bus_end))
    stitch: Stitch[Position] = Stitch(log[start - 1] if start else None)
    parts = [log[max(0, start - 2) : lake_end], log[bus_start:bus_end], log[live_start:]]
    seen = [item for part in parts for place in part for item in stitch.take(place, place)]
    first = start if start else max(0, start - 2)
    assert seen == log[first:]


@given(st.integers(2, 30), st.data())
def test_what_is_in_no_part_is_a_hole_with_both_ends(size: int, data: st.DataObject) -> None:
    log = log_of([size])
    cut = data.draw(st.integers(1, size - 1))
    gone = data.draw(st.integers(1, size - cut))
    stitch: Stitch[Position] = Stitch()
    seen = [item for place in log[:cut] + log[cut + gone :] for item in stitch.take(place, place)]
    holes = [item for item in seen if isinstance(item, Hole)]
    if cut + gone == size:
        assert not holes
    else:
        assert [(hole.after.seq, hole.to.seq) for hole in holes] == [(cut, cut + gone)]
        assert seen.index(holes[0]) == cut


def test_a_new_epoch_that_does_not_begin_at_its_first_event_has_a_hole() -> None:
    stitch: Stitch[int] = Stitch(Position(1, 5, 0))
    assert stitch.take(Position(2, 1, 0), 1) == [1]
    assert isinstance(stitch.take(Position(3, 2, 0), 2)[0], Hole)
