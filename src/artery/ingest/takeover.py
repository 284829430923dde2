"""What a new leader does before it listens: fence the older ones, then read what they left."""

from collections.abc import AsyncIterator, Sequence
from functools import partial

import msgspec

from artery import crash
from artery.bus.base import Entry
from artery.errors import ArteryError
from artery.ingest.dedup import Seen
from artery.ingest.marks import Span, inherited, watched
from artery.ingest.parts import Parts
from artery.ingest.retry import persist
from artery.ingest.turns import last_positions
from artery.telemetry import logger

FENCED_STREAMS = ("trade", "book", "feed", "history", "symbol")
PAGE = 1_000
TRADES_MAX = 100_000
TRADES_PER_COIN = 1_000
TRADES_BACK_MIN_MS = 60_000
TRADES_BACK_MAX_MS = 3 * 3_600_000
FEED_MAX = 20_000
BOOKS = 300

_log = logger("ingest")


class Inheritance(msgspec.Struct):
    """What the leaders before left on the bus, and what this one therefore cannot vouch for."""

    head: str
    """The head of the trade stream."""
    clock_ms: int
    """The newest CLOCK of this provider, or 0."""
    spans: list[Span]
    last: dict[str, str]
    seen: Seen
    watched: dict[str, int]
    """To be remembered once the spans are on the bus."""


async def take_over(parts: Parts, epoch: int, coins: Sequence[str], cause: str) -> Inheritance:
    """Fence, then read: what is read is then all that older leaders will ever have written."""
    for stream in FENCED_STREAMS:
        await persist(partial(parts.bus.append, stream, [], writer=parts.provider, epoch=epoch), "fencing on the bus")
    crash.point("ingest.fenced")
    return await persist(partial(_read, parts, coins, cause), "reading the bus")


async def _read(parts: Parts, coins: Sequence[str], cause: str) -> Inheritance:
    head = await parts.bus.head("trade")
    clock_ms, vouched_ms = await _vouched(parts)
    seen, last = await _trades(parts, coins)
    books = await parts.bus.read_back("book", BOOKS)
    last |= last_positions([entry.fields for entry in books], parts.provider, "BOOK_TOPN")
    before = await _watched_before(parts)
    spans = inherited(coins, before, vouched_ms, parts.now_ms(), cause)
    return Inheritance(head, clock_ms, spans, last, seen, watched(coins, before, vouched_ms))


async def _vouched(parts: Parts) -> tuple[int, int | None]:
    """The newest CLOCK (0 if there is none), and the time up to which the last leader vouched (None: no leader)."""
    marked_ms: int | None = None
    async for entry in back(parts, "feed", FEED_MAX):
        if entry.fields.get("provider") != parts.provider:
            continue
        if entry.fields.get("t") == "CLOCK":
            clock_ms = int(entry.fields["ts"])
            return clock_ms, clock_ms
        if entry.fields.get("t") == "MARK":
            marked_ms = int(entry.fields["from"])
    return 0, marked_ms


async def _trades(parts: Parts, coins: Sequence[str]) -> tuple[Seen, dict[str, str]]:
    """The newest trades of each market, enough to know those again that a venue repeats."""
    names: dict[str, list[tuple[int, str]]] = {coin: [] for coin in coins}
    last: dict[str, str] = {}
    newest_ms = oldest_ms = count = 0
    whole = True
    async for entry in back(parts, "trade", TRADES_MAX):
        count += 1
        fields = entry.fields
        if fields.get("provider") != parts.provider:
            continue
        # Of a market that is not followed now too: it may be, later in this term.
        oldest_ms, of_coin = int(fields["ts"]), names.setdefault(fields["coin"], [])
        newest_ms = newest_ms or oldest_ms
        if not of_coin:
            last |= last_positions([fields], parts.provider, "TRADE")
        of_coin.append((oldest_ms, fields["tid"]))
        if _enough(newest_ms - oldest_ms, [names[coin] for coin in coins]):
            whole = False
            break
    seen = Seen(-1 if whole and count < TRADES_MAX else oldest_ms - 1)
    for coin, of_coin in names.items():
        seen.seed(coin, reversed(of_coin))
    return seen, last


def _enough(back_ms: int, names: Sequence[Sequence[object]]) -> bool:
    if back_ms < TRADES_BACK_MIN_MS:
        return False
    return back_ms > TRADES_BACK_MAX_MS or all(len(of_coin) >= TRADES_PER_COIN for of_coin in names)


async def back(parts: Parts, stream: str, limit: int) -> AsyncIterator[Entry]:
    """The newest entries of a stream, newest first, page by page."""
    before = ""
    while limit > 0:
        page = await parts.bus.read_back(stream, min(PAGE, limit), before)
        for entry in page:
            yield entry
        if not page:
            return
        limit -= len(page)
        before = page[-1].id


def _watched_key(provider: str) -> str:
    return f"artery:watched:{provider}"


async def _watched_before(parts: Parts) -> dict[str, int] | None:
    value = await parts.store.get(_watched_key(parts.provider))
    try:
        return None if value is None else msgspec.json.decode(value, type=dict[str, int])
    except msgspec.DecodeError as error:
        _log.warning("what was watched before cannot be read and counts as unknown", reason=str(error))
        return None


async def remember_watched(parts: Parts, coins: dict[str, int]) -> None:
    try:
        await parts.store.put(_watched_key(parts.provider), msgspec.json.encode(coins))
    except ArteryError as error:
        _log.warning("what is watched cannot be remembered", reason=str(error))
