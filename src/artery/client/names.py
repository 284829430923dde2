"""Markets and moments as people write them."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from numbers import Real
from typing import Any

from artery.errors import BadInput
from artery.model.channels import ALL_MIDS, PREFIX, Channel
from artery.model.periods import Period
from artery.model.series import Position
from artery.model.tickers import parse_ticker

Since = str | int | datetime | Position | Mapping[str, str | Position]
"""A time, the last position that was seen, or that of each series."""

_PLACE = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+", re.ASCII)
_AGO = re.compile(r"[0-9]{1,6}[smhd]", re.ASCII)


def channel(name: str) -> Channel:
    """`artery:stream:sim:BTC`, `sim:BTC` and `SIM:BTC` all name one channel."""
    if name.startswith(PREFIX):
        return Channel.parse(name)
    exchange = name.partition(":")[0]
    if exchange and exchange == exchange.upper():
        return Channel(*parse_ticker(name))
    return Channel.parse(PREFIX + name)


def moment(when: str | int | datetime, now_ms: int) -> int:
    """Unix milliseconds of `2h` (ago), of an ISO time (UTC unless it says otherwise), or of a number of ms."""
    if isinstance(when, (int, Real)):  # a number of NumPy's or pandas' too
        return _whole(when)
    if isinstance(when, str):
        if _AGO.fullmatch(when):
            return now_ms - Period.parse(when).ms
        try:
            when = datetime.fromisoformat(when)
        except ValueError:
            raise BadInput(f"{when!r:.40} is not a time: write 2h, 7d, or an ISO time as 2026-01-31T12:00") from None
    if not isinstance(when, datetime):
        raise BadInput(f"{when!r:.40} is not a time: give an age, an ISO time, a datetime or Unix milliseconds")
    return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1_000)


def _whole(number: Any) -> int:
    try:
        return int(number)
    except (ValueError, OverflowError):
        raise BadInput(f"{number!r:.40} is not a time in Unix milliseconds") from None


def types_of(types: str | Sequence[str]) -> list[str]:
    """A single type may be given without a list."""
    return [types] if isinstance(types, str) else list(types)


def series(market: Channel, types: Sequence[str]) -> list[str]:
    """The series that a client gets: those it names, in their canonical form, or all that the channel carries."""
    if not types:
        return ["MIDS"] if market.market == ALL_MIDS else ["BOOK_TOPN", "CANDLE:1m", "TRADE"]
    return [f"CANDLE:{Period.parse(name[7:])}" if name.startswith("CANDLE:") else name for name in types]


def starts(since: Since | None, names: Sequence[str], now_ms: int) -> dict[str, str]:
    """Where each series begins, as the gateway takes it; a time is a position of epoch 0."""
    if since is None:
        return {}
    if isinstance(since, Mapping):
        return {name: str(since[name]) for name in names if name in since}
    if isinstance(since, Position) or (isinstance(since, str) and _PLACE.fullmatch(since)):
        if len(names) != 1:
            raise BadInput("a position belongs to one series: name that type alone, or give a position for each type")
        return {names[0]: str(since)}
    return dict.fromkeys(names, f"0.0.{max(0, moment(since, now_ms))}")
