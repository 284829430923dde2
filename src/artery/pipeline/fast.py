"""The candle query: every half second from the bus to candles, and back to the bus."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence

import msgspec
import pyarrow as pa

from artery import crash
from artery.bus.base import START, Bus
from artery.model import codec
from artery.model.events import Candle
from artery.model.periods import DERIVED, Period
from artery.pipeline.bars import batch_of
from artery.pipeline.calls import Calls
from artery.pipeline.candles import CandleBook
from artery.pipeline.decode import Raw
from artery.pipeline.folding import sifted
from artery.pipeline.offsets import Offsets
from artery.pipeline.parts import Batch, Key
from artery.pipeline.progress import Progress
from artery.pipeline.shelf import Shelf
from artery.store.base import Store
from artery.telemetry import logger

SAVE_S, SAVE_MAX_S = 5.0, 30.0
_SAVE_SHARE = 50
WRITER = "pipeline"
_log = logger("pipeline")


class FastQuery:
    """One micro-batch: the source folds, the book decides what readers see, one append makes it visible.

    The book and its positions are saved together and after the append, so whatever was not saved is read and folded
    again: a crash at any point counts every trade once.
    """

    def __init__(
        self,
        book: CandleBook,
        epoch: int,
        bus: Bus,
        store: Store,
        calls: Calls,
        candle: str = START,
        log: int = 0,
        *,
        start: Offsets | None = None,
        periods: Sequence[Period] = DERIVED,
        again: Callable[[str, str], Iterable[Raw]] = lambda *_: (),
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.progress = Progress(positions=start or {})
        self._again = again
        self.candle_position = candle
        self.state_bytes = 0
        self._periods = tuple(periods)
        self._book = book
        self._epoch = epoch
        self._bus = bus
        self._shelf = Shelf(store, log, epoch)
        self._calls = calls
        self._save_at = time.monotonic() + SAVE_S
        self._lock = threading.Lock()
        self._now_ms = Onward(book.shown_ms(), clock, monotonic)
        self._whole = True

    def take(self, table: pa.Table, batch_id: int, fold_ms: int) -> None:
        """What Spark has made of a micro-batch, in so many ms."""
        began = time.monotonic()
        with self.progress.batch_of(batch_id, fold=fold_ms), self._lock:
            with self.progress.phase("book"):
                batch, end = batch_of(table)
            self._take(batch, end)
            if batch.venue or began >= self._save_at:
                self._save()

    def _take(self, batch: Batch, end: Offsets) -> None:
        if self._book.taken.meets(batch.reach):
            batch = self._sifted(batch, end)
        self._whole = False  # the book takes for shown what is about to be
        with self.progress.phase("book"):
            candles = self._book.apply(batch, self._now_ms())
        if candles:
            with self.progress.phase("append"):
                self._append([codec.encode_candle(candle, self._book.texts(candle)) for candle in candles])
            crash.point("pipeline.appended")
        self.progress.rows += batch.trades
        self.progress.positions = end
        self._whole = True

    def announce(self, candles: Sequence[Candle]) -> None:
        """Append closed candles that the lake has folded anew, because trades came too late for the book. Where that
        fails, it can be done again."""
        with self._lock:
            told = self._book.told(candles)
            try:
                self._append([codec.encode(candle) for candle in self._book.announce(candles)])
            except BaseException:
                self._book.untell(told)
                raise

    def owed(self, up_to: str) -> list[Key]:
        """The candles that a lake which has the trades up to there is to fold anew."""
        with self._lock:
            return self._book.owed(up_to)

    def settle(self, keys: Sequence[Key], up_to: str) -> None:
        """The lake has done so, and they were announced."""
        with self._lock:
            self._book.settle(keys, up_to)

    def _append(self, entries: list[codec.Fields]) -> None:
        if entries:
            ids = self._calls(
                lambda: self._bus.append("candle", entries, writer=WRITER, epoch=self._epoch), "appending candles"
            )
            self.candle_position = ids[-1]

    def _sifted(self, batch: Batch, end: Offsets) -> Batch:
        """The batch without trades that were taken before, by their places: it is read again, here."""
        after = self.progress.positions["trade"]
        found = sifted(self._again(after, end["trade"]), self._periods, self._book.taken)
        if found.repeats:
            _log.warning("the log holds trades a second time, which are left out", trades=found.repeats, after=after)
        if found.doubtful:
            _log.warning("trades may be in the log a second time, their candles are left to the lake", after=after)
        return msgspec.structs.replace(batch, partials=found.new, doubtful=found.doubtful)

    def save(self) -> None:
        """Keep what is known, between two batches; for a clean stop. Not after a batch whose candles could not be
        appended, nor where another driver has taken over."""
        with self._lock:
            if self.progress.positions and self._whole:
                self._fence()
                self._save()

    def _fence(self) -> None:
        self._calls(
            lambda: self._bus.append("candle", [], writer=WRITER, epoch=self._epoch), "looking for another driver"
        )

    def _save(self) -> None:
        began = time.monotonic()
        with self.progress.phase("save"):
            self.state_bytes = self._shelf.save(self._calls, self.progress.positions, self.candle_position, self._book)
        ended = time.monotonic()
        self._save_at = ended + save_pause_s(ended - began)
        crash.point("pipeline.saved")


def save_pause_s(took_s: float) -> float:
    """How long not to save after a save that took so long: saving a large book takes a fiftieth of the time at most, as
    long as no more than half a minute has to be folded again after a crash."""
    return min(SAVE_MAX_S, max(SAVE_S, _SAVE_SHARE * took_s))


class Onward:
    """The time in ms, which never goes back and never stands still, whatever is done to the machine's clock."""

    def __init__(self, from_ms: int, clock: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._clock, self._monotonic = clock, monotonic
        self._last_ms, self._at = from_ms, monotonic()

    def __call__(self) -> int:
        now = self._monotonic()
        passed_ms = int((now - self._at) * 1_000)
        self._last_ms = max(int(self._clock() * 1_000), self._last_ms + passed_ms)
        self._at = now
        return self._last_ms
