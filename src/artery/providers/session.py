"""One connection to a venue, without the connection: what to send, what to tell, and when to give up. Pure."""

from collections import deque
from collections.abc import Iterable
from typing import Literal

from artery.model.events import Book, Mids, Trade
from artery.providers.base import Batch, Down, Signal, Up
from artery.providers.frames import Ack, Complaint, Data, Dialect, Garbage, Heard, Kind, Stream
from artery.providers.liveness import Liveness
from artery.providers.roster import Roster
from artery.providers.timing import Budget, Timing
from artery.telemetry import counter, logger

HELD_MAX = 256

_MIDS = Stream("mids")
_frames = counter("provider_frames_total", "Frames that a venue sent, by what they held.", "provider", "kind")
_bad = counter("provider_bad_total", "Frames and rows of a venue that were left out.", "provider", "reason")
_stale = counter("provider_stale_total", "Streams of a venue that went silent.", "provider", "kind")
_log = logger("providers")


class Session:
    """Feed it what was heard and the time; take from it what to send and what to tell.

    Markets that the venue has taken before are subscribed at once, others one by one: when the socket closes, the
    market just asked for is the guilty one. A market that does not answer is passed over and asked again later.
    """

    def __init__(self, dialect: Dialect, roster: Roster, timing: Timing, now: float, wall_ms: int) -> None:
        self.verdict = ""  # why this connection must end, or did
        self.was_closed = False  # whether it was the venue that ended it
        self._dialect, self._roster, self._timing = dialect, roster, timing
        limits_s: dict[Kind, float] = {"book": timing.book_stale_s, "mids": timing.mids_stale_s}
        self._liveness = Liveness(limits_s, timing.silence_s, now)
        self._coins = frozenset(roster.coins)
        self._orders: deque[tuple[Literal["subscribe", "unsubscribe"], Stream]] = deque()
        self._careful = deque(roster.untried())
        self._asking = ""
        self._pending: dict[Stream, float] = {}
        self._again: dict[Stream, float] = {}
        self._waits: dict[Stream, float] = {}
        self._doubtful: set[str] = set()  # their book went silent and is not back
        self._suspects: set[str] = set()  # went silent: an acknowledgement alone does not clear them
        self._fresh: dict[str, int] = {}  # acknowledged, not announced yet
        self._fresh_since = now
        self._held: list[Batch] = []
        self._signals: list[Signal] = []
        self._good_ms = dict.fromkeys(roster.coins, wall_ms)
        self._torn_minute: dict[str, int] = {}
        self._dropped: set[str] = set()  # what is still on its way of these is nobody's any more
        self._ping_at = now + timing.ping_s
        self._budget = Budget(timing.messages_per_min, now)
        self._order(_MIDS)
        for coin in roster.trusted():
            self._order(Stream("trades", coin))
        for coin in roster.trusted():
            self._order(Stream("book", coin))

    @property
    def guilty(self) -> str:
        """The market that made the venue close the socket, if one did."""
        return self._asking if self.was_closed else ""

    def unanswered(self) -> list[str]:
        return [stream.coin for stream in self._pending if stream.kind == "trades"]

    def good_until_ms(self) -> int:
        """Up to when every watched market is known to be complete, with room for what was under way."""
        return min((self.good_ms(coin) for coin in self._good_ms if self._roster.is_up(coin)), default=0)

    def good_ms(self, coin: str) -> int:
        """Up to when this market is known to be complete."""
        return self._good_ms[coin] - self._timing.margin_ms

    def take_signals(self) -> list[Signal]:
        signals, self._signals = self._signals, []
        return signals

    def take_rest(self) -> list[Signal]:
        """What is left to tell when the connection has ended; what was heard is never thrown away."""
        held, self._held = self._held, []
        return [*self.take_signals(), *held]

    def take_sends(self, now: float) -> list[str]:
        """The messages to send now, as far as the venue's limit allows."""
        sends = []
        if now >= self._ping_at and self._budget.wait_s(1, now) == 0.0:
            self._ping_at = now + self._timing.ping_s
            sends.append(self._dialect.ping())
        while self._orders and self._budget.wait_s(1, now) == 0.0:
            method, stream = self._orders.popleft()
            if method == "subscribe":
                self._pending[stream] = now + self._timing.ack_s
                sends.append(self._dialect.subscribe(stream))
            else:
                sends.append(self._dialect.unsubscribe(stream))
        return sends

    def paused(self, seconds: float) -> None:
        """The consumer did not listen for so long: that is not the venue's silence."""
        self._liveness.paused(seconds)
        self._pending = {stream: due + seconds for stream, due in self._pending.items()}

    def admit(self, coin: str) -> None:
        """Ask for a market that the venue takes after all."""
        self._roster.release(coin)
        self._careful.append(coin)

    def follow(self, added: Iterable[str], dropped: Iterable[str], wall_ms: int) -> None:
        """The roster's markets have changed: ask for these, and for those no more."""
        self._coins = frozenset(self._roster.coins)
        for coin in added:
            self._good_ms[coin] = wall_ms
            self._dropped.discard(coin)
            self._careful.append(coin)
        for coin in dropped:
            self._drop(coin)

    def _drop(self, coin: str) -> None:
        self._dropped.add(coin)
        if self._asking == coin:
            self._asking = ""
        if coin in self._careful:
            self._careful.remove(coin)
        for stream in (Stream("trades", coin), Stream("book", coin)):
            if self._liveness.expects(stream) or stream in self._pending:
                self._orders.append(("unsubscribe", stream))
            elif ("subscribe", stream) in self._orders:
                self._orders.remove(("subscribe", stream))
            self._liveness.forget(stream)
            for waiting in (self._pending, self._again, self._waits):
                waiting.pop(stream, None)
        for known in (self._doubtful, self._suspects):
            known.discard(coin)
        self._fresh.pop(coin, None)
        self._good_ms.pop(coin, None)

    def tick(self, now: float) -> None:
        """Everything that time alone brings about."""
        self._expire(now)
        for stream in [stream for stream, due in self._again.items() if now >= due]:
            del self._again[stream]
            self._ask_again(stream)
        for stream in self._liveness.stale(now):
            self._notice_stale(stream, now)
        for coin in self._doubtful:
            self._doubt(coin, now)
        self._ask_next()
        self._announce(now)
        if not self.verdict and self._liveness.silent(now):
            self.verdict = f"the venue has sent no data for {self._timing.silence_s:g} s"

    def hear(self, heard: Heard, now: float, wall_ms: int) -> None:
        """Take in one frame."""
        _frames.labels(self._dialect.provider, type(heard).__name__.lower()).inc()
        if isinstance(heard, Data):
            self._hear_data(heard, now, wall_ms)
        elif isinstance(heard, Ack):
            if heard.method == "subscribe" and heard.stream is not None:
                self._hear_ack(heard.stream, now, wall_ms)
        elif isinstance(heard, Garbage):
            self._count_bad(heard.reason, 1)
        elif isinstance(heard, Complaint):
            self._count_bad("complaint", 1)
            _log.warning("the venue complains", provider=self._dialect.provider, words=heard.words)

    def _hear_ack(self, stream: Stream, now: float, wall_ms: int) -> None:
        """An acknowledgement counts also when it comes late."""
        coin = stream.coin
        if coin and coin not in self._coins:
            return
        known = self._liveness.expects(stream)
        for waiting in (self._pending, self._again, self._waits):
            waiting.pop(stream, None)
        self._liveness.expect(stream, now)
        if stream.kind != "trades":
            return
        self._roster.trust(coin)
        if self._asking == coin:
            self._asking = ""
        if not self._is_under_way(Stream("book", coin)):
            self._order(Stream("book", coin))
        if not known and coin not in self._suspects:
            self._freshen(coin, now, wall_ms)
        self._ask_next()
        self._announce(now)

    def _hear_data(self, data: Data, now: float, wall_ms: int) -> None:
        if data.bad:
            self._count_bad(f"bad {data.kind} row", data.bad)
        events: list[Trade | Book | Mids] = []
        for event in data.events:
            if isinstance(event, Mids):
                self._liveness.heard(_MIDS, now)
                events.append(event)
            elif isinstance(event, (Trade, Book)) and event.coin in self._coins:
                events.append(event)
            elif not isinstance(event, (Trade, Book)) or event.coin not in self._dropped:
                self._count_bad("not asked for", 1)
        last = events[-1] if events else None
        if isinstance(last, (Trade, Book)):
            self._heard_coin(last, now, wall_ms)
        if events:
            self._tell(Batch(events, wall_ms))
        if data.torn:
            self._tell_torn(data.torn, wall_ms)

    def _heard_coin(self, event: Trade | Book, now: float, wall_ms: int) -> None:
        """The venue's own time counts: a frame that waited in a buffer vouches for its moment, not for ours."""
        coin = event.coin
        if isinstance(event, Book):
            self._doubtful.discard(coin)
        self._liveness.heard(Stream("trades" if isinstance(event, Trade) else "book", coin), now)
        self._good_ms[coin] = max(self._good_ms[coin], min(event.ts, wall_ms))
        if coin in self._suspects and self._liveness.expects(Stream("trades", coin)):
            self._suspects.discard(coin)
            self._freshen(coin, now, wall_ms)
            self._announce(now)

    def _tell(self, batch: Batch) -> None:
        """Events that come between an acknowledgement and its announcement wait for it."""
        (self._held if self._fresh else self._signals).append(batch)

    def _tell_torn(self, torn: frozenset[str], wall_ms: int) -> None:
        """Trades that could not be read are a hole, said once a minute and market: no candle is shorter."""
        coins = self._coins if "" in torn else torn & self._coins
        minute = wall_ms // 60_000
        new = tuple(
            sorted(coin for coin in coins if self._roster.is_up(coin) and self._torn_minute.get(coin) != minute)
        )
        if new:
            self._torn_minute.update(dict.fromkeys(new, minute))
            from_ms = wall_ms - self._timing.margin_ms
            self._signals += [Down("a trade could not be read", from_ms, new), Up(new, wall_ms)]

    def _freshen(self, coin: str, now: float, wall_ms: int) -> None:
        if not self._fresh:
            self._fresh_since = now
        self._fresh[coin] = wall_ms
        self._good_ms[coin] = max(self._good_ms[coin], wall_ms)

    def _announce(self, now: float) -> None:
        """Say which markets are up, when no more acknowledgements are near or the wait was long enough."""
        if not self._fresh:
            self._signals += self._held
            self._held = []
            return
        expected = self._careful or self._asking or self.unanswered()
        if expected and now - self._fresh_since < self._timing.gather_s and len(self._held) < HELD_MAX:
            return
        self._signals.append(self._roster.up(self._fresh, max(self._fresh.values())))
        self._signals += self._held
        self._fresh, self._held = {}, []

    def _ask_next(self) -> None:
        """The next market of those asked for one by one, once all others have been answered for."""
        if not self._asking and self._careful and not self.unanswered():
            self._asking = self._careful.popleft()
            self._order(Stream("trades", self._asking))

    def _ask_again(self, stream: Stream) -> None:
        if stream.kind == "trades" and stream.coin not in self._suspects:
            self._careful.append(stream.coin)
        else:
            self._renew(stream)

    def _expire(self, now: float) -> None:
        """Pass over what was not answered in time."""
        for stream in [stream for stream, due in self._pending.items() if now > due]:
            del self._pending[stream]
            self._later(stream, now)
            if stream.kind == "trades":
                if self._asking == stream.coin:
                    self._asking = ""
                cause = "the venue does not answer for this market"
                self._signals += self._roster.down(stream.coin, cause, self.good_ms(stream.coin))

    def _later(self, stream: Stream, now: float) -> None:
        wait_s = self._waits.get(stream, self._timing.retry_s)
        self._waits[stream] = min(wait_s * 2, self._timing.retry_max_s)
        self._again[stream] = now + wait_s

    def _notice_stale(self, stream: Stream, now: float) -> None:
        """A silent stream is subscribed anew; a silent book casts doubt on its market."""
        _stale.labels(self._dialect.provider, stream.kind).inc()
        self._renew(stream)
        if stream.kind == "book":
            self._doubtful.add(stream.coin)

    def _doubt(self, coin: str, now: float) -> None:
        """A market without a book is down if its trades are silent too."""
        trades = Stream("trades", coin)
        if not self._liveness.expects(trades) or self._liveness.spoke_within(trades, self._timing.book_stale_s, now):
            return
        self._suspects.add(coin)
        self._fresh.pop(coin, None)
        cause = "the venue is silent about this market"
        self._signals += self._roster.down(coin, cause, self.good_ms(coin))
        self._renew(trades)

    def _renew(self, stream: Stream) -> None:
        self._liveness.forget(stream)
        self._orders.append(("unsubscribe", stream))
        self._order(stream)

    def _order(self, stream: Stream) -> None:
        self._orders.append(("subscribe", stream))

    def _is_under_way(self, stream: Stream) -> bool:
        """Whether this stream is subscribed, or will be without further ado."""
        ordered = any(stream == other for _, other in self._orders)
        return ordered or stream in self._pending or stream in self._again or self._liveness.expects(stream)

    def _count_bad(self, reason: str, count: int) -> None:
        _bad.labels(self._dialect.provider, reason).inc(count)
