"""What holds of the indicators whatever the market does."""

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artery.indicators.bar import Bar
from artery.indicators.standard import NAMES, State, fold, step
from tests.indicators.made import T0, bars, walk


def last(made: list[Bar]) -> dict[str, float | None]:
    return dict(zip(NAMES, list(fold(made))[-1][1], strict=True))


def test_a_state_survives_json_to_the_bit() -> None:
    state = State()
    for bar in walk(100):
        state, values = step(state, bar)
        again = msgspec.json.decode(msgspec.json.encode(state), type=State)
        assert again == state
        assert step(again, bar) == step(state, bar)
        assert len(values) == len(NAMES)


@settings(deadline=None)
@given(st.lists(bars(), min_size=40, max_size=60))
def test_values_are_numbers_within_their_bounds(made: list[Bar]) -> None:
    found = last(made)
    assert all(value is not None and math.isfinite(value) for value in found.values())
    closes = [bar.c for bar in made]
    assert 0 <= (found["rsi_14"] or 0) <= 100
    assert (found["atr_14"] or 0) >= 0
    assert (found["bb_lower"] or 0) <= (found["bb_middle"] or 0) <= (found["bb_upper"] or 0)
    for name in ("ema_12", "ema_26", "sma_20", "bb_middle"):
        assert min(closes) * (1 - 1e-12) <= (found[name] or 0) <= max(closes) * (1 + 1e-12), name


@pytest.mark.parametrize("power", [-40, -20, 20])
def test_prices_of_any_size_have_the_same_digits(power: int) -> None:
    """A power of two changes no digit, so neither may it change an indicator's."""
    factor = 2.0**power
    made = walk(60)
    scaled = [Bar(b.start, 0, b.o * factor, b.h * factor, b.l * factor, b.c * factor, b.v) for b in made]
    found, small = last(made), last(scaled)
    for name in NAMES:
        same = name in ("rsi_14", "volume_sma_20")
        assert small[name] == (found[name] or 0) * (1.0 if same else factor), name


def test_one_huge_volume_is_forgotten_with_its_window() -> None:
    calm = [Bar(T0 + at * 60_000, 0, 1.0, 1.0, 1.0, 1.0, 0.1) for at in range(30)]
    spike = Bar(T0 - 60_000, 0, 1.0, 1.0, 1.0, 1.0, 1e17)
    assert last([spike, *calm])["volume_sma_20"] == last(calm)["volume_sma_20"] == 0.1
