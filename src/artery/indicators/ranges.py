"""How far a price moves: Bollinger bands and the average true range."""

from math import fsum, sqrt

import msgspec

from artery.indicators.averages import Ema, Window, wilder, window

Bands = tuple[float | None, float | None, float | None]


def bollinger(state: Window, close: float, length: int, width: float) -> tuple[Window, Bands]:
    """The upper, middle and lower band: the average, and `width` standard deviations (of all values) around it.

    Deviations are taken from the average itself. TA-Lib subtracts the square of the average from the average of
    squares, which costs it most digits in a calm market and flattens the bands of prices far below one.
    """
    state = window(state, close, length)
    if len(state.values) < length:
        return state, (None, None, None)
    middle = fsum(state.values) / length
    around = width * sqrt(fsum([(value - middle) * (value - middle) for value in state.values]) / length)
    return state, (middle + around, middle, middle - around)


class Atr(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The close before, and the average of true ranges."""

    last: float | None = None
    range: Ema = Ema()


def atr(state: Atr, high: float, low: float, close: float, length: int) -> tuple[Atr, float | None]:
    """Wilder's average of the true range; the first candle has none, as there is no close before it."""
    if state.last is None:
        return Atr(close), None
    true_range = max(high - low, abs(state.last - high), abs(state.last - low))
    ranges, found = wilder(state.range, true_range, length)
    return Atr(close, ranges), found
