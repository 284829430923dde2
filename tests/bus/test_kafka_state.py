"""What a group holds is written beside its offset in little room, and nothing is lost if there is too little."""

import random

import pytest

from artery.bus.kafka import plan
from artery.bus.kafka_index import Index
from artery.bus.kafka_state import IMAGE_MAX, Held, read_image
from artery.bus.kafka_topics import numbers_of
from artery.bus.runs import Run


def held_by(*offsets: int, last: int = 0) -> Held:
    held = Held(7, 0)
    held.give(offsets, "a", 1_000)
    held.last = max(held.last, last)
    return held


def pending(held: Held) -> list[int]:
    return [offset for run in held.runs for offset in range(run.first, run.last + 1)]


def test_what_is_committed_is_the_oldest_entry_that_was_not_acked() -> None:
    held = held_by(3, 4, 5, 7, 8)
    assert (held.offset, held.last, held.pending) == (3, 9, 5)
    assert held.ack([4, 7]) == 2
    assert held.offset == 3
    assert held.ack([3, 99]) == 1
    assert held.offset == 5
    assert held.ack([5, 8]) == 2
    assert (held.offset, held.pending) == (9, 0)


def test_an_image_says_all_of_it() -> None:
    held = Held(1_730_000_000_000, 0)
    held.give([5, 6, 7, 9], "a", 1_730_000_000_001)
    held.give([11], "b", 1_730_000_000_005)
    held.give_again(lambda run: run.consumer == "a", 6, 2, "b", 1_730_000_000_009)
    again = read_image(held.image())
    assert again is not None
    assert (again.log, again.last, again.runs, again.coarse) == (held.log, held.last, held.runs, False)


def test_times_are_kept_by_a_steady_clock_and_written_by_the_wall_clock() -> None:
    held = held_by(3, 4)  # given at 1,000 of the steady clock
    again = read_image(held.image(ahead_ms=500_000))
    assert again is not None
    assert [run.given_ms for run in again.runs] == [501_000]
    again.restamp(now_ms=70_000, wall_ms=501_200)
    assert [run.given_ms for run in again.runs] == [69_800]
    again.restamp(now_ms=70_000, wall_ms=-3_600_000)
    assert [run.given_ms for run in again.runs] == [70_000]


@pytest.mark.parametrize("text", ["", "x", "{}", "c-p0"])
def test_what_others_have_committed_is_no_image(text: str) -> None:
    assert read_image(text) is None


def test_a_page_of_single_appends_fits_beside_an_offset() -> None:
    held = held_by(*range(0, 2_000, 2))  # every second offset is the broker's marker
    image = held.image()
    assert len(image) < IMAGE_MAX
    again = read_image(image)
    assert again is not None
    assert pending(again) == list(range(0, 2_000, 2))


def test_holes_that_are_too_many_are_drawn_together_and_nothing_pending_is_forgotten() -> None:
    held = held_by(*range(20_000))
    seed = random.Random(1)
    held.ack(sorted(seed.sample(range(20_000), 10_000)))
    image = held.image()
    assert len(image) <= IMAGE_MAX
    again = read_image(image)
    assert again is not None
    assert again.coarse
    assert again.offset == held.offset
    assert set(pending(again)) >= set(pending(held))
    assert len(held.runs) > len(again.runs)


def test_entries_that_nobody_heard_of_come_again_unless_others_were_given_since() -> None:
    held = held_by(1, 2, 3)
    held.give([5, 6], "b", 2_000)
    held.take_back([5, 6])
    assert (held.last, pending(held)) == (5, [1, 2, 3])
    held.take_back([1, 2])
    assert (held.last, pending(held)) == (5, [1, 2, 3])


def test_entries_are_counted_between_the_brokers_markers() -> None:
    index = Index(0)
    index.add([0, 1, 2, 4, 5, 9], 11)
    assert [index.count(low) for low in range(12)] == [6, 5, 4, 3, 3, 2, 1, 1, 1, 1, 0, 0]
    assert [index.nth(0, number) for number in range(7)] == [0, 1, 2, 4, 5, 9, -1]
    assert (index.nth(3, 1), index.count(1, 5), index.newest()) == (5, 3, 9)
    index.add([11], 12)
    assert index.count(0) == 7


def test_what_was_let_go_of_is_not_counted_again() -> None:
    index = Index(0)
    index.add(range(0, 10_000, 2), 10_000)
    index.forget(8_000)
    assert (index.count(8_000), index.count(0), index.nth(8_000, 0)) == (1_000, 1_000, 8_000)


def test_a_trim_stops_at_what_a_group_needs_and_counts_what_it_takes_all_the_same() -> None:
    index = Index(0)
    index.add(range(100), 101)
    held = Held(1, 60, [Run(40, 44, "a", 1, 0)])
    assert plan(index, 0, [], 10, 0) == (90, 0, 90)
    assert plan(index, 0, [held], 10, 0) == (40, 0, 40)
    assert plan(index, 0, [held], 10, 50) == (50, 5, 50)
    assert plan(index, 0, [held], 10, 20) == (80, 25, 80)
    assert plan(index, 50, [held], 60, 0) == (0, 0, 50)


def test_of_several_who_number_a_log_at_once_the_first_is_right() -> None:
    notes = {"log:trade A x": "5", "log:trades B y": "1", "log:trade A z": "7", "log:trade B w": "9", "epoch:sim": "3"}
    assert numbers_of(notes, "trade") == {"A": 5, "B": 9}
