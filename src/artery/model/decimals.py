"""Exact numbers: strict in, canonical out. The lake's DECIMAL(38,18) sets the limits."""

import re
from decimal import Decimal

from artery.errors import BadEvent

INTEGER_DIGITS = 20
FRACTION_DIGITS = 18

_PLAIN = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,18})?", re.ASCII)
_EXPONENT = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,18})?[eE][+-]?[0-9]{1,2}", re.ASCII)
_ZERO = Decimal(0)


def number(text: object, *, what: str = "number") -> Decimal:
    """The exact value of decimal `text`; NaN, infinities and what the lake cannot hold are refused."""
    if isinstance(text, str):
        if _PLAIN.fullmatch(text):
            return Decimal(text)
        if _EXPONENT.fullmatch(text):
            value = Decimal(text)
            if _fits(value):
                return value
    raise BadEvent(f"{what} must be a decimal number written as a string, not {_shown(text)}")


def positive(text: object, *, what: str = "number") -> Decimal:
    """As `number`, but above zero."""
    value = number(text, what=what)
    if value <= _ZERO:
        raise BadEvent(f"{what} must be above zero, not {_shown(text)}")
    return value


def canonical(value: Decimal) -> str:
    """Decimal text without exponent and without trailing zeros."""
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def _fits(value: Decimal) -> bool:
    sign_digits_exponent = value.as_tuple()
    exponent = sign_digits_exponent.exponent
    return isinstance(exponent, int) and exponent >= -FRACTION_DIGITS and value.adjusted() < INTEGER_DIGITS


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "…"
