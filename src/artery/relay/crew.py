"""Which processors a relay should be connected to, and when it leaves one that is no longer named. Pure."""

from collections.abc import Collection

DRAIN_S = 30.0
"""How long a processor that is no longer named is kept, unless its connection ends before: it may have more to say."""


class Crew:
    """Those that are named, those that are left once they have drained, and who is really there."""

    def __init__(self) -> None:
        self._named: set[str] = set()
        self._leaving: dict[str, float] = {}
        self._up: set[str] = set()

    def name(self, urls: Collection[str], now_s: float) -> None:
        """These are the processors now."""
        for url in self._named - set(urls):
            self._leaving[url] = now_s + DRAIN_S
        self._named = set(urls)
        for url in self._named & self._leaving.keys():
            del self._leaving[url]

    def came(self, url: str) -> None:
        self._up.add(url)

    def went(self, url: str) -> None:
        """Its connection has ended: if it was being left, it has said all it had to say."""
        self._up.discard(url)
        self._leaving.pop(url, None)

    def urls(self, now_s: float) -> set[str]:
        """Whom to be connected to."""
        self._leaving = {url: until for url, until in self._leaving.items() if until > now_s}
        return self._named | self._leaving.keys()

    def connected(self) -> tuple[str, ...]:
        """Who is really there."""
        return tuple(sorted(self._up))
