"""What a client of the simulated venue may subscribe to."""

from typing import Any

from artery.providers.sim.candles import INTERVALS
from artery.providers.sim.listing import BY_COIN

Key = tuple[str, str, str]
"""(type, coin, variant): what frames are made for; the variant is an interval or `fast`."""


class Refused(Exception):
    """The venue closes the socket without a word, as the real one does for a coin that it does not know."""


class Unreadable(Exception):
    """The venue says so in an error frame."""


def read(subscription: object) -> tuple[Key, dict[str, Any]]:
    """The key, and the subscription as the venue echoes it: with defaults filled in."""
    if not isinstance(subscription, dict):
        raise Unreadable
    kind = subscription.get("type")
    if kind == "allMids":
        return ("allMids", "", ""), {"type": "allMids", "dex": None}
    if kind == "trades":
        coin = _coin(subscription)
        return ("trades", coin, ""), {"type": "trades", "coin": coin}
    if kind == "l2Book":
        return _read_book(subscription)
    if kind == "candle":
        coin, interval = _coin(subscription), subscription.get("interval")
        if interval not in INTERVALS:
            raise Unreadable
        return ("candle", coin, interval), {"type": "candle", "coin": coin, "interval": interval}
    raise Unreadable


def _read_book(subscription: dict[str, Any]) -> tuple[Key, dict[str, Any]]:
    """Whole books only: rounded ones (`nSigFigs`, `mantissa`) are not simulated, and never given by mistake."""
    coin, fast = _coin(subscription), subscription.get("fast", False)
    if not isinstance(fast, bool):
        raise Unreadable
    if subscription.get("nSigFigs") is not None or subscription.get("mantissa") is not None:
        raise Refused
    echo = {"type": "l2Book", "coin": coin, "nSigFigs": None, "mantissa": None, "fast": fast}
    return ("l2Book", coin, "fast" if fast else ""), echo


def _coin(subscription: dict[str, Any]) -> str:
    coin = subscription.get("coin")
    if not isinstance(coin, str):
        raise Unreadable
    if coin not in BY_COIN:
        raise Refused
    return coin
