"""A thread that owns handles of Kafka's driver: each must be used by one thread only, and its calls block."""

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from artery.bus.kafka_server import ANSWER_S, Server, is_away
from artery.errors import TooMuch, Unavailable

JOBS_MAX = 10_000
"""Jobs that may wait for one thread."""
WAITED_S = 1.0
"""Who has waited so long when the server is found to be silent is told with the one that found it."""

T = TypeVar("T")


class _Job(NamedTuple):
    run: Callable[[], Any]
    future: asyncio.Future[Any]
    unheard: Callable[[Any], None] | None
    untold: Callable[[Exception], None] | None
    asked: float


class Lane:
    """Runs jobs one after the other; when there are none, `idle` every `idle_s`.

    A caller waits for `ANSWER_S`, or as long as it says, then is told that the server is silent; a job that nobody
    waits for any more is not begun. One that was under way is finished, and `unheard` is given its result, `untold` its
    error. Whoever has waited while the server was silent to another is told so with that one, and does not find it out
    anew.
    """

    def __init__(self, server: Server, name: str, idle: Callable[[], None] | None = None, idle_s: float = 0.1) -> None:
        self._server = server
        self._idle, self.idle_s = idle, idle_s
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = False
        self._silent = float("-inf")
        """When the server was last found to be silent."""
        self._alive = True
        self._ended: list[asyncio.Future[None]] = []
        self._lock = threading.Lock()
        self._finish: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def finally_(self, close: Callable[[], None]) -> None:
        """Have this run on the thread when it ends."""
        self._finish.append(close)

    async def call(
        self,
        run: Callable[[], T],
        *,
        within_s: float = ANSWER_S,
        unheard: Callable[[T], None] | None = None,
        untold: Callable[[Exception], None] | None = None,
    ) -> T:
        """The job's result, or what its error means."""
        if self._closed:
            raise Unavailable(f"{self._server.name} has been closed here: open it again")
        if self._jobs.qsize() >= JOBS_MAX:
            raise TooMuch(f"{JOBS_MAX} calls wait for {self._server.name} already: send fewer at once")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put(_Job(run, future, unheard, untold, time.monotonic()))
        try:
            async with asyncio.timeout(within_s):
                return await future
        except TimeoutError:
            raise self._server.silent(within_s) from None

    def later(self, run: Callable[[], Any]) -> None:
        """Have a job done that nobody waits for; from any thread."""
        self._jobs.put(_Job(run, _NOBODY, None, None, 0.0))

    async def close(self, within_s: float = ANSWER_S) -> None:
        """Finish what waits, then end the thread; one that is stuck in the driver is left behind."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            if not self._alive:
                return
            self._ended.append(ended)
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await ended

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self.idle_s if self._idle else None)
            except queue.Empty:
                self._rest()
                continue
            if job is None:
                break
            self._do(job)
        for close in self._finish:
            with contextlib.suppress(Exception):
                close()
        with self._lock:
            self._alive = False
            for ended in self._ended:
                with contextlib.suppress(RuntimeError):  # that loop has ended
                    ended.get_loop().call_soon_threadsafe(_settle, ended)

    def _rest(self) -> None:
        if self._idle is not None:
            with contextlib.suppress(Exception):  # the next call meets the same trouble, and says it
                self._idle()

    def _do(self, job: _Job) -> None:
        if job.future is _NOBODY:
            with contextlib.suppress(Exception):
                job.run()
            return
        if job.future.cancelled():
            return
        result, error = self._outcome(job)
        try:
            job.future.get_loop().call_soon_threadsafe(self._tell, job, result, error)
        except RuntimeError:  # that loop has ended, and its caller with it
            return

    def _outcome(self, job: _Job) -> tuple[Any, Exception | None]:
        if self._silent - job.asked > WAITED_S:
            return None, self._server.silent()
        try:
            return job.run(), None
        except Exception as raised:
            if is_away(raised):
                self._silent = time.monotonic()
            return None, self._server.translate(raised)

    def _tell(self, job: _Job, result: Any, error: Exception | None) -> None:
        if not job.future.done():
            if error is None:
                job.future.set_result(result)
            else:
                job.future.set_exception(error)
        elif error is None and job.unheard is not None:
            unheard = job.unheard
            self.later(lambda: unheard(result))
        elif error is not None and job.untold is not None:
            untold, unsaid = job.untold, error
            self.later(lambda: untold(unsaid))


def _settle(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


class _Nobody:
    """Stands for the caller of a job that nobody waits for."""


_NOBODY: Any = _Nobody()
