"""Counts what a run lost, doubled or made up. Pure: what was sent and what was seen in, a verdict out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec


class Sent(msgspec.Struct):
    """What one writer sent, in its order; what is neither acked nor refused had no answer."""

    ids: list[str] = []
    acked: set[str] = set()
    refused: set[str] = set()


class Seen(msgspec.Struct, frozen=True):
    """One event at one place of the log; being given the same place twice is at-least-once, and no duplicate."""

    id: str
    position: str


class Gap(msgspec.Struct, frozen=True):
    """The reader was told that something is missing here."""

    reason: str = ""


Sight = Seen | Gap


class Verdict(msgspec.Struct, frozen=True):
    """`lost`: acknowledged, never seen, and nobody said so. `said`: acknowledged, never seen, and the reader was told.
    `duplicate`: seen at two places. `phantom`: seen, and never sent or refused. `unknown`: sent without an answer,
    either is right. `gaps`: holes between two events of a reader without a word about it."""

    sent: int = 0
    lost: int = 0
    said: int = 0
    duplicate: int = 0
    phantom: int = 0
    unknown: int = 0
    gaps: int = 0

    @property
    def clean(self) -> bool:
        return not (self.lost or self.duplicate or self.phantom or self.gaps)

    def __add__(self, other: "Verdict") -> "Verdict":
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return Verdict(*(one + two for one, two in pairs))


def check(writers: Iterable[Sent], sights: Sequence[Sight], *, ordered: bool = True, counted: int = 0) -> Verdict:
    """Judge one reader (a follower, or all consumers of a group) by what all writers sent.

    An `ordered` reader saw events in the log's order, so each hole must have its gap at its place. For a group, whose
    consumers share the events, `counted` is how many the log itself says that it took away.
    """
    writers = list(writers)
    places = {sight for sight in sights if isinstance(sight, Seen)}
    seen = {sight.id for sight in places}
    expected = {id_ for writer in writers for id_ in writer.ids}
    refused = {id_ for writer in writers for id_ in writer.refused}
    missing = sum(len(writer.acked - seen) for writer in writers)
    said, gaps = min(counted, missing), 0
    if ordered:
        said, gaps = _judge_holes(writers, sights)
    return Verdict(
        sent=len(expected),
        lost=missing - said,
        said=said,
        duplicate=len(places) - len(seen),
        phantom=len((seen - expected) | (seen & refused)),
        unknown=sum(len(set(writer.ids) - writer.acked - writer.refused) for writer in writers),
        gaps=gaps,
    )


def _judge_holes(writers: Iterable[Sent], sights: Sequence[Sight]) -> tuple[int, int]:
    """How many missing events lie in holes that were told, and how many holes were not."""
    first_at = {sight.id: at for at, sight in reversed(list(enumerate(sights))) if isinstance(sight, Seen)}
    gaps_at = [at for at, sight in enumerate(sights) if isinstance(sight, Gap)]
    said = untold = 0
    for writer in writers:
        for before, size, after in _holes(writer, first_at):
            low = -1 if before is None else first_at[before]
            high = len(sights) if after is None else first_at[after]
            if any(low < at < high for at in gaps_at):
                said += size
            elif before is not None and after is not None:
                untold += 1
    return said, untold


def _holes(writer: Sent, seen: Mapping[str, int]) -> Iterator[tuple[str | None, int, str | None]]:
    """Acked events that were not seen: the seen one before them, how many they are, the seen one after them."""
    before, size = None, 0
    for id_ in writer.ids:
        if id_ in seen:
            if size:
                yield before, size, id_
            before, size = id_, 0
        elif id_ in writer.acked:
            size += 1
    if size:
        yield before, size, None


def stale_fences(epochs: Iterable[int]) -> int:
    """How many entries of a log stand behind one with a higher epoch."""
    stale = highest = 0
    for epoch in epochs:
        stale += epoch < highest
        highest = max(highest, epoch)
    return stale


def closed_again(states: Iterable[tuple[bool, int]]) -> int:
    """How often a candle that was closed is open again, or closed with a revision that is no higher: (closed, rev)."""
    return sum(old[0] and (not new[0] or new[1] < old[1]) for old, new in pairwise(states))


Name = tuple[str, int, str]
"""A trade as its venue names it: market, time, id."""
Hole = tuple[str, int, int]
"""A mark: market (empty for all), from, to."""


def check_feed(
    truth: Iterable[Name], log: Sequence[Name], marks: Iterable[Hole], start_ms: int, end_ms: int
) -> Verdict:
    """Judge a feed by what really happened at its venue between two moments that it vouches for.

    What is missing must lie in a mark; a mark is the log's gap.
    """
    happened = {name for name in truth if start_ms <= name[1] <= end_ms}
    written = {name for name in log if start_ms <= name[1] <= end_ms}
    holes = list(marks)
    missing = happened - written
    said = {name for name in missing if any(c in ("", name[0]) and a <= name[1] <= b for c, a, b in holes)}
    return Verdict(
        sent=len(happened),
        lost=len(missing - said),
        said=len(said),
        duplicate=len(log) - len(set(log)),
        phantom=len(written - happened),
        gaps=len({name[0] for name in missing - said}),
    )
