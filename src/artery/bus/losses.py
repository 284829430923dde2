"""What entries that are about to be lost were about: times of markets, as marks of their feeds. Pure."""

from collections.abc import Iterable, Mapping

from artery.bus.base import Entry
from artery.errors import BadEvent
from artery.model import codec
from artery.model.events import Book, Candle, Clock, FeedEvent, Mark, MarketEvent, Mids, Trade

CAUSE = "trimmed"
Market = tuple[str, str]
"""Provider and coin; an empty coin is all of the provider's."""


class Losses:
    """The first and last time of each market among some entries."""

    def __init__(self) -> None:
        self._times: dict[Market, tuple[int, int]] = {}

    def see(self, entries: Iterable[Entry]) -> None:
        """Take in entries; one that cannot be read or names no time (a page of history) is of no market."""
        for entry in entries:
            try:
                event = codec.decode(entry.fields, entry_id=entry.id)
            except BadEvent:
                continue
            if not isinstance(event, Mids | Clock):
                self._add((event.provider, event.coin), *_times(event))

    def reach(self, entries: Iterable[Entry]) -> None:
        """More was lost than was seen: every market's time reaches to that of these, the first that are left."""
        rest = Losses()
        rest.see(entries)
        until_ms = max((to_ms for _, to_ms in rest._times.values()), default=0)
        for market in list(self._times):
            self._add(market, until_ms, until_ms)

    def marks(self, epochs: Mapping[str, int], now_ms: int, up_to: str, most: int = 0) -> list[Mark]:
        """One for each market, or for each provider as a whole if the markets are more than `most` (if not 0); no two
        have the same time, which is part of a mark's name."""
        times = self._of_providers() if 0 < most < len(self._times) else self._times
        return [
            Mark(
                provider=provider,
                coin=coin,
                epoch=epochs.get(provider, 0),
                ts=now_ms + number,
                from_ms=from_ms,
                to_ms=to_ms + 1,
                cause=CAUSE,
                up_to=up_to,
            )
            for number, ((provider, coin), (from_ms, to_ms)) in enumerate(sorted(times.items()))
        ]

    def _of_providers(self) -> dict[Market, tuple[int, int]]:
        whole = Losses()
        for (provider, _), (from_ms, to_ms) in self._times.items():
            whole._add((provider, ""), from_ms, to_ms)
        return whole._times

    def _add(self, market: Market, from_ms: int, to_ms: int) -> None:
        old = self._times.get(market, (from_ms, to_ms))
        self._times[market] = min(old[0], from_ms), max(old[1], to_ms)


def _times(event: MarketEvent | FeedEvent) -> tuple[int, int]:
    match event:
        case Trade() | Book():
            return event.ts, event.ts
        case Candle():
            return event.start_ts, event.end_ts - 1
        case Mark():
            return event.from_ms, event.to_ms
    raise TypeError(event)
