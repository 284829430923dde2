"""Between Spark's thread and whoever takes its batches: while one is taken, Spark makes the next."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pyarrow as pa

Take = Callable[[pa.Table, int, int], None]
"""A batch as a table, its number, and the ms in which Spark has made it."""


class Handover:
    """Batches are taken one after the other in a thread; one is taken and one made at most, so that little is held.

    Once one could not be taken, none is any more: what follows it counts on it.
    """

    def __init__(self, take: Take) -> None:
        self._take = take
        self._thread = ThreadPoolExecutor(1, "take")
        self._taken: Future[None] | None = None

    def on_batch(self, rows: Any, batch_id: int) -> None:
        """Spark's foreachBatch; raises why a former batch could not be taken."""
        began = time.monotonic()
        table = rows.toArrow()
        made_ms = int((time.monotonic() - began) * 1_000)
        if self._taken:
            self._taken.result()
        self._taken = self._thread.submit(self._take, table, batch_id, made_ms)

    def error(self) -> Exception | None:
        """Why the last batch could not be taken, if that is known by now."""
        failed = self._taken.exception() if self._taken and self._taken.done() else None
        return failed if isinstance(failed, Exception) else None

    def stop(self) -> None:
        """Take no more; the one that is being taken is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)
