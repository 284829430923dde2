"""Entries of scenarios: trades as a foreign producer writes them, each with an id of its own; pure."""

from artery.client.bus import Event
from artery.model.events import Trade

_BEGAN_MS = 1_730_000_000_000

FINE, UNDECODABLE, FAILING, DEADLY = "", "undecodable", "failing", "deadly"


def entry_of(writer: str, number: int, fate: str = FINE, **more: str) -> dict[str, str]:
    """What is to become of it when it is handled is told by its market. Without `tid`, it is named by its position."""
    time = str(_BEGAN_MS + number)
    return {
        "ver": "0" if fate == UNDECODABLE else "1",
        "t": "TRADE",
        "provider": writer,
        "coin": fate or "BTC",
        "ts": time,
        "eventTs": time,
        "px": "1",
        "sz": "1",
        "side": "B",
        "id": f"{writer}-{number}",
        "fate": fate,
    } | more


def read_of(event: Event) -> tuple[str, str, str]:
    """The id, the position and the fate of an entry, as its reader is given it."""
    assert isinstance(event, Trade)
    return f"{event.provider}-{event.ts - _BEGAN_MS}", event.tid, FINE if event.coin == "BTC" else event.coin
