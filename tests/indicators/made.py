"""Candles that indicator tests are made of."""

import random

from hypothesis import strategies as st

from artery.indicators.bar import Bar

MINUTE_MS = 60_000
T0 = 1_730_000_040_000


def walk(count: int, *, seed: int = 7, price: float = 100.0, move: float = 0.002) -> list[Bar]:
    """A market that wanders, from minute to minute."""
    chance, close = random.Random(seed), price
    made = []
    for at in range(count):
        o, close = close, close * (1 + chance.gauss(0, move))
        high = max(o, close) * (1 + abs(chance.gauss(0, move / 2)))
        low = min(o, close) * (1 - abs(chance.gauss(0, move / 2)))
        made.append(Bar(T0 + at * MINUTE_MS, 0, o, high, low, close, chance.expovariate(0.2)))
    return made


def prices() -> st.SearchStrategy[float]:
    return st.floats(1e-9, 1e9, allow_subnormal=False)


@st.composite
def bars(draw: st.DrawFn, start: int = T0, rev: int = 0) -> Bar:
    """Any candle at all, at this start."""
    low, o, c, high = sorted(draw(st.tuples(prices(), prices(), prices(), prices())))
    if draw(st.booleans()):
        o, c = c, o
    return Bar(start, rev, o, high, low, c, draw(st.floats(0, 1e17, allow_subnormal=False)))
