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
    error: str = ""
    """Why the batch that is under way does not get on."""

    @contextmanager
    def batch_of(self, number: int) -> Iterator[None]:
        """A batch is under way; what it took is known if it is done."""
        began, before = time.monotonic(), self.phases
        self.phases = {}
        try:
            yield
        except BaseException:
            self.phases = before
            raise
        self.batch, self.finished = number, time.monotonic()
        self.batch_ms = int((self.finished - began) * 1_000)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A part of the batch is under way."""
        began = time.monotonic()
        yield
        self.phases[name] = self.phases.get(name, 0) + int((time.monotonic() - began) * 1_000)
