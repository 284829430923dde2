"""What indicators see of a candle: here exact numbers become floats."""

from decimal import Decimal

import msgspec

from artery.model.events import Candle


class Bar(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One candle in floats; `rev` says which version of it."""

    start: int
    rev: int
    o: float
    h: float
    l: float  # noqa: E741 (the wire's own name)
    c: float
    v: float


def bar_of(candle: Candle) -> Bar:
    """The candle as indicators see it."""
    return bar(candle.start_ts, candle.rev, candle.o, candle.h, candle.l, candle.c, candle.v)


def bar(start: int, rev: int, o: Decimal, h: Decimal, low: Decimal, c: Decimal, v: Decimal) -> Bar:
    """Each number becomes the nearest float, so how its decimal was written does not matter."""
    return Bar(start, rev, float(o), float(h), float(low), float(c), float(v))
