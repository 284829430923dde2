"""Sets of time, as sorted stretches `[start, end)` that neither touch nor overlap."""

from collections.abc import Iterable

Stretch = tuple[int, int]
Stretches = list[Stretch]


def union(stretches: Iterable[Stretch]) -> Stretches:
    """All of these times, each once."""
    result: Stretches = []
    for start, end in sorted(stretches):
        if end <= start:
            continue
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((start, end))
    return result


def minus(stretches: Stretches, taken: Stretches) -> Stretches:
    """What of the first is not in the second; both are sorted, as `union` returns them."""
    result: Stretches = []
    first = 0
    for start, end in stretches:
        at = start
        while first < len(taken) and taken[first][1] <= start:
            first += 1
        index = first
        while index < len(taken) and taken[index][0] < end:
            taken_start, taken_end = taken[index]
            if taken_start > at:
                result.append((at, taken_start))
            at = max(at, taken_end)
            index += 1
        if at < end:
            result.append((at, end))
    return result


def before(stretches: Stretches, limit: int) -> Stretches:
    """What of these lies before `limit`."""
    return [(start, min(end, limit)) for start, end in stretches if start < limit]


def newest(stretches: Stretches, count: int) -> Stretches:
    """The newest so many of them."""
    return stretches[-count:]
