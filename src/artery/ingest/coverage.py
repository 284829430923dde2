"""Which candles of a series are on the log or in the lake already, so that nobody asks the venue for them again."""

import msgspec

from artery.ingest import spans
from artery.ingest.spans import Stretches
from artery.model.periods import Period
from artery.model.tickers import ticker
from artery.store.base import Store
from artery.wire import requests

KEPT_MAX = 500
TRIES_MAX = 20


async def covered(store: Store, provider: str, coin: str, period: Period) -> Stretches:
    """What requests, the first start and repairs have brought: all of it lies before whatever is appended now."""
    fetched = _stretches(await store.get(requests.covered_key(ticker(provider, coin), period.seconds)))
    repaired = _stretches(await store.get(f"artery:repair:{provider}:{coin}:{period}"))
    past = await store.get(f"artery:history:{provider}:{coin}:{period}")
    return spans.union([*fetched, *repaired, *_past(past)])


async def cover(store: Store, provider: str, coin: str, period: Period, stretch: tuple[int, int]) -> None:
    """Remember that this stretch is on the log; others may be adding theirs at the same time."""
    key = requests.covered_key(ticker(provider, coin), period.seconds)
    for _ in range(TRIES_MAX):
        old = await store.get(key)
        known = spans.newest(spans.union([*_stretches(old), stretch]), KEPT_MAX)
        if await store.compare_and_set(key, old, msgspec.json.encode(known)):
            return


def _stretches(value: bytes | None) -> Stretches:
    """What cannot be read is fetched again."""
    try:
        return msgspec.json.decode(value or b"[]", type=list[tuple[int, int]])
    except msgspec.DecodeError:
        return []


def _past(value: bytes | None) -> Stretches:
    try:
        found = msgspec.json.decode(value or b"{}", type=dict[str, int])
        return [(found["from_ms"], found["to_ms"])]
    except (msgspec.DecodeError, KeyError):
        return []
