"""The set of indicators that Artery keeps for every series of candles."""

from collections.abc import Iterable, Iterator

import msgspec

from artery.indicators.averages import Ema, Window, ema, sma
from artery.indicators.bar import Bar
from artery.indicators.momentum import Macd, Rsi, macd, rsi
from artery.indicators.ranges import Atr, atr, bollinger

NAMES = (
    "ema_12",
    "ema_26",
    "sma_20",
    "rsi_14",
    "macd",
    "macd_signal",
    "macd_hist",
    "bb_upper",
    "bb_middle",
    "bb_lower",
    "atr_14",
    "volume_sma_20",
)
"""What `step` returns, in this order; VWAP comes from trades and stands beside them."""

VWAP = "vwap"
WARM = 34
"""So many candles and every indicator has a value (MACD's signal is the last: 26 + 9 - 1)."""

Values = tuple[float | None, ...]


class State(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """All that the candles so far have left; JSON keeps every bit of it."""

    ema_12: Ema = Ema()
    ema_26: Ema = Ema()
    sma_20: Window = Window()
    rsi_14: Rsi = Rsi()
    macd: Macd = Macd()
    bands: Window = Window()
    atr_14: Atr = Atr()
    volume_sma_20: Window = Window()


NOTHING: Values = (None,) * len(NAMES)


def step(state: State, bar: Bar) -> tuple[State, Values]:
    """One candle further; for an open candle the new state is not kept."""
    close = bar.c
    ema_12, quick = ema(state.ema_12, close, 12)
    ema_26, slow = ema(state.ema_26, close, 26)
    sma_20, mean = sma(state.sma_20, close, 20)
    rsi_14, strength = rsi(state.rsi_14, close, 14)
    macds, lines = macd(state.macd, close, 12, 26, 9)
    bands, edges = bollinger(state.bands, close, 20, 2.0)
    atr_14, true_range = atr(state.atr_14, bar.h, bar.l, close, 14)
    volumes, volume = sma(state.volume_sma_20, bar.v, 20)
    state = State(ema_12, ema_26, sma_20, rsi_14, macds, bands, atr_14, volumes)
    return state, (quick, slow, mean, strength, *lines, *edges, true_range, volume)


def fold(bars: Iterable[Bar], state: State | None = None) -> Iterator[tuple[Bar, Values]]:
    """Each candle with its values, oldest first: the batch form of `step`."""
    state = state or State()
    for bar in bars:
        state, values = step(state, bar)
        yield bar, values
