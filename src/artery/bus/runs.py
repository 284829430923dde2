"""Pending entries kept as runs: positions without a hole between them, in the same hands for the same time."""

from collections.abc import Iterable, Iterator

import msgspec


class Run(msgspec.Struct, frozen=True):
    """What a consumer was given in one go and has not acked; `given_ms` is on the machine's monotonic clock."""

    first: int
    last: int
    consumer: str
    tries: int
    given_ms: int

    def part(self, low: int, high: int) -> "Run | None":
        """What of it lies from `low` to `high`."""
        first, last = max(self.first, low), min(self.last, high)
        return None if first > last else msgspec.structs.replace(self, first=first, last=last)

    def without(self, low: int, high: int) -> list["Run"]:
        """What remains of it outside `low` to `high`: nothing, one run, or two."""
        rests = (self.part(self.first, low - 1), self.part(high + 1, self.last))
        return [rest for rest in rests if rest is not None]

    def given(self, consumer: str, now_ms: int) -> "Run":
        """The same entries, given once more."""
        return msgspec.structs.replace(self, consumer=consumer, tries=self.tries + 1, given_ms=now_ms)

    def __len__(self) -> int:
        return self.last - self.first + 1


def ranges(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Numbers as ranges without holes: 1 2 3 7 → (1, 3) (7, 7)."""
    low = high = None
    ordered = sorted(set(numbers))
    if ordered and ordered[-1] - ordered[0] == len(ordered) - 1:  # as nearly always
        yield ordered[0], ordered[-1]
        return
    for number in ordered:
        if low is None or high is None:
            low = high = number
        elif number == high + 1:
            high = number
        else:
            yield low, high
            low = high = number
    if low is not None and high is not None:
        yield low, high


def covered(parts: Iterable[tuple[int, int]]) -> int:
    """How many numbers lie in at least one of the ranges."""
    total, reached = 0, 0
    for low, high in sorted(parts):
        total += max(0, high - max(low - 1, reached))
        reached = max(reached, high)
    return total
