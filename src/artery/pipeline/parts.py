"""What goes into the candle book, and what is kept of it. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from artery.model.codec import candle_texts
from artery.model.events import Candle
from artery.model.fold import Bar
from artery.model.taken import Market, Reach, Run
from artery.pipeline.minutes import Minutes, Span

Key = tuple[str, str, int, int]
"""(provider, coin, period in s, start in ms), as `Candle.key`."""


class Partial(msgspec.Struct, frozen=True, gc=False):
    """What the trades of one micro-batch amount to in one candle; `up_to` is the newest one's place on the bus."""

    key: Key
    bar: Bar
    up_to: str


class Batch(msgspec.Struct, frozen=True):
    """One micro-batch: partial candles, the newest CLOCK of each provider, what a feed does not vouch for, a venue's
    own closed candles; and of each market the places in its series that the batch holds. Partial candles of trades that
    may have been taken before are `doubtful`."""

    partials: Sequence[Partial] = ()
    clocks: Mapping[str, int] = {}
    venue: Sequence[Candle] = ()
    unwatched: Sequence[Span] = ()
    reach: Reach = {}
    doubtful: Sequence[Partial] = ()

    @property
    def trades(self) -> int:
        """How many trades, counted in the shortest candles, as each is in one of every length."""
        shortest = min((partial.key[2] for partial in self.partials), default=0)
        return sum(partial.bar.n for partial in self.partials if partial.key[2] == shortest)


class Held(msgspec.Struct, array_like=True, gc=False):
    """A candle that may still change; `venue` says that its values are the venue's own and no trade changes them,
    `left` that, once it is closed, the lake has the last word and no trade is joined to it."""

    bar: Bar
    up_to: str = ""
    closed: bool = False
    venue: bool = False
    corrected: bool = False
    left: bool = False


class Shown(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The newest version of a candle on the bus: it decides whether and how a later one may follow."""

    values: tuple[str, ...]
    closed: bool
    rev: int
    event_ts: int


class State(msgspec.Struct, array_like=True):
    """All that a book knows, to be kept together with the positions it has reached."""

    held: list[tuple[Key, Held]]
    shown: list[tuple[Key, Shown]]
    clocks: dict[str, int]
    dirty: list[Key]
    minutes: Minutes
    reached: list[Any] = []
    """Only in what former versions have saved."""
    floor_ms: int = 0
    periods: list[int] = []
    """Of the book, in seconds; what former versions have saved does not say."""
    taken: list[tuple[Market, list[Run]]] = []
    owed: list[tuple[Key, str]] = []


def venue_bar(candle: Candle) -> Bar:
    """A venue's candle as a bar that reaches from the first to the last moment of its window."""
    first, last = (candle.start_ts, 0, 0), (candle.end_ts - 1, 2**62, 2**62)
    return Bar(first, last, candle.o, candle.h, candle.l, candle.c, candle.v, candle.n)


def shown_as(candle: Candle) -> Shown:
    """A candle of the bus as what is known of it."""
    return Shown(candle_texts(candle), candle.closed, candle.rev, candle.event_ts)
