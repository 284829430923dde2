"""Lengths of candles: `1m`, `4h`, `90s`; all start at multiples of themselves since 1970 in UTC."""

import re
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from artery.errors import BadInput

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_TEXT = re.compile(r"([1-9][0-9]{0,5})([smhd])", re.ASCII)
LONGEST_S = 365 * 86_400


class Period(msgspec.Struct, frozen=True, order=True):
    """A whole number of seconds."""

    seconds: int

    @staticmethod
    def parse(text: str) -> "Period":
        """`5m` → 300 s; anything else that people write is refused."""
        return _parse(text)

    @property
    def ms(self) -> int:
        return self.seconds * 1_000

    def start(self, ts_ms: int) -> int:
        """The start of the candle that holds this moment."""
        return ts_ms - ts_ms % self.ms

    def __str__(self) -> str:
        """The shortest way to write it: 3600 → `1h`."""
        for unit in ("d", "h", "m"):
            if self.seconds % _UNITS[unit] == 0:
                return f"{self.seconds // _UNITS[unit]}{unit}"
        return f"{self.seconds}s"


@lru_cache(maxsize=1_024)
def _parse(text: str) -> Period:
    match = _TEXT.fullmatch(text)
    if not match:
        raise BadInput(f"{text!r:.40} is not a period: write a whole number and s, m, h or d, as in 1m, 15m, 4h")
    seconds = int(match[1]) * _UNITS[match[2]]
    if seconds > LONGEST_S:
        raise BadInput(f"{text} is longer than the longest period, 365d")
    return Period(seconds)


def parse_periods(texts: Iterable[str]) -> tuple["Period", ...]:
    """Several periods, each once and the shortest first; none at all is refused."""
    found = tuple(sorted({Period.parse(text) for text in texts}))
    if not found:
        raise BadInput("at least one period is needed, as in 1m,5m,1h")
    return found


DERIVED = tuple(Period.parse(text) for text in ("1m", "5m", "15m", "1h", "4h", "1d"))
"""What the pipeline makes unless the settings choose others."""
