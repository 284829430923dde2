"""Candles from what each micro-batch amounts to. Pure: no Spark, no clock, no bus."""

from collections.abc import Iterable, Mapping

import msgspec

from artery.bus.base import place
from artery.model.codec import candle_texts
from artery.model.events import Candle
from artery.model.fold import join
from artery.model.periods import DERIVED, Period
from artery.model.taken import Taken
from artery.pipeline.minutes import DAY_MS, Minutes
from artery.pipeline.parts import Batch, Held, Key, Partial, Shown, State, shown_as, venue_bar

KEEP_MS = 3_600_000
SLOW_MS = 5_000
BEHIND = 50_000
"""Trades of a micro-batch, half of the most that it takes, from which on the book is taken to be behind: hardly anyone
watches such candles open."""
HELD_MAX = 1_000_000
"""Candles that are held, but for open ones, of which a market has one of each length."""
OWED_MAX = 10_000
"""Candles that the lake is asked to fold anew."""
REVISED_MAX = 5_000
"""Candles that are past and were corrected, whose last version is remembered."""
FORGET_MS = 10_000
ENDED_MS = 600_000
"""A provider whose clock is so far behind another's has ended, or is away: it says nothing of how far candles are."""
_MINUTE_S = 60


class CandleBook:
    """Every candle that is open or closed not long ago.

    A candle closes when a CLOCK reaches its end, and never opens again. A trade that comes later, or a venue's own
    candle that differs, gives the same candle with a higher `rev`. Candles closed for longer than `keep_ms` (and two
    of their own lengths) are forgotten: trades for them are counted in `stale`, and the lake is asked to fold them anew
    (`owed`). So are candles of which nobody knows whether a trade was taken before; what was taken, `taken` knows.
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
        self.taken = Taken()
        self.periods = sorted({period.seconds for period in periods})
        self._epoch = epoch
        self._has_minutes = _MINUTE_S in self.periods
        self._of_minutes = [Period(length) for length in self.periods if length > _MINUTE_S and not length % _MINUTE_S]
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
        self._owed: dict[Key, str] = {}
        self.changed: set[Key] = set()
        """The candles of which something else is known than when whoever keeps the book last cleared this."""

    def __len__(self) -> int:
        return len(self._held)

    def clock_ms(self) -> int:
        """The oldest of the providers' newest clocks, without those of providers that have ended."""
        newest = max(self._clocks.values(), default=0)
        return min((ts for ts in self._clocks.values() if newest - ts <= ENDED_MS), default=0)

    def apply(self, batch: Batch, now_ms: int) -> list[Candle]:
        """Take a micro-batch in; return the candles that are to be appended to the bus, as one append."""
        self._now_ms = max(self._now_ms, now_ms)
        self._behind = batch.trades >= self._behind_from and self._now_ms - self._showed_ms < self._slow_ms
        if not self._behind:
            self._showed_ms = self._now_ms
        self.taken.add(batch.reach)
        for partial in batch.partials:
            self._fold(partial)
        for partial in batch.doubtful:
            self._doubt(partial)
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

    def owed(self, up_to: str) -> list[Key]:
        """The candles that are over and that the lake is to fold anew, if it has the log up to there: what was left to
        it, and what the book has put in since."""
        return [key for key in self._owed if self._is_over(key) and place(self._needed(key)) <= place(up_to)]

    def settle(self, keys: Iterable[Key], up_to: str) -> None:
        """The lake has folded them anew, from the log up to there."""
        for key in keys:
            if place(self._owed.get(key, up_to)) <= place(up_to):
                self._owed.pop(key, None)

    def announce(self, candles: Iterable[Candle]) -> list[Candle]:
        """Closed candles that the lake has folded anew, as they are to be appended; those that the book still holds
        it corrects by itself, unless they are left to the lake."""
        return [said for candle in candles if (said := self._announced(candle))]

    def told(self, candles: Iterable[Candle]) -> dict[Key, Shown | None]:
        """What the bus has of these candles."""
        return {candle.key: self._shown.get(candle.key) for candle in candles}

    def untell(self, told: Mapping[Key, Shown | None]) -> None:
        """The bus may have no more than that: what was announced could not be appended."""
        for key, shown in told.items():
            self.changed.add(key)
            if shown is None:
                self._shown.pop(key, None)
            else:
                self._shown[key] = shown

    def keys(self) -> set[Key]:
        """The candles of which something is known."""
        return {*self._held, *self._shown}

    def state(self, keys: Iterable[Key] | None = None) -> State:
        """All that is known; of candles, only of these. It is to be written at once: it changes with the book."""
        wanted = self.keys() if keys is None else keys
        held = [(key, one) for key in wanted if (one := self._held.get(key))]
        shown = [(key, seen) for key in wanted if (seen := self._shown.get(key))]
        return State(
            held,
            shown,
            dict(self._clocks),
            sorted(self._dirty),
            self._minutes.copy(),
            floor_ms=self._floor_ms,
            periods=list(self.periods),
            taken=self.taken.known(),
            owed=list(self._owed.items()),
        )

    def restore(self, state: State, later: Iterable[Candle]) -> None:
        """Become what `state` was, which was of the same periods; `later` is what was appended to the bus since then,
        oldest first."""
        self._held = {key: msgspec.structs.replace(held) for key, held in state.held}
        self._open = {key for key, held in state.held if not held.closed}
        self._shown = dict(state.shown)
        self._clocks = dict(state.clocks)
        self._dirty = set(state.dirty)
        self._minutes = state.minutes.copy()
        self.taken = Taken(state.taken)
        self._owed = dict(state.owed)
        self._floor_ms = state.floor_ms
        self._lasts.clear()
        for candle in later:
            self._saw(candle)
        self.changed = self.keys()

    def _saw(self, candle: Candle) -> None:
        old = self._shown.get(candle.key)
        if old is None or (old.closed, old.rev, old.event_ts) < candle.version:
            self._shown[candle.key] = shown_as(candle)
            self._dirty.add(candle.key)

    def _fold(self, partial: Partial) -> None:
        key, held = partial.key, self._held.get(partial.key)
        if held is None:
            if self._is_past(key):
                self._owe(partial)
                return
            self._held[key] = Held(partial.bar, partial.up_to)
            self._open.add(key)
        elif held.venue:
            return
        elif held.left and held.closed:
            self._owe(partial)
            return
        else:
            held.bar = join(held.bar, partial.bar)
            held.up_to = _later(held.up_to, partial.up_to)
        self._touch(key)

    def _doubt(self, partial: Partial) -> None:
        """Trades that may have been taken before: not so where no trade of that time was."""
        held = self._held.get(partial.key)
        if held is None:
            self._fold(partial)
        elif not held.venue:
            held.left = True
            self._owe(partial)
            self.changed.add(partial.key)

    def _owe(self, partial: Partial) -> None:
        """Leave trades out of the book and have the lake, which knows each by its name, fold their candle anew."""
        self.stale += partial.bar.n
        self._owed[partial.key] = _later(self._owed.pop(partial.key, ""), partial.up_to)
        while len(self._owed) > OWED_MAX:
            del self._owed[next(iter(self._owed))]

    def _needed(self, key: Key) -> str:
        """The log up to there has all that is known of a candle."""
        held, at = self._held.get(key), self._owed[key]
        return _later(at, held.up_to) if held else at

    def _is_over(self, key: Key) -> bool:
        held = self._held.get(key)
        return held is None or held.closed

    def _touch(self, key: Key) -> None:
        self._dirty.add(key)
        self.changed.add(key)

    def _close(self) -> None:
        clocks = self._clocks
        for key in [key for key in self._open if key[3] + key[2] * 1_000 <= clocks.get(key[0], 0)]:
            self._held[key].closed = True
            self._open.discard(key)
            self._touch(key)

    def _correct(self, candle: Candle) -> None:
        key = candle.key
        if not candle.closed or self._is_past(key):
            return
        held, bar = self._held.get(key), venue_bar(candle)
        if held is None:
            self._held[key] = Held(bar, closed=True, venue=True)
        else:
            held.corrected = held.corrected or candle_texts(held.bar) != candle_texts(bar)
            held.bar, held.closed, held.venue, held.left = bar, True, True, False
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

    def _due(self) -> set[Key]:
        """Changed candles whose time to be shown has come: open ones of long periods wait for theirs, and while the
        book is behind, all that are open do."""
        due = self._dirty - self._open
        if not self._behind:
            due.update(key for key in self._dirty & self._open if not self._waits(key))
        return due

    def _waits(self, key: Key) -> bool:
        """Whether an open candle was shown not long ago."""
        shown = self._shown.get(key)
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
            if same or (shown.closed and (held.left or not held.closed)):
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

    def _announced(self, candle: Candle) -> Candle | None:
        """The candle with a `rev` above that of other values on the bus, the time, and the next place in its series."""
        held, shown = self._held.get(candle.key), self._shown.get(candle.key)
        if held is not None and not (held.left and held.closed):
            return None
        values, rev = candle_texts(candle), candle.rev
        if shown is not None and shown.closed:
            if shown.values == values and shown.rev >= rev:
                return None
            rev = max(rev, shown.rev + (shown.values != values))
        self._shown[candle.key] = Shown(values, True, rev, self._now_ms)
        self.changed.add(candle.key)
        placed = {"rev": rev, "event_ts": self._now_ms, "epoch": self._epoch, "seq": self._next(candle.key)}
        return msgspec.structs.replace(candle, **placed)

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
        gone = [key for key in self._shown if key not in self._held and self._is_past(key)]
        revised = sorted((key for key in gone if self._shown[key].rev), key=_end)[-REVISED_MAX:]
        for key in set(gone).difference(revised):
            del self._shown[key]
            self.changed.add(key)


def _end(key: Key) -> int:
    return key[3] + key[2] * 1_000


def _later(one: str, other: str) -> str:
    """The later of two positions. Those that look alike compare as text, which is most of them."""
    if len(one) == len(other) and one.find("-") == other.find("-"):
        return max(one, other)
    return max(one, other, key=lambda position: place(position) if position else ())
