"""The Python SDK: live events and history of any market, over one URL and one key.

async with Artery("http://127.0.0.1:8080", key) as artery:
    async for event in artery.stream("SIM:BTC", types=["TRADE"]):
        print(event)

table = history("http://127.0.0.1:8080", key, "SIM:BTC", "1m", since="2h")    # plain, for notebooks

The stream bus's producer and consumer are in `artery.client.bus`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from artery.client.artery import Artery, history
    from artery.client.frames import Gap
    from artery.model.events import Book, Candle, Mids, Trade

__all__ = ["Artery", "Book", "Candle", "Gap", "Mids", "Trade", "history"]

_HOMES = {"Artery": "artery.client.artery", "history": "artery.client.artery", "Gap": "artery.client.frames"}
_HOMES |= dict.fromkeys(("Book", "Candle", "Mids", "Trade"), "artery.model.events")


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: who reads only the bus needs neither HTTP nor Arrow."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
