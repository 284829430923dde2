"""A series as it lives: whatever is split, repeated or corrected, the values are those of one fold, to the bit."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from artery.indicators.bar import Bar
from artery.indicators.standard import NOTHING, WARM, Values, fold
from artery.indicators.track import OPEN_MAX, Outcome, Saved, Track
from tests.indicators.made import MINUTE_MS, T0, walk


def batch(made: list[Bar]) -> list[tuple[Bar, Values]]:
    return list(fold(made))


def through_json(track: Track, keep: int) -> Track:
    return Track(msgspec.json.decode(msgspec.json.encode(track.saved()), type=Saved), keep)


class Stream:
    """A track as the engine runs it: it is saved and read again at every split, and asks the lake for the rest."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.track = Track(keep=keep)
        self.truth: dict[int, Bar] = {}

    def close(self, bar: Bar) -> None:
        known = self.truth.get(bar.start)
        if known is None or bar.rev > known.rev:
            self.truth[bar.start] = bar
        if self.track.close(bar) is Outcome.BEHIND:
            self.track = Track.over(self.bars(), self.keep)

    def split(self) -> None:
        self.track = through_json(self.track, self.keep)

    def bars(self) -> list[Bar]:
        return [self.truth[start] for start in sorted(self.truth)]


Correction = tuple[int, int, float]
"""After which candle it comes, how many candles before that one it goes, and by what it multiplies the prices."""


@settings(max_examples=1_000, deadline=None)
@given(
    st.integers(1, 80),
    st.integers(0, 2**32),
    st.integers(1, 40),
    st.sets(st.integers(0, 79), max_size=8),
    st.lists(st.tuples(st.integers(0, 79), st.integers(0, 79), st.floats(0.5, 2.0)), max_size=6),
)
def test_stream_and_batch_agree_to_the_bit_for_any_split_and_any_correction(
    count: int, seed: int, keep: int, splits: set[int], corrections: list[Correction]
) -> None:
    made, stream = walk(count, seed=seed), Stream(keep)
    for at, bar in enumerate(made):
        stream.close(bar)
        if at in splits:
            stream.split()
        for after, back, factor in corrections:
            if after == at:
                stream.close(corrected(stream.truth[made[max(0, at - back)].start], factor))
    stream.split()
    assert stream.track.closed_values() == batch(stream.bars())[-1]
    assert stream.track.first == made[0].start
    assert stream.track.count == len(made)


def corrected(bar: Bar, factor: float) -> Bar:
    return Bar(bar.start, bar.rev + 1, bar.o * factor, bar.h * factor, bar.l * factor, bar.c * factor, bar.v * factor)


@settings(max_examples=200, deadline=None)
@given(st.permutations(list(range(12))), st.integers(1, 12))
def test_candles_that_come_late_or_twice_change_nothing_but_their_place(order: list[int], keep: int) -> None:
    made = walk(12)
    stream = Stream(keep)
    stream.close(made[0])
    for at in order:
        stream.close(made[at])
        stream.close(made[at])
    assert stream.track.closed_values() == batch(made)[-1]


def test_a_lower_or_equal_revision_changes_nothing() -> None:
    made = walk(40)
    track = Track.over(made)
    track.close(msgspec.structs.replace(made[30], rev=2, c=made[30].h))
    before = track.closed_values()
    assert track.close(msgspec.structs.replace(made[30], rev=2, c=made[30].l)) is Outcome.SAME
    assert track.close(msgspec.structs.replace(made[30], rev=1, c=made[30].l)) is Outcome.SAME
    assert track.closed_values() == before


def test_a_correction_behind_what_is_kept_is_said_and_one_before_the_first_is_none() -> None:
    made = walk(100)
    track = Track.over(made[10:], keep=20)
    assert track.close(msgspec.structs.replace(made[50], rev=1)) is Outcome.BEHIND
    assert track.close(msgspec.structs.replace(made[5], rev=1)) is Outcome.SAME
    assert track.behind == (70, 0)
    assert track.first == made[10].start


def test_an_open_candle_is_shown_as_if_it_closed_now_and_leaves_no_trace() -> None:
    made = walk(60)
    track = Track.over(made[:50])
    for bar in made[50:53]:
        for close in (bar.l, bar.h, bar.c):
            assert track.open(msgspec.structs.replace(bar, c=close))
    assert track.open_values() == batch(made[:53])[-1]
    assert track.closed_values() == batch(made[:50])[-1]
    track.close(made[50])
    assert track.open_values() == batch(made[:53])[-1]
    assert not track.open(made[50])
    for bar in made[51:53]:
        track.close(bar)
    assert track.open_values() is None
    assert track.closed_values() == batch(made[:53])[-1]


def test_open_candles_that_never_close_are_bounded() -> None:
    made = walk(20)
    track = Track()
    for bar in made:
        track.open(bar)
    assert track.open_values() == batch(made[-OPEN_MAX:])[-1]
    assert track.closed_values() is None


def test_a_series_is_warm_when_every_indicator_has_a_value() -> None:
    made = walk(WARM)
    assert not Track.over(made[:-1]).warm
    track = Track.over(made)
    assert track.warm
    assert None not in (track.closed_values() or (made[0], NOTHING))[1]
    assert made[-1].start == T0 + (WARM - 1) * MINUTE_MS
