"""How many entries a group was never given, counted: Redis's own figure is wrong once entries were trimmed unread."""

from typing import NamedTuple

from artery.bus import redis_scripts as scripts
from artery.bus.base import place
from artery.bus.redis_ends import Ends, before
from artery.store.redis_link import Link

PAGE = 1_000
"""Entries counted in one step; the first steps take fewer, as an end or a mark is mostly near."""
PAGES_MAX = 2_000


class Mark(NamedTuple):
    """A position of which it is known how many entries had been added up to it."""

    position: str
    ordinal: int


def easy(ends: Ends, last: str) -> int | None:
    """The lag, where it can be told without counting."""
    if place(last) >= place(ends.head):
        return 0
    return ends.length if not ends.length or place(last) < place(ends.first) else None


def usable(mark: Mark | None, ends: Ends, last: str) -> Mark:
    """The mark, if what lies between it and `last` can be counted; else the stream's beginning."""
    start = Mark(before(ends.first), ends.removed)
    if mark is None or not place(start.position) <= place(mark.position) <= place(last):
        return start
    return mark


async def count(link: Link, key: str, ends: Ends, last: str, mark: Mark | None) -> int | None:
    """Entries from `last` to the head: counted towards the head and back to a mark at once, a page each way, until one
    of them is reached. None if it takes too long."""
    if ends.deleted != "0-0":  # some are missing by XDEL, so ordinals tell nothing
        mark = None
    low = usable(mark, ends, last)
    up, down, above, below = 0, 0, last, last
    for step in range(PAGES_MAX):
        page = min(PAGE, 50 * 4 ** min(step, 3))
        args = (above, ends.head, below, low.position, page)
        here: tuple[int, str, int, str] = link.answer(await link.run(scripts.COUNT, (key,), args))
        up, down = up + here[0], down + here[2]
        if here[0] < page:
            return up
        if here[2] < page:
            return ends.added - low.ordinal - down
        above, below = here[1], f"({here[3]}"
    return None
