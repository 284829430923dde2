"""A market for the pipeline's figures: trades as ingest writes them, as many as are wanted, none twice."""

from collections.abc import Iterator

from artery.bus.base import Bus
from artery.model.codec import encode
from artery.model.events import Clock

BEGIN_MS = 1_730_073_600_000
PER_S = 2_000
"""Trades a second of market time."""
FILL = 5_000
Fields = dict[str, str]


def trade(number: int, markets: int, ts: int) -> Fields:
    """The trade of this number; its market's `seq` counts without a hole."""
    return {
        "ver": "1",
        "t": "TRADE",
        "provider": "sim",
        "eventTs": str(ts + 11),
        "epoch": "1729999000000",
        "seq": str(number // markets + 1),
        "coin": f"COIN{number % markets:03d}",
        "ts": str(ts),
        "tid": str(931_000_000_000_000 + number),
        "px": f"{43_250 + number * 13 % 9_999 / 100:.2f}",
        "sz": f"0.{number * 7 % 9_999 + 1:04d}",
        "side": "B" if number % 3 else "S",
    }


def past(count: int, markets: int, per_s: int = PER_S) -> Iterator[list[Fields]]:
    """So many trades, in appends."""
    for first in range(0, count, FILL):
        numbers = range(first, min(count, first + FILL))
        yield [trade(number, markets, BEGIN_MS + number * 1_000 // per_s) for number in numbers]


async def fill(bus: Bus, count: int, markets: int, per_s: int = PER_S) -> str:
    """Put them on the bus with the clock that follows them; return the last one's position."""
    head = "0"
    for entries in past(count, markets, per_s):
        head = (await bus.append("trade", entries))[-1]
        now_ms = int(entries[-1]["ts"])
        await bus.append("feed", [encode(Clock(provider="sim", epoch=1, ts=now_ms, up_to=head))])
    return head
