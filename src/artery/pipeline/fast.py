"""The candle query: every half second from the bus to candles, and back to the bus."""

import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from artery import crash
from artery.bus.base import START, Bus
from artery.model import codec
from artery.pipeline import saved
from artery.pipeline.bars import batch_of
from artery.pipeline.calls import Calls
from artery.pipeline.candles import CandleBook
from artery.pipeline.offsets import Offsets
from artery.pipeline.saved import Saved
from artery.pipeline.transforms import partials
from artery.store.base import Store

SAVE_S = 5.0
WRITER = "pipeline"


class Progress(msgspec.Struct):
    """What the status says of a query."""

    batch: int = -1
    batch_ms: int = 0
    finished: float = 0.0
    """On the monotonic clock."""
    positions: Offsets = {}


class FastQuery:
    """One micro-batch: Spark folds, the book decides what readers see, one append makes it visible.

    The book and its positions are saved together and after the append, so whatever was not saved is read and folded
    again: a crash at any point counts every trade once.
    """

    def __init__(
        self, book: CandleBook, epoch: int, bus: Bus, store: Store, calls: Calls, candle: str = START, log: int = 0
    ) -> None:
        self.progress = Progress()
        self.candle_position = candle
        self._log = log
        self._book = book
        self._epoch = epoch
        self._bus = bus
        self._store = store
        self._calls = calls
        self._saved_at = time.monotonic()
        self._lock = threading.Lock()

    def on_batch(self, rows: Any, batch_id: int) -> None:
        """Spark's foreachBatch."""
        began = time.monotonic()
        batch, end = batch_of(partials(rows.coalesce(1)).toArrow())
        with self._lock:
            candles = self._book.apply(batch, _now_ms())
            if candles:
                entries = [codec.encode(candle) for candle in candles]
                ids = self._calls(
                    lambda: self._bus.append("candle", entries, writer=WRITER, epoch=self._epoch), "appending candles"
                )
                self.candle_position = ids[-1]
                crash.point("pipeline.appended")
            self.progress.positions = end
            if batch.venue or began - self._saved_at >= SAVE_S:
                self._save()
        self.progress.batch = batch_id
        self.progress.finished = time.monotonic()
        self.progress.batch_ms = int((self.progress.finished - began) * 1_000)

    def save(self) -> None:
        """Keep what is known, between two batches; for a clean stop."""
        with self._lock:
            if self.progress.positions:
                self._save()

    def _save(self) -> None:
        value = saved.encode(Saved(self.progress.positions, self.candle_position, self._book.state()))
        self._calls(lambda: self._store.put(f"{saved.KEY}{self._log}", value), "saving the candles' state")
        self._saved_at = time.monotonic()


def _now_ms(clock: Callable[[], float] = time.time) -> int:
    return int(clock() * 1_000)
