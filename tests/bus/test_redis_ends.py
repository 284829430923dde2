"""Which positions of a Redis stream are lost, decided by values alone."""

import pytest

from artery.bus.redis_ends import Ends, before, check, check_group, ends_of, full, short
from artery.errors import BadInput, PositionLost

WHOLE = Ends(length=3, first="10-0", head="30-0", added=3)
TRIMMED = Ends(length=2, first="20-0", head="30-0", added=4, trimmed="15-0", trimmed_removed=2)
TRIMMED_BY_OTHERS = Ends(length=2, first="20-0", head="30-0", added=4)
EMPTIED = Ends(length=0, head="30-0", added=3)
PUNCHED = Ends(length=2, first="10-0", head="30-0", added=3, deleted="20-0", trimmed="0-0")


@pytest.mark.parametrize(
    ("ends", "after"),
    [
        (Ends(), "0-0"),
        (WHOLE, "0-0"),
        (WHOLE, before("10-0")),
        (TRIMMED, "15-0"),
        (TRIMMED, "19-5"),
        (TRIMMED_BY_OTHERS, before("20-0")),
        (EMPTIED, "30-0"),
        (PUNCHED, "20-0"),
    ],
)
def test_a_reader_that_misses_nothing_goes_on(ends: Ends, after: str) -> None:
    check("s", ends, after, found=False)


@pytest.mark.parametrize(
    ("ends", "after", "first"),
    [
        (Ends(), "5-0", "0"),
        (WHOLE, "40-0", "0"),
        (WHOLE, "5-0", "0"),
        (WHOLE, "15-0", "0"),
        (TRIMMED, "0-0", "15-0"),
        (TRIMMED, "14-0", "15-0"),
        (TRIMMED_BY_OTHERS, "15-0", before("20-0")),
        (EMPTIED, "20-0", "30-0"),
        (EMPTIED, "0-0", "30-0"),
        (PUNCHED, "25-0", before("10-0")),
    ],
)
def test_a_reader_that_would_miss_something_is_told_where_to_go_on(ends: Ends, after: str, first: str) -> None:
    with pytest.raises(PositionLost) as lost:
        check("s", ends, after, found=False)
    assert lost.value.first == first
    check("s", ends, full(first), found=False)


def test_a_group_has_lost_what_was_removed_behind_its_back() -> None:
    check_group("s", WHOLE, "g", "0-0", None)
    check_group("s", TRIMMED, "g", "15-0", None)
    check_group("s", TRIMMED_BY_OTHERS, "g", "15-0", 2)
    for ends, last, read in ((TRIMMED, "14-0", None), (TRIMMED_BY_OTHERS, "15-0", None), (TRIMMED_BY_OTHERS, "9-0", 1)):
        with pytest.raises(PositionLost):
            check_group("s", ends, "g", last, read)


def test_positions_are_written_in_full_for_redis_and_short_for_callers() -> None:
    assert (full("0"), full("12-3"), short("0-0"), short("12-3")) == ("0-0", "12-3", "0", "12-3")
    assert (before("12-3"), before("12-0")) == ("12-2", f"11-{2**64 - 1}")
    for wrong in ("", "x", "1-", "-1", "1-2-3", "١"):
        with pytest.raises(BadInput):
            full(wrong)


def test_a_stream_that_is_not_there_is_empty() -> None:
    assert ends_of(Exception("no such key"), None) == Ends()
