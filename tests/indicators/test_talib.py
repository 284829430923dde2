"""Where TA-Lib has an indicator, ours begins with the same candle and has the same value."""

import numpy as np
import pytest
import talib

from artery.indicators.bar import Bar
from artery.indicators.standard import NAMES, WARM, fold
from tests.indicators.made import walk

Columns = dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]


def ours(bars: list[Bar]) -> Columns:
    rows = [values for _, values in fold(bars)]
    return {name: np.array([row[at] for row in rows], np.float64) for at, name in enumerate(NAMES)}


def theirs(bars: list[Bar]) -> Columns:
    high, low, close, volume = (np.array([getattr(bar, name) for bar in bars]) for name in "hlcv")
    line, signal, histogram = talib.MACD(close, 12, 26, 9)
    upper, middle, lower = talib.BBANDS(close, 20, 2, 2)
    return {
        "ema_12": talib.EMA(close, 12),
        "ema_26": talib.EMA(close, 26),
        "sma_20": talib.SMA(close, 20),
        "rsi_14": talib.RSI(close, 14),
        "macd": line,
        "macd_signal": signal,
        "macd_hist": histogram,
        "bb_upper": upper,
        "bb_middle": middle,
        "bb_lower": lower,
        "atr_14": talib.ATR(high, low, close, 14),
        "volume_sma_20": talib.SMA(volume, 20),
    }


@pytest.mark.parametrize("price", [0.01, 1.0, 100.0, 65_000.0])
@pytest.mark.parametrize("seed", range(5))
def test_every_value_is_that_of_talib(price: float, seed: int) -> None:
    bars = walk(3_000, seed=seed, price=price)
    found, wanted = ours(bars), theirs(bars)
    assert set(wanted) == set(NAMES)
    for name in NAMES:
        # A difference of averages may pass through zero, where only its rounding is left.
        near_zero = 1e-13 * price if name.startswith("macd") else 0.0
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-9, atol=near_zero, err_msg=name)


@pytest.mark.parametrize("count", [1, 2, 12, 14, 15, 20, 26, 33, 34, 35])
def test_every_value_begins_with_the_same_candle(count: int) -> None:
    bars = walk(count)
    found, wanted = ours(bars), theirs(bars)
    for name in NAMES:
        assert np.isnan(found[name]).tolist() == np.isnan(wanted[name]).tolist(), name
    assert all(not np.isnan(found[name][-1]) for name in NAMES) is (count >= WARM)


def test_a_market_that_never_moves_is_as_in_talib() -> None:
    bars = [Bar(at * 60_000, 0, 0.5, 0.5, 0.5, 0.5, 1.0) for at in range(100)]
    found, wanted = ours(bars), theirs(bars)
    for name in NAMES:
        np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)
    assert found["rsi_14"][-1] == 0.0
    assert found["bb_upper"][-1] == found["bb_lower"][-1] == 0.5
