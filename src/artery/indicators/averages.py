"""Averages: plain over a window, exponential, and Wilder's.

A window is summed anew at each step, exactly rounded: a running sum, as TA-Lib keeps it, carries the rounding of every
value that it has ever seen, and a single huge volume would spoil it for good.
"""

from math import fsum

import msgspec


class Window(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The newest values, oldest first."""

    values: tuple[float, ...] = ()


def window(state: Window, value: float, length: int) -> Window:
    """The window one value further."""
    return Window((*state.values, value)[-length:])


def sma(state: Window, value: float, length: int) -> tuple[Window, float | None]:
    """Simple moving average; it begins with the `length`-th value."""
    state = window(state, value, length)
    return state, fsum(state.values) / length if len(state.values) == length else None


class Ema(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How many values it has taken (counted up to its length), and their sum until then, their average from then on."""

    count: int = 0
    value: float = 0.0


def ema(state: Ema, value: float, length: int) -> tuple[Ema, float | None]:
    """Exponential moving average; it begins with the plain average of the first `length` values."""
    if state.count < length:
        return _seeded(state, value, length)
    found = (value - state.value) * (2.0 / (length + 1)) + state.value
    return Ema(length, found), found


def wilder(state: Ema, value: float, length: int) -> tuple[Ema, float | None]:
    """Wilder's average: the same beginning, then each value weighs 1/`length`."""
    if state.count < length:
        return _seeded(state, value, length)
    found = (state.value * (length - 1) + value) / length
    return Ema(length, found), found


def _seeded(state: Ema, value: float, length: int) -> tuple[Ema, float | None]:
    count, total = state.count + 1, state.value + value
    if count < length:
        return Ema(count, total), None
    return Ema(count, total / length), total / length
