"""What `/readyz` says: how each part is, in numbers and in words. Pure but for reading its sources."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from artery.bus.base import CAPS, Bus
from artery.errors import ArteryError
from artery.gateway import pipeline_numbers
from artery.gateway.catalog import FEEDS
from artery.gateway.lake_state import in_words, read_state
from artery.store.base import Store

PIPELINE = "artery:pipeline"
FRESH_MS = 15_000
PIPELINE_FRESH_MS = 60_000
COMMIT_FRESH_MS = 120_000


class Report(msgspec.Struct, frozen=True):
    """The whole; ready if all that clients need for live data is there."""

    ready: bool
    simulated: bool
    feeds: list[dict[str, Any]]
    pipeline: dict[str, Any]
    bus: list[dict[str, Any]]
    words: str = ""
    lake: Mapping[str, Any] = {}


async def report(bus: Bus, store: Store, *, provider: str, workers: bool, now_ms: int) -> Report:
    """How everything is, now."""
    simulated = provider == "sim"
    try:
        feeds = {name.removeprefix(FEEDS): _record(raw) for name, raw in await store.scan(FEEDS)}
        pipeline = _record(await store.get(PIPELINE))
        groups = await _groups(bus)
        lake = in_words(await read_state(store), now_ms)
    except ArteryError as error:
        return Report(False, simulated, [], pipeline_state({}, now_ms), [], f"the log or the store is away: {error}")
    rows = feed_states(feeds, provider=provider, workers=workers, now_ms=now_ms)
    ready = all(row["ok"] for row in rows)
    return Report(ready, simulated, rows, pipeline_state(pipeline, now_ms), groups, lake=lake)


async def pipeline_lines(store: Store) -> str:
    """The pipeline's numbers for Prometheus; none while the store is away."""
    try:
        return pipeline_numbers.lines(_record(await store.get(PIPELINE)))
    except ArteryError:
        return ""


def feed_states(
    feeds: Mapping[str, Mapping[str, Any]], *, provider: str, workers: bool, now_ms: int
) -> list[dict[str, Any]]:
    """A row for each feed; the configured one has a row even if nobody runs it."""
    names = sorted({provider, *feeds})
    return [_feed(name, feeds.get(name, {}), workers, now_ms) for name in names]


def pipeline_state(record: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    """Spark's progress, from what it last wrote down."""
    updated_ms, commit_ms, clock_ms = (_number(record, name) for name in ("updated_ms", "last_commit_ms", "clock_ms"))
    state = str(record.get("state", "off"))
    age_ms = now_ms - updated_ms if updated_ms else None
    if not record:
        state, words = "off", "the pipeline is not running: live data goes on, candles stand still"
    elif age_ms is None or age_ms > PIPELINE_FRESH_MS:
        state, words = "stale", f"the pipeline has said nothing for {_span(age_ms)}"
    elif state == "running":
        words = f"candles follow {_span(now_ms - clock_ms) if clock_ms else 'no clock yet,'} behind; " + (
            f"stored {_span(now_ms - commit_ms)} ago" if commit_ms else "nothing stored yet"
        )
        words += f"; {record['error']}" if record.get("error") else ""
    elif state == "failed":
        words = f"the pipeline has failed and will be started again: {record.get('error') or 'no reason given'}"
    else:
        words = "the pipeline is starting: the first candle takes about half a minute"
    return {
        "ok": state == "running",
        "state": state,
        "words": words,
        "age_ms": age_ms,
        "lag_s": max(0.0, round((now_ms - clock_ms) / 1_000, 3)) if clock_ms else None,
        "lag_entries": _number(record, "lag_entries") if "lag_entries" in record else None,
        "last_commit_ms": commit_ms or None,
        "batch": _number(record, "batch") if "batch" in record else None,
        "batch_ms": _number(record, "batch_ms") if "batch_ms" in record else None,
        "clock_ms": clock_ms or None,
        "late_trades": _number(record, "stale_trades") if "stale_trades" in record else None,
        "numbers": record.get("numbers") or {},
        "error": record.get("error") or None,
    }


def _feed(name: str, record: Mapping[str, Any], workers: bool, now_ms: int) -> dict[str, Any]:
    markets = record.get("markets")
    times = {coin: _newest(row) for coin, row in markets.items()} if isinstance(markets, Mapping) else {}
    newest = max(times.values(), default=0)
    age_ms = max(0, now_ms - newest) if newest else None
    state = str(record.get("state", "off"))
    updated_ms = _number(record, "updated_ms")
    if record and now_ms - updated_ms > FRESH_MS:
        state = "stale"
    return {
        "provider": name,
        "ok": state == "live",
        "state": state,
        "words": _feed_words(state, record, age_ms, workers, now_ms),
        "age_ms": age_ms,
        "epoch": _number(record, "epoch") or None,
        "since_ms": _number(record, "since_ms") or None,
        "markets": {coin: {"age_ms": max(0, now_ms - ms) if ms else None} for coin, ms in sorted(times.items())},
    }


def _feed_words(state: str, record: Mapping[str, Any], age_ms: int | None, workers: bool, now_ms: int) -> str:
    if not record:
        return (
            "no process runs this feed"
            if workers
            else "no process runs this feed: ART_STREAM_WORKERS is off here, so another one has to"
        )
    since_ms, cause = _number(record, "since_ms"), str(record.get("cause") or "")
    if state == "live":
        newest = f"newest event {_span(age_ms)} ago" if age_ms is not None else "no event yet"
        return f"live for {_span(now_ms - since_ms)}; {newest}" if since_ms else f"live; {newest}"
    reason = f": {cause}" if cause else ""
    return {
        "connecting": f"connecting to the venue{reason}",
        "standby": "another process leads this feed; this one stands by",
        "stale": f"the feed has gone quiet{reason}",
        "off": f"the feed is off{reason}",
    }.get(state, f"{state}{reason}")


async def _groups(bus: Bus) -> list[dict[str, Any]]:
    """Every group of every stream, and how far behind it is."""
    rows: list[dict[str, Any]] = []
    for stream in await bus.streams():
        if stream.name not in CAPS:
            continue
        for group in await bus.groups(stream.name):
            rows.append(
                {
                    "stream": stream.name,
                    "group": group.name,
                    "lag": group.lag,
                    "pending": group.pending,
                    "length": stream.length,
                    "lost": stream.lost,
                    "ok": stream.lost == 0,
                    "words": _group_words(group.lag, stream.lost),
                }
            )
    return rows


def _group_words(lag: int, lost: int) -> str:
    behind = "has read everything" if lag == 0 else f"{lag} entries behind"
    return behind if lost == 0 else f"{behind}; {lost} were trimmed unread"


def _record(raw: bytes | None) -> dict[str, Any]:
    if raw is None:
        return {}
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}


def _newest(row: Any) -> int:
    values: Iterable[Any] = row.values() if isinstance(row, Mapping) else ()
    return max((int(value) for value in values if isinstance(value, (int, float))), default=0)


def _number(record: Mapping[str, Any], name: str) -> int:
    value = record.get(name)
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0


def _span(ms: int | None) -> str:
    """A length of time as people say it."""
    if ms is None:
        return "an unknown time"
    seconds = max(0, ms) / 1_000
    for limit, size, unit in ((90, 1, "s"), (5_400, 60, "min"), (172_800, 3_600, "h")):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} days"
