"""Where the candles' book is kept between two lives of the pipeline: in one value while it is small, else in parts.

A save of a large book writes what has changed as one more part; when the parts hold much that is old, all is written
anew. The head names the parts that count, and is written last, so that a crash leaves the former book whole.
"""

import zlib
from collections.abc import Mapping

import msgspec

from artery.model.periods import Period
from artery.pipeline.calls import Calls
from artery.pipeline.candles import CandleBook
from artery.pipeline.offsets import Offsets
from artery.pipeline.parts import Held, Key, Shown, State
from artery.store.base import Store
from artery.telemetry import logger

KEY = "artery:pipeline:candles:"
"""With the id of the log to whose positions the book belongs; its parts' names begin so too."""
INLINE_MAX = 256 * 1024
PIECE_BYTES = 768 * 1024
"""The store takes values of 1 MiB."""
SPARE = 10_000
"""Old entries that the parts may hold besides as many as there are new ones."""
_log = logger("pipeline")


class Saved(msgspec.Struct):
    """A book, how far it has read, and the newest candle on the bus at that time."""

    positions: Offsets
    candle: str
    state: State


class Part(msgspec.Struct, frozen=True, array_like=True):
    name: str
    pieces: int
    entries: int
    size: int


class Head(msgspec.Struct, frozen=True, array_like=True):
    """`inline` is the newest delta, if it is small."""

    positions: Offsets
    candle: str
    parts: list[Part]
    inline: bytes


class Delta(msgspec.Struct, frozen=True, array_like=True):
    """All that is known of these candles, which may be nothing any more, and all else that a book knows."""

    keys: list[Key]
    state: State


class Draft(msgspec.Struct, frozen=True):
    """What a save has to write: pieces first, then the head."""

    pieces: Mapping[str, bytes]
    head: bytes
    parts: list[Part]

    @property
    def size(self) -> int:
        return len(self.head) + sum(part.size for part in self.parts)


class Shelf:
    """The book of one log in the store, written by one driver. The first save writes all of it."""

    def __init__(self, store: Store, log: int, epoch: int) -> None:
        self._store = store
        self._key = f"{KEY}{log}"
        self._epoch = epoch
        self._number = 0
        self._parts: list[Part] = []
        self._is_clean = False

    def save(self, calls: Calls, positions: Offsets, candle: str, book: CandleBook) -> int:
        """Keep the book, from one of Spark's threads; return how many bytes it is in all."""
        draft = self.draft(positions, candle, book)
        calls(lambda: self.put(draft), "saving the candles' state")
        if draft.pieces:
            book.changed.clear()
        return draft.size

    def draft(self, positions: Offsets, candle: str, book: CandleBook) -> Draft:
        parts, keys = list(self._parts), book.changed
        if sum(part.entries for part in parts) + len(keys) > 2 * len(book) + SPARE:
            parts, keys = [], book.keys()
            book.changed = set(keys)
        body, pieces = _packed(Delta(list(keys), book.state(keys))), {}
        if len(body) > INLINE_MAX:
            name = f"{self._key}:{self._epoch}-{self._number}"
            cut = [body[at : at + PIECE_BYTES] for at in range(0, len(body), PIECE_BYTES)]
            pieces = {f"{name}:{number}": piece for number, piece in enumerate(cut)}
            parts.append(Part(name, len(pieces), len(keys), len(body)))
            body = b""
        self._number += 1
        return Draft(pieces, msgspec.msgpack.encode(Head(positions, candle, parts, body)), parts)

    async def put(self, draft: Draft) -> None:
        """Write it; may be done twice."""
        for name, piece in draft.pieces.items():
            await self._store.put(name, piece)
        await self._store.put(self._key, draft.head)
        current = {part.name for part in draft.parts}
        for part in self._parts:
            if part.name not in current:
                await _remove(self._store, part)
        self._parts = draft.parts
        if not self._is_clean:
            await self._clean({f"{part.name}:{number}" for part in draft.parts for number in range(part.pieces)})

    async def _clean(self, current: set[str]) -> None:
        """Remove what former drivers have left."""
        for name, _ in await self._store.scan(f"{self._key}:"):
            if name not in current:
                await self._store.delete(name)
        self._is_clean = True


async def read(store: Store, log: int) -> Saved | None:
    """What was saved last; None if nothing was, or not all of it is there and whole."""
    value = await store.get(f"{KEY}{log}")
    if value is None:
        return None
    try:
        head = msgspec.msgpack.decode(value, type=Head)
        bodies = [await _body(store, part) for part in head.parts]
        return Saved(head.positions, head.candle, _merged([*bodies, head.inline]))
    except (msgspec.MsgspecError, zlib.error, LookupError) as error:
        _log.error("what the store has of the candles cannot be read", key=f"{KEY}{log}", error=str(error))
        return None


async def write(store: Store, log: int, saved: Saved) -> None:
    """Keep a book for whoever reads this log next."""
    book = CandleBook(0, periods=map(Period, saved.state.periods))
    book.restore(saved.state, [])
    shelf = Shelf(store, log, 0)
    await shelf.put(shelf.draft(saved.positions, saved.candle, book))


def _merged(bodies: list[bytes]) -> State:
    held: dict[Key, Held] = {}
    shown: dict[Key, Shown] = {}
    state: State | None = None
    for body in filter(None, bodies):
        delta = msgspec.msgpack.decode(zlib.decompress(body), type=Delta)
        for key in delta.keys:
            held.pop(key, None)
            shown.pop(key, None)
        state = delta.state
        held.update(state.held)
        shown.update(state.shown)
    if state is None:
        raise LookupError("it is empty")
    return msgspec.structs.replace(state, held=list(held.items()), shown=list(shown.items()))


async def _body(store: Store, part: Part) -> bytes:
    pieces = [await store.get(f"{part.name}:{number}") for number in range(part.pieces)]
    found = [piece for piece in pieces if piece is not None]
    if len(found) < part.pieces:
        raise LookupError(f"{part.name} is gone")
    return b"".join(found)


async def _remove(store: Store, part: Part) -> None:
    for number in range(part.pieces):
        await store.delete(f"{part.name}:{number}")


def _packed(delta: Delta) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(delta), 1)
