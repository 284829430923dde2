"""What a feed cannot vouch for: holes from takeovers, disconnects and overflow, and what is to be said of them."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

ALL = ""
DAY_MS = 86_400_000
AHEAD_FIRST_MS = 2_000
AHEAD_MOST_MS = 60_000
WATCHED = 0
DROPPED = "dropped"
"""The cause of the hole that a market leaves which nobody wants any more."""


class Span(msgspec.Struct, frozen=True):
    """A stretch of time that is not vouched for, of one market or of all (`coin` empty)."""

    coin: str
    from_ms: int
    to_ms: int
    cause: str


class _Hole(msgspec.Struct):
    """A hole that is still open; `said_ms` is how far it was said, 0 if never, `ahead_ms` how far ahead it was."""

    from_ms: int
    cause: str
    said_ms: int = 0
    ahead_ms: int = 0


class Holes:
    """The open holes of each market. What `to_say` returns must be written before any later CLOCK.

    A hole is said when it opens and again, whole, when it closes. One that leaves other markets watched
    does not stop the clock, so it is said ahead of time, further each time, a minute at most.
    """

    def __init__(self, coins: Sequence[str], grace_ms: int) -> None:
        self._coins = tuple(coins)
        self._followed = frozenset(coins)
        self._grace_ms = grace_ms
        self._open: dict[str, _Hole] = {}
        self._unsaid: list[Span] = []

    def follow(self, coins: Sequence[str]) -> None:
        """From now on these are the markets; what is to be said of an added one has to be said by `inherit`."""
        self._coins, self._followed = tuple(coins), frozenset(coins)
        self._open = {coin: hole for coin, hole in self._open.items() if coin in self._coins}

    def follows(self, coin: str) -> bool:
        return coin in self._followed

    @property
    def up(self) -> bool:
        """Whether any market is watched."""
        return len(self._open) < len(self._coins)

    @property
    def cause(self) -> str:
        """Why the feed is down, or why some of its markets are."""
        return next((hole.cause for hole in self._open.values()), "")

    def is_open(self, coin: str) -> bool:
        return coin in self._open

    def inherit(self, spans: Iterable[Span]) -> None:
        """Holes that a new leader finds: they stay open until the venue is up."""
        for span in spans:
            for coin in self._coins_of(span.coin):
                hole = self._open.get(coin)
                if hole is None:
                    self._open[coin] = _Hole(span.from_ms, span.cause)
                elif span.from_ms < hole.from_ms:
                    hole.from_ms, hole.cause = span.from_ms, span.cause

    def down(self, from_ms: int, cause: str, coins: Sequence[str] = ()) -> list[str]:
        """These markets (all, if none is named) are not watched since `from_ms`; return those that were."""
        lost = [coin for coin in coins or self._coins if coin in self._coins and coin not in self._open]
        for coin in lost:
            # A trade that was on its way when the feed went down is lost too.
            self._open[coin] = _Hole(max(0, from_ms - self._grace_ms), cause)
        return lost

    def came_up(self, at_ms: int, coins: Sequence[str] = ()) -> None:
        """These markets (all, if none is named) are watched again."""
        for coin in coins or self._coins:
            hole = self._open.pop(coin, None)
            to_ms = at_ms + self._grace_ms
            if hole is not None and hole.said_ms < to_ms:
                self._unsaid.append(Span(coin, min(hole.from_ms, at_ms), to_ms, hole.cause))

    def dropped(self, span: Span) -> None:
        """Trades of this stretch could not be kept."""
        self._unsaid.append(msgspec.structs.replace(span, from_ms=max(0, span.from_ms - self._grace_ms)))

    def to_say(self, now_ms: int) -> list[Span]:
        """What has to be written now; it counts as said."""
        spans, self._unsaid = self._unsaid, []
        whole = not self.up
        for coin, hole in self._open.items():
            if not hole.said_ms:
                begin_ms = min(hole.from_ms, now_ms)
            elif not whole and hole.said_ms < now_ms:
                begin_ms = hole.said_ms
            else:
                continue
            if not whole:
                hole.ahead_ms = min(AHEAD_MOST_MS, 2 * hole.ahead_ms or AHEAD_FIRST_MS)
            hole.said_ms = now_ms if whole else now_ms + hole.ahead_ms
            spans.append(Span(coin, begin_ms, hole.said_ms, hole.cause))
        return joined(spans, self._coins)

    def open_spans(self, now_ms: int) -> list[Span]:
        """The open holes as they stand."""
        spans = [Span(coin, min(hole.from_ms, now_ms), now_ms, hole.cause) for coin, hole in self._open.items()]
        return joined(spans, self._coins)

    def _coins_of(self, coin: str) -> tuple[str, ...]:
        return self._coins if coin == ALL else (coin,)


def joined(spans: Iterable[Span], coins: Sequence[str]) -> list[Span]:
    """The same spans, with one for all markets where every market has it."""
    groups: dict[tuple[int, int, str], list[str]] = {}
    for span in spans:
        groups.setdefault((span.from_ms, span.to_ms, span.cause), []).append(span.coin)
    result = []
    for (from_ms, to_ms, cause), names in groups.items():
        everyone = ALL in names or (bool(coins) and set(names) >= set(coins))
        result += [Span(coin, from_ms, to_ms, cause) for coin in ([ALL] if everyone else names)]
    return result


def inherited(
    coins: Sequence[str], before: Mapping[str, int] | None, vouched_ms: int | None, now_ms: int, cause: str
) -> list[Span]:
    """What a new leader cannot vouch for.

    `before` says of each market that was ever watched until when (`WATCHED`: by the last leader to its end),
    `vouched_ms` is the newest time that the last leader vouched for. With neither, this is the first start,
    and the day so far is not vouched for: its candles come from the venue as they close.
    """
    return joined([unwatched(coin, before, vouched_ms, now_ms, cause) for coin in coins], coins)


def unwatched(coin: str, before: Mapping[str, int] | None, vouched_ms: int | None, now_ms: int, cause: str) -> Span:
    """What nobody can vouch for of a market that is followed from now on."""
    until_ms = (before or {}).get(coin)
    if vouched_ms is None or (before is not None and until_ms is None):
        return Span(coin, now_ms - now_ms % DAY_MS, now_ms, "start")
    return Span(coin, min(until_ms or vouched_ms, now_ms), now_ms, cause)


def watched(coins: Sequence[str], before: Mapping[str, int] | None, vouched_ms: int | None) -> dict[str, int]:
    """`before`, as the next leader is to find it."""
    left = {
        coin: (vouched_ms or 1) if until_ms == WATCHED else until_ms
        for coin, until_ms in (before or {}).items()
        if coin not in coins
    }
    return left | dict.fromkeys(coins, WATCHED)
