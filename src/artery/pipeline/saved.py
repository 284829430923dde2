"""What the candle query goes on with: its book, and the positions that the book has reached."""

from collections.abc import Awaitable, Callable

import msgspec

from artery.bus.base import START, Bus, place
from artery.bus.reader import BusReader
from artery.errors import BadEvent, PositionLost
from artery.model import codec
from artery.model.events import Candle
from artery.pipeline import shelf
from artery.pipeline.candles import CandleBook
from artery.pipeline.offsets import FAST, Offsets, first_readable
from artery.pipeline.parts import Key
from artery.pipeline.rebuilt import Rebuilt
from artery.store.base import Store
from artery.telemetry import logger

LAKE_KEY = "artery:pipeline:lake:"
"""With the id of the log to whose positions they belong: how far the lake had come when it was moved."""
_PAGE = 1_000
_BACK = 20_000
_log = logger("pipeline")


Anew = Callable[[], Awaitable[Rebuilt | None]]
"""Makes a book of what the lake has; None if the lake has nothing of this log."""


async def restore(
    book: CandleBook, store: Store, bus: Bus, reader: BusReader, log: int = 0, *, anew: Anew | None = None
) -> tuple[Offsets, str]:
    """Make the book what it was when it was last saved on the log of this id; return from where the query has to read
    on, and the newest candle on the bus. Older writers must have been fenced before.

    Where nothing was saved, and the log does not reach back to its beginning, the book is made `anew`; so it is where
    what was saved is of other periods, because a candle that is begun in mid-time would close without its first trades.
    """
    saved, owed = await shelf.read(store, log), list[tuple[Key, str]]()
    head = await bus.head("candle")
    other = saved is not None and saved.state.periods != book.periods
    if saved is not None and other:
        owed = [one for one in saved.state.owed if one[0][2] in book.periods]
        saved = None
    if saved is None:
        book.restore(book.state(), await _newest(bus))
        wanted = dict.fromkeys(FAST, START)
        trimmed = first_readable(reader, "trade", START) != START
        if (other or trimmed) and anew is not None and (made := await anew()) is not None:
            why = "the candles that were saved are of other periods" if other else "nothing was saved of the candles"
            _log.warning(f"{why}, they are folded anew from the lake", trades=made.position)
            state = msgspec.structs.replace(made.state, owed=owed)
            book.restore(state, [*made.candles, *await _newest(bus)])
            wanted["trade"] = made.position
    else:
        book.restore(saved.state, await _after(bus, saved.candle))
        wanted = saved.positions
    found = {stream: await resumed(bus, reader, stream, wanted[stream]) for stream in FAST}
    if saved is not None and found != wanted:
        _log.error("the log has lost entries at the candles' position", wanted=wanted, found=found)
    return found, head


async def resumed(bus: Bus, reader: BusReader, stream: str, position: str) -> str:
    """Where to read on after a position: there; where a trimmed stream begins; or, in a log that has lost its newest
    entries, after the newest of those before it, because all of them were read."""
    found = first_readable(reader, stream, position)
    if place(found) >= place(position):
        return found
    before = await bus.read_back(stream, 1, position)
    return before[0].id if before else found


async def moved_lake(store: Store, log: int) -> Offsets:
    """How far the lake had come when the log was moved and got this id, in positions of the new log."""
    return msgspec.json.decode(await store.get(f"{LAKE_KEY}{log}") or b"{}", type=dict[str, str])


async def _after(bus: Bus, position: str) -> list[Candle]:
    """The candles that were appended since then."""
    found: list[Candle] = []
    try:
        while entries := await bus.read("candle", position, _PAGE):
            position = entries[-1].id
            found += [candle for entry in entries if (candle := _candle(entry.fields))]
    except PositionLost:
        return await _newest(bus)
    return found


async def _newest(bus: Bus) -> list[Candle]:
    """The newest candles on the bus, oldest first: where nothing was saved, they tell what readers have seen."""
    entries = await bus.read_back("candle", _BACK)
    return [candle for entry in reversed(entries) if (candle := _candle(entry.fields))]


def _candle(fields: dict[str, str]) -> Candle | None:
    try:
        event = codec.decode(fields)
    except BadEvent:
        return None
    return event if isinstance(event, Candle) else None
