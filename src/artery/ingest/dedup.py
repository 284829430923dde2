"""Trades that were seen before: a venue repeats its newest ones with every subscription."""

from collections import deque
from collections.abc import Iterable

from artery.model.events import Trade

KEEP_MS = 600_000
KEEP_AT_LEAST = 2_000
KEEP_AT_MOST = 50_000


class _Coin:
    """What is remembered of one market, oldest first; `floor_ms` is the newest time that was forgotten."""

    __slots__ = ("floor_ms", "names", "newest_ms", "order")

    def __init__(self, floor_ms: int) -> None:
        self.names: set[tuple[int, str]] = set()
        self.order: deque[tuple[int, str]] = deque()
        self.newest_ms = 0
        self.floor_ms = floor_ms


class Seen:
    """Knows the newest trades of each market by `(coin, ts, tid)`, within bounds of time and number.

    A trade from before what is remembered counts as seen: its time was vouched for, or marked as a hole,
    when it was new, and to write it again would put it on the bus twice. `floor_ms` is such a time for all.
    """

    def __init__(
        self,
        floor_ms: int = -1,
        *,
        keep_ms: int = KEEP_MS,
        keep_at_least: int = KEEP_AT_LEAST,
        keep_at_most: int = KEEP_AT_MOST,
    ) -> None:
        self._floor_ms = floor_ms
        self._keep_ms = keep_ms
        self._at_least = keep_at_least
        self._at_most = keep_at_most
        self._coins: dict[str, _Coin] = {}

    def is_new(self, trade: Trade) -> bool:
        """Whether this trade was not seen before; from now on it was."""
        coin = self._coin(trade.coin)
        name = (trade.ts, trade.tid)
        if trade.ts <= coin.floor_ms or name in coin.names:
            return False
        self._remember(coin, name)
        return True

    def seed(self, coin: str, names: Iterable[tuple[int, str]]) -> None:
        """Remember trades that the bus holds, oldest first."""
        known = self._coin(coin)
        for name in names:
            if name not in known.names:
                self._remember(known, name)

    def count(self, coin: str) -> int:
        """How many trades of this market are remembered."""
        return len(self._coins[coin].names) if coin in self._coins else 0

    def _coin(self, name: str) -> _Coin:
        coin = self._coins.get(name)
        if coin is None:
            coin = self._coins[name] = _Coin(self._floor_ms)
        return coin

    def _remember(self, coin: _Coin, name: tuple[int, str]) -> None:
        coin.names.add(name)
        coin.order.append(name)
        coin.newest_ms = max(coin.newest_ms, name[0])
        while self._too_much(coin):
            oldest = coin.order.popleft()
            coin.names.discard(oldest)
            coin.floor_ms = max(coin.floor_ms, oldest[0])

    def _too_much(self, coin: _Coin) -> bool:
        size = len(coin.order)
        if size > self._at_most:
            return True
        return size > self._at_least and coin.order[0][0] < coin.newest_ms - self._keep_ms
