"""Runs of pending entries: pure arithmetic."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from artery.bus.runs import Run, covered, ranges

NUMBERS = st.integers(1, 40)


@settings(derandomize=True, database=None, deadline=None)
@given(st.sets(NUMBERS))
def test_ranges_hold_exactly_the_numbers_and_never_touch(numbers: set[int]) -> None:
    parts = list(ranges(numbers))
    assert {n for low, high in parts for n in range(low, high + 1)} == numbers
    assert all(before[1] + 1 < after[0] for before, after in itertools.pairwise(parts))


@settings(derandomize=True, database=None, deadline=None)
@given(st.lists(st.tuples(NUMBERS, NUMBERS)))
def test_what_several_ranges_cover_is_counted_once(parts: list[tuple[int, int]]) -> None:
    assert covered(parts) == len({n for low, high in parts for n in range(low, high + 1)})


@settings(derandomize=True, database=None, deadline=None)
@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_a_part_and_what_remains_make_up_the_run(a: int, b: int, c: int, d: int) -> None:
    run = Run(min(a, b), max(a, b), "me", 1, 0)
    low, high = min(c, d), max(c, d)
    part = run.part(low, high)
    pieces = [*run.without(low, high), *([part] if part else [])]
    assert sorted(n for piece in pieces for n in range(piece.first, piece.last + 1)) == list(
        range(run.first, run.last + 1)
    )
    assert {(piece.consumer, piece.tries) for piece in pieces} == {("me", 1)}
