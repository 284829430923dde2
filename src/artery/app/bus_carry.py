"""When a log is moved, what the pipeline keeps of its positions moves too: the candles' book, and the lake's place."""

import asyncio
from collections.abc import Mapping

import msgspec

from artery.app.bus_copy import Carry
from artery.app.bus_moved import Moved
from artery.app.wiring import opened_store
from artery.lake.open import open_lake
from artery.pipeline import shelf
from artery.pipeline.saved import LAKE_KEY
from artery.pipeline.shelf import Saved
from artery.settings import Settings


def carrier(settings: Settings) -> Carry:
    """Carries what lies in the store and the data folder of these settings."""

    async def carry(old: int, new: int, moved: Mapping[str, Moved]) -> bool:
        lake = open_lake(settings, old)
        try:
            reached = await asyncio.to_thread(lake.positions)
        finally:
            lake.close()
        async with opened_store(settings) as store:
            book = await shelf.read(store, old)
            if book is None:
                return False
            await store.put(f"{LAKE_KEY}{new}", msgspec.json.encode(positions(reached, moved)))
            await shelf.write(store, new, translated(book, moved))
        return True

    return carry


def positions(found: Mapping[str, str], moved: Mapping[str, Moved]) -> dict[str, str]:
    """The same places in the new log; a stream that was not moved is read from its beginning."""
    return {stream: _place(moved, stream, position) for stream, position in found.items()}


def translated(book: Saved, moved: Mapping[str, Moved]) -> Saved:
    """The same book, as if it had been made from the new log."""
    held = [
        (key, msgspec.structs.replace(one, up_to=_place(moved, "trade", one.up_to) if one.up_to else ""))
        for key, one in book.state.held
    ]
    owed = [(key, _place(moved, "trade", at)) for key, at in book.state.owed]
    state = msgspec.structs.replace(book.state, held=held, owed=owed)
    return Saved(positions(book.positions, moved), _place(moved, "candle", book.candle), state)


def _place(moved: Mapping[str, Moved], stream: str, position: str) -> str:
    return moved.get(stream, Moved()).at_or_before(position)
