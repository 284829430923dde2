"""What was taken is known by its place: nothing new is left out unless it is said, nothing is taken twice."""

from hypothesis import given, settings
from hypothesis import strategies as st

from artery.model.taken import RUNS_MAX, Run, Standing, Taken, runs_of

M = ("sim", "BTC")
NEW, REPEAT, DOUBTFUL = Standing.NEW, Standing.REPEAT, Standing.DOUBTFUL


def taken(*batches: list[int]) -> Taken:
    made = Taken()
    for seqs in batches:
        made.add({M: runs_of(1, seqs)})
    return made


def test_batches_that_follow_each_other_are_one_run() -> None:
    assert taken([1, 2, 3], [4], [5, 6]).known() == [(M, [Run((1, 1), (1, 6))])]


def test_a_place_below_others_is_new_until_it_was_taken() -> None:
    book = taken([2, 3], [7])
    assert not book.meets({M: runs_of(1, [1])})
    assert not book.meets({M: runs_of(1, [4, 5])})
    assert book.meets({M: runs_of(1, [1, 2])})
    assert [book.standing(M, (1, seq)) for seq in (1, 2, 3, 4, 7, 8)] == [NEW, REPEAT, REPEAT, NEW, REPEAT, NEW]
    book.add({M: runs_of(1, [1])})
    assert book.standing(M, (1, 1)) is REPEAT


def test_a_place_of_another_epoch_is_another_place() -> None:
    book = taken([1, 2, 3])
    assert book.standing(M, (2, 1)) is NEW
    book.add({M: runs_of(2, [1])})
    assert book.known() == [(M, [Run((1, 1), (1, 3)), Run((2, 1), (2, 1))])]


def test_of_too_many_runs_the_lowest_become_one_that_is_in_doubt() -> None:
    book = taken(*[[seq] for seq in range(0, 4 * RUNS_MAX, 2)])
    assert len(book.known()[0][1]) == RUNS_MAX
    assert [book.standing(M, (1, seq)) for seq in (0, 1, 4 * RUNS_MAX - 3, 4 * RUNS_MAX - 2)] == [
        DOUBTFUL, DOUBTFUL, NEW, REPEAT,
    ]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(1, 2), st.integers(1, 80)), min_size=1, max_size=30), max_size=12))
def test_what_is_surely_known_is_true_whatever_comes_how(batches: list[list[tuple[int, int]]]) -> None:
    book, had = Taken(), set[tuple[int, int]]()
    for places in batches:
        reach = {M: [run for epoch in (1, 2) for run in runs_of(epoch, {seq for e, seq in places if e == epoch})]}
        if had.intersection(places):
            assert book.meets(reach)
        for place in places:
            standing = book.standing(M, place)
            assert standing is DOUBTFUL or (standing is REPEAT) == (place in had)
        book.add(reach)
        had.update(places)
        assert all(book.standing(M, place) is not NEW for place in had)
        book = Taken(book.known())
