"""How a query gets on: what the status says of it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from artery.pipeline.offsets import Offsets


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
