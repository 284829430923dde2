"""One turn of the writer: what came in, and what is to be written of it. Pure."""

from collections.abc import Iterable, Sequence

import msgspec

from artery.ingest.clock import FeedClock
from artery.ingest.dedup import Seen
from artery.ingest.marks import Holes, Span
from artery.ingest.stamp import Stamper
from artery.ingest.throttle import BookThrottle
from artery.model.events import Book, Clock, Mark, Mids, Trade
from artery.providers.base import Batch, Down, Signal, Up


class Turn(msgspec.Struct):
    """What is to be written, in the venue's order, each with its place."""

    trades: list[Trade] = []
    books: list[Book] = []
    mids: list[Mids] = []
    repeated: int = 0
    """Trades that were seen before."""


class Turns:
    """The state of one leader's term, turned by what the venue says and by the clock."""

    def __init__(
        self, provider: str, epoch: int, *, seen: Seen, holes: Holes, clock: FeedClock, throttle: BookThrottle
    ) -> None:
        self._provider = provider
        self._stamp = Stamper(epoch)
        self._seen = seen
        self._mark_ms = 0
        self.epoch = epoch
        self.holes = holes
        self.clock = clock
        self.throttle = throttle
        self.newest: dict[str, dict[str, int]] = {}
        """The time of the newest trade and book of each market: `{coin: {"trade_ms", "book_ms"}}`."""

    def turn(self, signals: Iterable[Signal], lost: Iterable[Span], now_ms: int, steady_ms: float) -> Turn:
        """Sort what came; `lost` are trades that did not fit, `steady_ms` is the clock of the throttle."""
        turn = Turn()
        for span in lost:
            self.holes.dropped(span)
        for signal in signals:
            if isinstance(signal, Batch):
                self._sort(signal, turn, steady_ms)
            elif isinstance(signal, Down):
                self.holes.down(min(signal.from_ms, now_ms), signal.cause, signal.coins)
            else:
                self._came_up(signal)
        turn.books += [self._stamp.book(book) for book in self.throttle.due(steady_ms)]
        return turn

    def marks(self, now_ms: int, up_to: str, last: dict[str, str] | None = None) -> list[Mark]:
        """The holes that have to be said now, before any later clock."""
        marks = []
        for span in self.holes.to_say(now_ms):
            # (provider, epoch, t, ts) names a mark, so no two may share their time.
            self._mark_ms = max(now_ms, self._mark_ms + 1)
            marks.append(
                Mark(
                    provider=self._provider,
                    epoch=self.epoch,
                    ts=self._mark_ms,
                    from_ms=span.from_ms,
                    to_ms=span.to_ms,
                    cause=span.cause,
                    coin=span.coin,
                    up_to=up_to,
                    last=last or {},
                )
            )
        return marks

    def tick(self, now_ms: int, up_to: str, waiting_ms: int | None) -> Clock | None:
        """The clock, if it is time for it; `waiting_ms` is when the oldest signal that is not sorted yet came."""
        said_ms = self.clock.say(now_ms, up=self.holes.up, waiting_ms=waiting_ms)
        if said_ms is None:
            return None
        return Clock(provider=self._provider, epoch=self.epoch, ts=said_ms, up_to=up_to)

    def _came_up(self, signal: Up) -> None:
        was_up = self.holes.up
        self.holes.came_up(signal.at_ms, signal.coins)
        if not was_up:
            self.clock.restart()

    def _sort(self, batch: Batch, turn: Turn, steady_ms: float) -> None:
        newest_ms = 0
        for event in batch.events:
            if isinstance(event, (Trade, Book)) and not self.holes.follows(event.coin):
                continue  # it was under way when its market was dropped
            if isinstance(event, Trade):
                if self._seen.is_new(event):
                    turn.trades.append(self._stamp.trade(event))
                    newest_ms = max(newest_ms, event.ts)
                    self._note(event.coin, "trade_ms", event.ts)
                else:
                    turn.repeated += 1
            elif isinstance(event, Book):
                book = self.throttle.offer(event, steady_ms)
                self._note(event.coin, "book_ms", event.ts)
                if book is not None:
                    turn.books.append(self._stamp.book(book))
            else:
                turn.mids.append(self._stamp.mids(event))
        if newest_ms:
            self.clock.saw(batch.received_ms, newest_ms)

    def _note(self, coin: str, what: str, ts_ms: int) -> None:
        times = self.newest.setdefault(coin, {"trade_ms": 0, "book_ms": 0})
        if ts_ms > times[what]:
            times[what] = ts_ms


def last_positions(entries: Sequence[dict[str, str]], provider: str, series: str) -> dict[str, str]:
    """The last position of each market's series among these entries, newest first."""
    last: dict[str, str] = {}
    for fields in entries:
        if fields.get("provider") == provider and fields.get("epoch"):
            position = f"{fields['epoch']}.{fields['seq']}.{fields['eventTs']}"
            last.setdefault(f"{fields['coin']}|{series}", position)
    return last
