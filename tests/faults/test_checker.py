"""The checker finds each kind of trouble, and nothing in a run without any."""

import pytest

from tests.faults.checker import Gap, Seen, Sent, Sight, Verdict, check, check_feed, closed_again, stale_fences

IDS = [f"a-{n}" for n in range(1, 7)]
ALL = Sent(IDS, set(IDS))


def seen(*numbers: int) -> list[Sight]:
    return [Seen(f"a-{n}", str(n)) for n in numbers]


def test_a_run_without_trouble_is_clean() -> None:
    verdict = check([ALL], seen(1, 2, 3, 4, 5, 6))
    assert verdict == Verdict(sent=6)
    assert verdict.clean


def test_what_was_acknowledged_and_never_seen_is_lost() -> None:
    assert check([ALL], seen(1, 2, 3, 4), ordered=False) == Verdict(sent=6, lost=2)
    assert check([ALL], seen(1, 2, 3, 4)).lost == 2
    assert not check([ALL], seen(1, 2, 3, 4)).clean


def test_a_hole_without_a_word_is_an_undetected_gap() -> None:
    assert check([ALL], seen(1, 2, 5, 6)) == Verdict(sent=6, lost=2, gaps=1)
    assert check([ALL], seen(1, 3, 5, 6)) == Verdict(sent=6, lost=2, gaps=2)


def test_a_hole_that_was_told_is_no_loss() -> None:
    told = [*seen(1, 2), Gap("trimmed"), *seen(5, 6)]
    assert check([ALL], told) == Verdict(sent=6, said=2)
    assert check([ALL], [Gap(), *seen(3, 4, 5, 6)]) == Verdict(sent=6, said=2)
    assert check([ALL], [*seen(1, 2, 3, 4), Gap()]) == Verdict(sent=6, said=2)


def test_a_gap_excuses_only_the_hole_at_its_place() -> None:
    told = [*seen(1), Gap(), *seen(3, 5, 6)]
    assert check([ALL], told) == Verdict(sent=6, lost=1, said=1, gaps=1)


def test_what_a_group_lost_must_be_counted_by_the_log() -> None:
    assert check([ALL], seen(3, 4, 5, 6), ordered=False, counted=2) == Verdict(sent=6, said=2)
    assert check([ALL], seen(3, 4, 5, 6), ordered=False, counted=1) == Verdict(sent=6, said=1, lost=1)


def test_the_same_event_at_two_places_is_a_duplicate_and_at_one_place_twice_is_not() -> None:
    assert check([ALL], [*seen(1, 2, 3, 4, 5, 6), Seen("a-3", "9")]) == Verdict(sent=6, duplicate=1)
    assert check([ALL], [*seen(1, 2, 3, 2, 3, 4, 5, 6)]) == Verdict(sent=6)


def test_what_nobody_sent_and_what_was_refused_are_phantoms() -> None:
    assert check([ALL], [*seen(1, 2, 3, 4, 5, 6), Seen("b-1", "7")]) == Verdict(sent=6, phantom=1)
    refused = Sent(IDS, set(IDS[:5]), {"a-6"})
    assert check([refused], seen(1, 2, 3, 4, 5)) == Verdict(sent=6)
    assert check([refused], seen(1, 2, 3, 4, 5, 6)) == Verdict(sent=6, phantom=1)


@pytest.mark.parametrize("landed", [seen(1, 2, 5, 6), seen(1, 2, 3, 5, 6), seen(1, 2, 3, 4, 5, 6)])
def test_without_an_answer_either_is_right(landed: list[Sight]) -> None:
    unanswered = Sent(IDS, set(IDS) - {"a-3", "a-4"})
    assert check([unanswered], landed) == Verdict(sent=6, unknown=2)


def test_several_writers_are_judged_each_by_its_own_order() -> None:
    other = Sent(["b-1", "b-2", "b-3"], {"b-1", "b-2", "b-3"})
    mixed = [*seen(1), Seen("b-1", "b1"), *seen(2, 3), Seen("b-3", "b3"), *seen(4, 5, 6)]
    assert check([ALL, other], mixed) == Verdict(sent=9, lost=1, gaps=1)


def test_verdicts_add_up() -> None:
    assert Verdict(1, 2, 3, 4, 5, 6, 7) + Verdict(sent=1, gaps=1) == Verdict(2, 2, 3, 4, 5, 6, 8)


def test_an_old_fence_behind_a_new_one_is_found() -> None:
    assert stale_fences([5, 5, 7, 7, 9]) == 0
    assert stale_fences([5, 7, 5, 7, 6]) == 2


def test_a_closed_candle_that_opens_again_is_found() -> None:
    assert closed_again([(False, 0), (False, 0), (True, 0), (True, 1), (True, 1)]) == 0
    assert closed_again([(False, 0), (True, 0), (False, 0)]) == 1
    assert closed_again([(True, 2), (True, 1)]) == 1


def test_a_feed_is_judged_by_its_venues_truth() -> None:
    truth = [("BTC", n, str(n)) for n in range(1, 8)]
    log = [name for name in truth if name[1] not in (3, 6)]
    assert check_feed(truth, log, [("", 3, 3), ("BTC", 6, 6)], 1, 7) == Verdict(sent=7, said=2)
    assert check_feed(truth, log, [("ETH", 3, 3), ("BTC", 6, 6)], 1, 7) == Verdict(sent=7, said=1, lost=1, gaps=1)
    assert check_feed(truth, [*log, ("BTC", 2, "2")], [("", 1, 9)], 1, 7).duplicate == 1
    assert check_feed(truth, [*log, ("BTC", 2, "x")], [("", 1, 9)], 1, 7).phantom == 1
    assert check_feed(truth, log, [], 4, 5) == Verdict(sent=2)
