"""The markets of a feed: which the venue is known to take, which it refused, and which are watched. Pure."""

from collections.abc import Iterable, Sequence

from artery.providers.base import Down, Up
from artery.providers.timing import Timing


class Roster:
    """What is known about each market, over all connections of a feed."""

    def __init__(self, coins: Sequence[str], timing: Timing) -> None:
        self.coins = tuple(dict.fromkeys(coins))
        self._timing = timing
        self._trusted: set[str] = set()  # acknowledged before: may be subscribed many at once
        self._up: set[str] = set()  # what the consumer believes to be watched
        self._said_down: set[str] = set()
        self._quarantine: dict[str, tuple[float, float]] = {}  # coin: when to try again, and the wait after that

    def want(self, coins: Sequence[str]) -> tuple[list[str], list[str]]:
        """From now on these are the markets; return those that were added and those that were dropped."""
        before, self.coins = self.coins, tuple(dict.fromkeys(coins))
        dropped = [coin for coin in before if coin not in self.coins]
        for coin in dropped:
            self._up.discard(coin)
            self._said_down.discard(coin)
            self._quarantine.pop(coin, None)
        return [coin for coin in self.coins if coin not in before], dropped

    def trusted(self) -> list[str]:
        return [coin for coin in self.coins if coin in self._trusted]

    def untried(self) -> list[str]:
        """Those to be asked for one by one, so that a refusal names its market."""
        return [coin for coin in self.coins if coin not in self._trusted and coin not in self._quarantine]

    def trust(self, coin: str) -> None:
        self._trusted.add(coin)

    def is_up(self, coin: str) -> bool:
        return coin in self._up

    def up(self, coins: Iterable[str], at_ms: int) -> Up:
        watched = tuple(coins)
        self._up.update(watched)
        self._said_down.difference_update(watched)
        return Up(watched, at_ms)

    def down(self, coin: str, cause: str, from_ms: int) -> list[Down]:
        """This market is not watched; said once until it is up again."""
        if coin in self._said_down:
            return []
        self._said_down.add(coin)
        self._up.discard(coin)
        return [Down(cause, from_ms, (coin,))]

    def lost(self, cause: str, from_ms: int) -> list[Down]:
        """The connection ended; said only if something was watched."""
        if not self._up:
            return []
        self._said_down |= self._up
        self._up.clear()
        return [Down(cause, from_ms)]

    def distrust(self, coins: Iterable[str]) -> None:
        """Ask for these one by one next time."""
        self._trusted.difference_update(coins)

    def refused(self, coin: str, now: float) -> None:
        """Leave this market out for a while, longer each time."""
        self._trusted.discard(coin)
        _, wait_s = self._quarantine.get(coin, (now, self._timing.quarantine_s))
        self._quarantine[coin] = (now + wait_s, min(wait_s * 2, self._timing.quarantine_max_s))

    def in_quarantine(self) -> list[str]:
        return list(self._quarantine)

    def to_probe(self, now: float) -> str:
        """A refused market whose time has come, or nothing."""
        return next((coin for coin, (due, _) in self._quarantine.items() if now >= due), "")

    def release(self, coin: str) -> None:
        self._quarantine.pop(coin, None)
