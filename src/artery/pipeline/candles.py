"""Candles from what each micro-batch amounts to. Pure: no Spark, no clock, no bus."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from artery.bus.base import place
from artery.model.codec import candle_texts
from artery.model.events import Candle
from artery.model.fold import Bar, join
from artery.model.periods import DERIVED, Period
from artery.pipeline.minutes import DAY_MS, Minutes, Span

Key = tuple[str, str, int, int]
"""(provider, coin, period in s, start in ms), as `Candle.key`."""
Market = tuple[str, str]
Seq = tuple[int, int]
"""A trade's place in its series, (epoch, seq): it rises with every trade on the bus."""

KEEP_MS = 3_600_000
SLOW_MS = 5_000
BEHIND = 50_000
"""Trades of a micro-batch, half of the most that it takes, from which on the book is taken to be behind: hardly anyone
watches such candles open."""
HELD_MAX = 1_000_000
"""Candles that are held, but for open ones, of which a market has one of each length."""
MARKETS_MAX = 200_000
"""Markets whose last trade is remembered."""
FORGET_MS = 10_000
_MINUTE_S = 60


class Partial(msgspec.Struct, frozen=True, gc=False):
    """What the trades of one micro-batch amount to in one candle; `up_to` is the newest one's place on the bus."""

    key: Key
    bar: Bar
    up_to: str


class Batch(msgspec.Struct, frozen=True):
    """One micro-batch: partial candles, the newest CLOCK of each provider, what a feed does not vouch for, a venue's
    own closed candles; and of each market the first and the last place in its series that the batch holds."""

    partials: Sequence[Partial] = ()
    clocks: Mapping[str, int] = {}
    venue: Sequence[Candle] = ()
    unwatched: Sequence[Span] = ()
    reach: Mapping[Market, tuple[Seq, Seq]] = {}

    @property
    def trades(self) -> int:
        """How many trades, counted in the shortest candles, as each is in one of every length."""
        shortest = min((partial.key[2] for partial in self.partials), default=0)
        return sum(partial.bar.n for partial in self.partials if partial.key[2] == shortest)


class Held(msgspec.Struct, array_like=True, gc=False):
    """A candle that may still change; `venue` says that its values are the venue's own and no trade changes them."""

    bar: Bar
    up_to: str = ""
    closed: bool = False
    venue: bool = False
    corrected: bool = False


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
    reached: list[tuple[Market, Seq]] = []
    floor_ms: int = 0


