"""RSI (Wilder) and MACD, seeded as TA-Lib does."""

import msgspec

from artery.indicators.averages import Ema, ema, wilder


class Rsi(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The close before, and the averages of gains and losses."""

    last: float | None = None
    gain: Ema = Ema()
    loss: Ema = Ema()


def rsi(state: Rsi, close: float, length: int) -> tuple[Rsi, float | None]:
    """Relative strength from 0 to 100; it begins with the close after the first `length` changes.

    A market that has never moved has 0, as in TA-Lib.
    """
    if state.last is None:
        return Rsi(close), None
    change = close - state.last
    gains, gain = wilder(state.gain, change if change > 0 else 0.0, length)
    losses, loss = wilder(state.loss, -change if change < 0 else 0.0, length)
    state = Rsi(close, gains, losses)
    if gain is None or loss is None:
        return state, None
    both = gain + loss
    return state, 100.0 * (gain / both) if both > 0 else 0.0


class Macd(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How many closes it has taken (counted up to the slow length), and the three averages."""

    count: int = 0
    fast: Ema = Ema()
    slow: Ema = Ema()
    signal: Ema = Ema()


MacdValues = tuple[float | None, float | None, float | None]


def macd(state: Macd, close: float, fast: int, slow: int, signal: int) -> tuple[Macd, MacdValues]:
    """The difference of two averages, its own average, and the difference of those.

    Both averages begin at the same close, the fast one with the newest `fast` of the first `slow`, and all three
    values begin together, as in TA-Lib.
    """
    quick, slow_state = state.fast, state.slow
    quick_value = None
    if state.count >= slow - fast:
        quick, quick_value = ema(state.fast, close, fast)
    slow_state, slow_value = ema(state.slow, close, slow)
    count = min(state.count + 1, slow)
    if quick_value is None or slow_value is None:
        return Macd(count, quick, slow_state, state.signal), (None, None, None)
    line = quick_value - slow_value
    signals, line_signal = ema(state.signal, line, signal)
    state = Macd(count, quick, slow_state, signals)
    return state, (line, line_signal, line - line_signal) if line_signal is not None else (None, None, None)
