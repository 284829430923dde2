"""Order books, thinned: at most so many a second and market, newest wins, repeats left out."""

from artery.model.events import Book

REPEAT_MS = 5_000


class _Market:
    """The book that was sent last, when, and the one that waits for its time."""

    __slots__ = ("held", "sent", "sent_ms")

    def __init__(self) -> None:
        self.sent: Book | None = None
        self.sent_ms = 0.0
        self.held: Book | None = None


class BookThrottle:
    """Decides which books are written. Times are in milliseconds on any one steady clock.

    `conflated` counts books that a newer one replaced before their time came, `repeated` those that say
    nothing new.
    """

    def __init__(self, per_s: float, repeat_ms: float = REPEAT_MS) -> None:
        self._gap_ms = 1_000 / per_s if per_s else None
        self._repeat_ms = repeat_ms
        self._markets: dict[str, _Market] = {}
        self._waiting: set[str] = set()
        self.conflated = 0
        self.repeated = 0

    def offer(self, book: Book, now_ms: float) -> Book | None:
        """The book, if it may be sent now; otherwise the newest waits for `due`."""
        if self._gap_ms is None:
            self.conflated += 1
            return None
        market = self._markets.setdefault(book.coin, _Market())
        self._replace_held(market, book.coin)
        if market.sent is None:
            return self._send(market, book, now_ms)
        age_ms = now_ms - market.sent_ms
        if age_ms < self._repeat_ms and (book.bids, book.asks) == (market.sent.bids, market.sent.asks):
            self.repeated += 1
            return None
        if age_ms >= self._gap_ms:
            return self._send(market, book, now_ms)
        market.held = book
        self._waiting.add(book.coin)
        return None

    def due(self, now_ms: float) -> list[Book]:
        """The books whose time has come."""
        ready = [coin for coin in self._waiting if now_ms >= self._due_ms(coin)]
        books = []
        for coin in sorted(ready):
            market = self._markets[coin]
            if market.held is not None:
                books.append(self._send(market, market.held, now_ms))
            market.held = None
            self._waiting.discard(coin)
        return books

    def next_ms(self) -> float | None:
        """When the next waiting book is due."""
        return min((self._due_ms(coin) for coin in self._waiting), default=None)

    def _due_ms(self, coin: str) -> float:
        return self._markets[coin].sent_ms + (self._gap_ms or 0)

    def _replace_held(self, market: _Market, coin: str) -> None:
        if market.held is not None:
            self.conflated += 1
            market.held = None
            self._waiting.discard(coin)

    @staticmethod
    def _send(market: _Market, book: Book, now_ms: float) -> Book:
        market.sent, market.sent_ms = book, now_ms
        return book
