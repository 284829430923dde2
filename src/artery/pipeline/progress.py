"""How a query gets on: what the status says of it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from artery.pipeline.offsets import Offsets

LOOK_AFTER_S = 5.0
"""How long no batch was done before it is looked whether there is something to do, which asks the bus."""


class Progress(msgspec.Struct):
    """What is known of a query after its last batch; `phases` are the parts of that batch in ms, `rows` all so far."""

    batch: int = -1
    batch_ms: int = 0
    finished: float = 0.0
    """On the monotonic clock."""
    positions: Offsets = {}
    rows: int = 0
    phases: dict[str, int] = {}
    so_far: dict[str, int] = {}
    """The phases of the batch that is under way."""
    error: str = ""
    """Why the batch that is under way does not get on."""

    @contextmanager
    def batch_of(self, number: int, **before: int) -> Iterator[None]:
        """A batch is under way, with phases that are over before; what it took is known once it is done."""
        began = time.monotonic()
        self.so_far = dict(before)
        yield
        self.batch, self.finished, self.phases = number, time.monotonic(), self.so_far
        self.batch_ms = int((self.finished - began) * 1_000) + sum(before.values())

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A part of the batch is under way."""
        began = time.monotonic()
        yield
        self.so_far[name] = self.so_far.get(name, 0) + int((time.monotonic() - began) * 1_000)


class Patience:
    """For how long a query has had something to do without a batch done; when nothing came, it waits for nothing."""

    def __init__(self) -> None:
        self._batch = -1
        self._done: float | None = None
        self._since: float | None = None

    def waited_s(self, now: float, batch: int, is_due: Callable[[], bool]) -> float:
        """Counted from the first look that found something; `batch` is the last one done, -1 before the first."""
        if self._done is None or batch != self._batch:
            self._batch, self._done, self._since = batch, now, None
        if now - self._done < LOOK_AFTER_S:
            return 0.0
        if not is_due():
            self._since = None
            return 0.0
        self._since = now if self._since is None else self._since
        return now - self._since