class CandleBook:
    """Every candle that is open or closed not long ago.

    A candle closes when a CLOCK reaches its end, and never opens again. A trade that comes later, or a venue's own
    candle that differs, gives the same candle with a higher `rev`. Candles closed for longer than `keep_ms` (and two
    of their own lengths) are forgotten: trades for them are counted in `stale` and left to the lake's correction.
    An entry that is on the bus a second time is known by its place in its series (`repeats`).
    """

    def __init__(
        self,
        epoch: int,
        *,
        periods: Iterable[Period] = DERIVED,
        keep_ms: int = KEEP_MS,
        slow_ms: int = SLOW_MS,
        behind: int = BEHIND,
        held_max: int = HELD_MAX,
    ) -> None:
        self.stale = 0
        self._epoch = epoch
        seconds = {period.seconds for period in periods}
        self._has_minutes = _MINUTE_S in seconds
        self._of_minutes = [
            Period(length) for length in sorted(seconds) if length > _MINUTE_S and not length % _MINUTE_S
        ]
        self._keep_ms = keep_ms
        self._slow_ms = slow_ms
        self._behind_from = behind
        self._held_max = held_max
        self._now_ms = 0
        self._floor_ms = 0
        self._behind = False
        self._showed_ms = 0
        self._forgot_ms = 0
        self._held: dict[Key, Held] = {}
        self._open: set[Key] = set()
        self._dirty: set[Key] = set()
        self._shown: dict[Key, Shown] = {}
        self._clocks: dict[str, int] = {}
        self._lasts: dict[tuple[str, int], int] = {}
        self._seqs: dict[tuple[str, str, int], int] = {}
        self._minutes = Minutes()
        self._reached: dict[Market, Seq] = {}
        self.changed: set[Key] = set()
        """The candles of which something else is known than when whoever keeps the book last cleared this."""

    def __len__(self) -> int:
        return len(self._held)

    def clock_ms(self) -> int:
        """The oldest of the providers' newest clocks."""
        return min(self._clocks.values(), default=0)

    def repeats(self, batch: Batch) -> dict[Market, Seq]:
        """The markets of which the batch holds trades that were taken in before, and how far those reach."""
        return {
            market: reached
            for market, (first, _) in batch.reach.items()
            if (reached := self._reached.get(market, (0, 0))) >= first
        }

    def apply(self, batch: Batch, now_ms: int) -> list[Candle]:
        """Take a micro-batch in; return the candles that are to be appended to the bus, as one append."""
        self._now_ms = max(self._now_ms, now_ms)
        self._behind = batch.trades >= self._behind_from and self._now_ms - self._showed_ms < self._slow_ms
        if not self._behind:
            self._showed_ms = self._now_ms
        for market, (_, last) in batch.reach.items():
            self._reached[market] = max(last, self._reached.pop(market, last))
        for partial in batch.partials:
            self._fold(partial)
        for provider, ts in batch.clocks.items():
            self._clocks[provider] = max(ts, self._clocks.get(provider, 0))
        self._lasts.clear()
        self._close()
        self._minutes.mark(batch.unwatched)
        for theirs in sorted(batch.venue, key=lambda candle: candle.start_ts):
            self._fill(theirs)
            self._correct(theirs)
        result = [candle for key in sorted(self._due()) if (candle := self._show(key))]
        newest = max(self._clocks.values(), default=0)  # of whichever provider: one that has ended holds nothing up
        if newest - self._forgot_ms >= FORGET_MS or len(self._held) - len(self._open) > self._held_max:
            self._forgot_ms = newest
            self._forget()
        return result

    def shown_ms(self) -> int:
        """The time of the newest version that was shown: that of the next is not before it."""
        return max(self._now_ms, max((shown.event_ts for shown in self._shown.values()), default=0))

    def texts(self, candle: Candle) -> tuple[str, ...]:
        """Of a candle that `apply` has just returned, as `candle_texts`; it may be past by now."""
        shown = self._shown.get(candle.key)
        return shown.values if shown else candle_texts(candle)

    def announce(self, candles: Iterable[Candle]) -> list[Candle]:
        """Closed candles that the lake has folded anew, as they are to be appended; those that the book still holds
        it corrects by itself."""
        return [self._placed(candle) for candle in candles if candle.key not in self._held]

    def keys(self) -> set[Key]:
        """The candles of which something is known."""
        return {*self._held, *self._shown}

    def state(self, keys: Iterable[Key] | None = None) -> State:
        """A copy of all that is known; of candles, only of these."""
        wanted = self.keys() if keys is None else keys
        held = [(key, msgspec.structs.replace(one)) for key in wanted if (one := self._held.get(key))]
        shown = [(key, seen) for key in wanted if (seen := self._shown.get(key))]
        reached = list(self._reached.items())
        dirty, minutes = sorted(self._dirty), self._minutes.copy()
        return State(held, shown, dict(self._clocks), dirty, minutes, reached, self._floor_ms)

    def restore(self, state: State, later: Iterable[Candle]) -> None:
        """Become what `state` was; `later` is what was appended to the bus since then, oldest first."""
        self._held = {key: msgspec.structs.replace(held) for key, held in state.held}
        self._open = {key for key, held in state.held if not held.closed}
        self._shown = dict(state.shown)
        self._clocks = dict(state.clocks)
        self._dirty = set(state.dirty)
        self._minutes = state.minutes.copy()
        self._reached = dict(state.reached)
        self._floor_ms = state.floor_ms
        self._lasts.clear()
        for candle in later:
            self._saw(candle)
        self.changed = self.keys()

    def _saw(self, candle: Candle) -> None:
        old = self._shown.get(candle.key)
        if old is None or (old.closed, old.rev, old.event_ts) < candle.version:
            self._shown[candle.key] = _shown(candle)
            self._dirty.add(candle.key)

    def _fold(self, partial: Partial) -> None:
        key, held = partial.key, self._held.get(partial.key)
        if held is None:
            if self._is_past(key):
                self.stale += partial.bar.n
                return
            self._held[key] = Held(partial.bar, partial.up_to)
            self._open.add(key)
        elif held.venue:
            return
        else:
            held.bar = join(held.bar, partial.bar)
            held.up_to = _later(held.up_to, partial.up_to)
        self._touch(key)

    def _touch(self, key: Key) -> None:
        self._dirty.add(key)
        self.changed.add(key)

    def _close(self) -> None:
        for key in [key for key in self._open if _end(key) <= self._clocks.get(key[0], 0)]:
            self._held[key].closed = True
            self._open.discard(key)
            self._touch(key)

    def _correct(self, candle: Candle) -> None:
        key = candle.key
        if not candle.closed or self._is_past(key):
            return
        held, bar = self._held.get(key), _venue_bar(candle)
        if held is None:
            self._held[key] = Held(bar, closed=True, venue=True)
        else:
            held.corrected = held.corrected or candle_texts(held.bar) != candle_texts(bar)
            held.bar, held.closed, held.venue = bar, True, True
        self._open.discard(key)
        self._touch(key)

    def _fill(self, minute: Candle) -> None:
        """Put a minute that nobody watched into the longer candles around it that are still open."""
        if minute.period.seconds != _MINUTE_S or not minute.closed:
            return
        held = self._held.get(minute.key)
        own = held.bar if held and not held.venue else None
        known = self._has_minutes and not self._is_past(minute.key)
        more = self._minutes.take(minute, own, known=known)
        if more is None:
            return
        for period in self._of_minutes:
            key = (minute.provider, minute.coin, period.seconds, period.start(minute.start_ts))
            around = self._held.get(key)
            if _end(key) <= self._clocks.get(minute.provider, 0) or (around and around.closed):
                continue
            if around is None:
                self._held[key] = Held(more)
                self._open.add(key)
            else:
                around.bar = join(around.bar, more)
            self._touch(key)

    def _is_past(self, key: Key) -> bool:
        last = self._lasts.get((key[0], key[2]))
        return key[3] <= (self._last(key[0], key[2]) if last is None else last)

    def _last(self, provider: str, period_s: int) -> int:
        """The start of the newest candle of this length that may be past, kept until a clock moves."""
        forgotten = self._clocks.get(provider, 0) - max(self._keep_ms, 2_000 * period_s)
        last = self._lasts[provider, period_s] = max(forgotten, self._floor_ms) - 1_000 * period_s
        return last

    def _due(self) -> list[Key]:
        """Changed candles whose time to be shown has come: open ones of long periods wait for theirs, and while the
        book is behind, all that are open do."""
        return [key for key in self._dirty if not self._waits(key)]

    def _waits(self, key: Key) -> bool:
        held, shown = self._held.get(key), self._shown.get(key)
        if held is None or held.closed:
            return False
        if self._behind:
            return True
        if shown is None or key[2] <= _MINUTE_S:
            return False
        return self._now_ms - shown.event_ts < self._slow_ms

    def _show(self, key: Key) -> Candle | None:
        """The candle as it is to be appended; None if the bus has it so, or has it closed by what is yet to be read."""
        self._dirty.discard(key)
        self.changed.add(key)
        held, shown = self._held.get(key), self._shown.get(key)
        if held is None:
            return None
        corrected, held.corrected = held.corrected, False
        rev, values = 1 if corrected else 0, candle_texts(held.bar)
        if shown is not None:
            same = shown.closed == held.closed and shown.values == values
            if same or (shown.closed and not held.closed):
                return None
            rev += shown.rev if corrected or not shown.closed else shown.rev + 1
        self._shown[key] = Shown(values, held.closed, rev, self._now_ms)
        return self._candle(key, held, rev)

    def _candle(self, key: Key, held: Held, rev: int) -> Candle:
        provider, coin, period_s, start_ts = key
        bar = held.bar
        return Candle(
            provider=provider,
            coin=coin,
            period=Period(period_s),
            start_ts=start_ts,
            o=bar.o,
            h=bar.h,
            l=bar.l,
            c=bar.c,
            v=bar.v,
            n=bar.n,
            closed=held.closed,
            rev=rev,
            up_to=held.up_to,
            event_ts=self._now_ms,
            epoch=self._epoch,
            seq=self._next(key),
        )

    def _placed(self, candle: Candle) -> Candle:
        """The candle with the time and the next place in its series."""
        place = {"event_ts": self._now_ms, "epoch": self._epoch, "seq": self._next(candle.key)}
        return msgspec.structs.replace(candle, **place)

    def _next(self, key: Key) -> int:
        series = key[:3]
        seq = self._seqs[series] = self._seqs.get(series, 0) + 1
        return seq

    def _forget(self) -> None:
        """Let go of what is past. Of too many, the oldest closed ones become past: begun anew they would be partial."""
        over = len(self._held) - len(self._open) - self._held_max
        if over > 0:
            closed = sorted(_end(key) for key, held in self._held.items() if held.closed)
            self._floor_ms = max(self._floor_ms, closed[over - 1])
            self._lasts.clear()
        past = [key for key, held in self._held.items() if held.closed and self._is_past(key)]
        self._minutes.forget(self.clock_ms() - 2 * DAY_MS)
        for key in past:
            del self._held[key]
            self._dirty.discard(key)
            self.changed.add(key)
        while len(self._reached) > MARKETS_MAX:
            del self._reached[next(iter(self._reached))]
        for key in [key for key in self._shown if key not in self._held and self._is_past(key)]:
            del self._shown[key]
            self.changed.add(key)


def _end(key: Key) -> int:
    return key[3] + key[2] * 1_000


def _later(one: str, other: str) -> str:
    """The later of two positions. Those that look alike compare as text, which is most of them."""
    if len(one) == len(other) and one.find("-") == other.find("-"):
        return max(one, other)
    return max(one, other, key=lambda position: place(position) if position else ())


def _venue_bar(candle: Candle) -> Bar:
    """A venue's candle as a bar that reaches from the first to the last moment of its window."""
    first, last = (candle.start_ts, 0, 0), (candle.end_ts - 1, 2**62, 2**62)
    return Bar(first, last, candle.o, candle.h, candle.l, candle.c, candle.v, candle.n)


def _shown(candle: Candle) -> Shown:
    return Shown(candle_texts(candle), candle.closed, candle.rev, candle.event_ts)
