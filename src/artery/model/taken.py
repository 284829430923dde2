"""Which places of its series a reader of trades has taken, market by market. Pure.

A feed's trades rise without a hole, so nearly every market has one run. A trade with a lower place than others that
were taken is new unless its own place was; where too many runs had to be joined nobody can tell.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

import msgspec

Market = tuple[str, str]
Seq = tuple[int, int]
"""A trade's place in its series, (epoch, seq)."""

RUNS_MAX = 16
"""Runs that are remembered of a market; of more, the two lowest become one of which not every place was taken."""
MARKETS_MAX = 200_000
"""Markets of which they are remembered."""


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Places from `first` to `last`; all of them were taken if it is `whole`, else some, nobody knows which."""

    first: Seq
    last: Seq
    whole: bool = True


Reach = Mapping[Market, Sequence[Run]]
"""The runs of each market that a batch holds, the lowest first."""


class Standing(Enum):
    """Whether a trade was taken before: no, yes, or nobody knows."""

    NEW = "new"
    REPEAT = "repeat"
    DOUBTFUL = "doubtful"


class Taken:
    """The runs of every market that were taken; markets that have been silent longest are forgotten first."""

    def __init__(self, known: Iterable[tuple[Market, Sequence[Run]]] = ()) -> None:
        self._runs: dict[Market, list[Run]] = {market: list(runs) for market, runs in known}

    def known(self) -> list[tuple[Market, list[Run]]]:
        """A copy of all of it."""
        return [(market, list(runs)) for market, runs in self._runs.items()]

    def runs(self, market: Market) -> list[Run]:
        """A copy of those of one market."""
        return list(self._runs.get(market, ()))

    def meets(self, reach: Reach) -> bool:
        """Whether some of these places may have been taken before."""
        return any(_meet(runs, self._runs.get(market, ())) for market, runs in reach.items())

    def standing(self, market: Market, place: Seq) -> Standing:
        for run in self._runs.get(market, ()):
            if run.first <= place <= run.last:
                return Standing.REPEAT if run.whole else Standing.DOUBTFUL
        return Standing.NEW

    def add(self, reach: Reach) -> None:
        for market, runs in reach.items():
            self._runs[market] = _joined(self._runs.pop(market, []), runs)
        while len(self._runs) > MARKETS_MAX:
            del self._runs[next(iter(self._runs))]


def runs_of(epoch: int, seqs: Iterable[int]) -> list[Run]:
    """Places of one epoch as runs, at most `RUNS_MAX`."""
    return _joined([], [Run((epoch, seq), (epoch, seq)) for seq in seqs])


def _meet(runs: Sequence[Run], known: Sequence[Run]) -> bool:
    if not known or known[-1].last < runs[0].first:
        return False
    return any(one.first <= other.last and other.first <= one.last for one in runs for other in known)


def _joined(known: list[Run], more: Sequence[Run]) -> list[Run]:
    result: list[Run] = []
    for run in sorted([*known, *more], key=lambda run: run.first):
        one = _as_one(result[-1], run) if result else None
        if one is None:
            result.append(run)
        else:
            result[-1] = one
    while len(result) > RUNS_MAX:
        result[:2] = [Run(result[0].first, result[1].last, whole=False)]
    return result


def _as_one(low: Run, high: Run) -> Run | None:
    """Two runs as one, if they overlap or follow each other without a hole; `low` begins first."""
    last = max(low.last, high.last)
    if low.whole and high.whole and low.last[0] == high.first[0] and high.first[1] <= low.last[1] + 1:
        return Run(low.first, last)
    if high.first > low.last:
        return None
    return low if low.whole and high.last <= low.last else Run(low.first, last, whole=False)
