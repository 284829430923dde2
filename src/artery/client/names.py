"""Markets and moments as people write them."""

import re
from datetime import UTC, datetime

from artery.errors import BadInput
from artery.model.channels import PREFIX, Channel
from artery.model.periods import Period
from artery.model.tickers import parse_ticker

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
    if isinstance(when, int):
        return when
    if isinstance(when, str):
        if _AGO.fullmatch(when):
            return now_ms - Period.parse(when).ms
        try:
            when = datetime.fromisoformat(when)
        except ValueError:
            raise BadInput(f"{when!r:.40} is not a time: write 2h, 7d, or an ISO time as 2026-01-31T12:00") from None
    return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1_000)
