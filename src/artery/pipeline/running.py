"""The queries of one term, from what was saved to a clean stop."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from artery.bus.base import START, Bus, place
from artery.bus.log_id import log_id, name_log
from artery.bus.reader import open_reader
from artery.errors import ArteryError, CannotStart, Unavailable
from artery.model.periods import parse_periods
from artery.pipeline import appends, saved
from artery.pipeline.calls import Calls
from artery.pipeline.candles import CandleBook
from artery.pipeline.decode import Raw
from artery.pipeline.fast import WRITER, FastQuery
from artery.pipeline.handover import Handover
from artery.pipeline.keeper import Keeper
from artery.pipeline.offsets import STORE, Offsets, distance, span
from artery.pipeline.outcomes import Outcomes
from artery.pipeline.progress import Patience
from artery.pipeline.queries import start_query, warm_up
from artery.pipeline.rebuilt import Rebuilt, rebuild
from artery.pipeline.session import Spark
from artery.pipeline.source import Options
from artery.pipeline.storage import GROUPS, TRY_FOR_S, StoreQuery, reason
from artery.pipeline.symbols import Tidings
from artery.settings import Settings
from artery.store.base import Store
from artery.telemetry import logger

FIRST_BATCH_S = 120.0
STUCK_S, STORE_STUCK_S = 90.0, TRY_FOR_S + 300.0
"""How long there may be something to do for a query without a batch done; after that it hangs. A batch of the lake may
be tried again for ten minutes before its query gives up by itself."""
ANSWER_S = 90.0
"""How long Java may take to say how the queries are; after that it hangs, and its driver holds the lock in vain."""
PREPARE_S = 60.0
QUIET_S = 10.0
COUNT_S = 1.0
STARTS_MAX = 3
"""How often a query is started whose helper, a Python process, was not there within the 10 s that Spark gives it: on a
machine that has much else to do it may take longer."""
_LATE_HELPER = "failed to connect back"
_log = logger("pipeline")
T = TypeVar("T")


class Running:
    """Both queries. `check` raises as soon as one of them has died or hangs."""

    def __init__(
        self,
        settings: Settings,
        spark: Spark,
        bus: Bus,
        store: Store,
        epoch: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._spark = spark
        self._bus = bus
        self._store = store
        self._epoch = epoch
        self._calls = Calls(asyncio.get_running_loop())
        self._reader = open_reader(settings.bus_url(), settings.bus.base)
        self._periods = parse_periods(settings.pipeline.periods)
        slow_ms = int(settings.pipeline.slow_candle_s * 1_000)
        behind = max(1, settings.pipeline.batch_max // 2)
        self._book = CandleBook(epoch, periods=self._periods, slow_ms=slow_ms, behind=behind)
        self._fast: FastQuery | None = None
        self._handover: Handover | None = None
        self._storage: StoreQuery | None = None
        self._queries: dict[str, Any] = {}
        self._starts: dict[str, tuple[int, Callable[[], Any]]] = {}
        self._thread = ThreadPoolExecutor(1, "spark")
        self._monotonic = monotonic
        self._began = monotonic()
        self._patience = {"fast": Patience(), "store": Patience()}
        self._storing: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._log = 0
        self._last_lag, self._is_counted = 0, True

    async def start(self) -> None:
        """From what was saved to candles; the lake follows once the first are out, because people wait for those."""
        connected = asyncio.ensure_future(self._in_thread(self._spark.session))
        session, (start, head), _ = await asyncio.gather(
            connected, self._prepare_candles(connected), self._prepare_groups()
        )
        parts = (self._book, self._epoch, self._bus, self._store, self._calls)
        self._fast = FastQuery(*parts, head, self._log, start=start, periods=self._periods, again=self._again)
        self._handover = Handover(self._fast.take)
        warm = asyncio.create_task(asyncio.to_thread(warm_up, session))
        await self._in_thread(self._start_query, session, "fast", "artery_bars", start, self._handover.on_batch)
        await warm
        self._began = self._monotonic()
        self._storing = asyncio.create_task(self._store_too(session))

    async def check(self) -> None:
        """Raise if a query has died or hangs, Java does not answer, or the lake is no longer kept."""
        if self._storing and self._storing.done():
            self._storing.result()
        if self._keeping and self._keeping.done():
            raise Unavailable(f"the lake is no longer kept: {self._keeping.exception() or 'no reason given'}")
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._in_thread(self._check)
        except TimeoutError:
            raise Unavailable(f"Java has not answered for {ANSWER_S:.0f} s") from None

    def batches(self) -> tuple[int, int]:
        """The last batch that each query has done, -1 before the first."""
        fast, store = self._fast, self._storage
        return (fast.progress.batch if fast else -1), (store.progress.batch if store else -1)

    async def status(self) -> dict[str, Any]:
        """What `artery:pipeline` says."""
        lag = await self._in_thread(self._lag)
        return await self._in_thread(self._status, await self._counted(lag))

    async def stop(self) -> None:
        """Save what is known; whatever runs in Spark is broken off, because a commit is whole or not at all."""
        for task in (self._storing, self._keeping):
            if task:
                task.cancel()
        if self._fast:
            with suppress(ArteryError, TimeoutError):
                await asyncio.wait_for(asyncio.to_thread(self._fast.save), 2.0)
        if self._handover:
            self._handover.stop()
        self._calls.stop()
        self._thread.submit(self._reader.close)
        self._thread.shutdown(wait=False)

    async def _in_thread(self, call: Callable[..., T], *values: Any) -> T:
        """Every call to Spark in the same thread, because Java keeps one for each that calls."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(call, *values))

    async def _prepare_candles(self, connected: Awaitable[Any]) -> tuple[Offsets, str]:
        await self._bus.append("candle", [], writer=WRITER, epoch=self._epoch)  # fence, then read
        self._log = await log_id(self._bus) or await name_log(self._bus, time.time_ns() // 1_000_000)
        reader = open_reader(self._settings.bus_url(), self._settings.bus.base)
        try:
            anew = partial(self._anew, connected)
            return await saved.restore(self._book, self._store, self._bus, reader, self._log, anew=anew)
        finally:
            reader.close()

    async def _anew(self, connected: Awaitable[Any]) -> Rebuilt | None:
        """The book as the lake has it, which nobody writes before the store query starts."""
        named = await asyncio.to_thread(_prepare_lake, self._settings, self._log)
        if named["trade"] == START:
            return None
        session, now_ms = await connected, int(time.time() * 1_000)
        return await self._in_thread(rebuild, session, self._periods, named["trade"], now_ms)

    async def _prepare_groups(self) -> None:
        for stream in STORE:
            await self._bus.ensure_group(stream, GROUPS[stream])

    async def _store_too(self, session: Any) -> None:
        """Start the store query, once there are candles or nothing to make them of."""
        await _until(lambda: self.batches()[0] >= 0, QUIET_S)
        named = await asyncio.to_thread(_prepare_lake, self._settings, self._log)
        moved = await saved.moved_lake(self._store, self._log)
        wanted = {stream: max(named[stream], moved.get(stream, START), key=place) for stream in STORE}
        positions = {stream: await self._resumed(stream, wanted[stream]) for stream in STORE}
        outcomes = Outcomes(self._bus, self._store, self._calls)
        tidings = Tidings(self._bus, self._store, self._calls)
        for left in (outcomes.take_up, tidings.say):
            await self._in_thread(left, session)
        assert self._fast is not None
        self._storage = StoreQuery(
            positions,
            self._bus,
            self._calls,
            self._log,
            outcomes=outcomes,
            tidings=tidings,
            periods=self._periods,
            announce=self._fast.announce,
            backlog=self._fast,
        )
        await self._in_thread(self._start_query, session, "store", "artery_rows", positions, self._storage.on_batch)
        keeper = Keeper(self._settings, session, self._store, self._storage.between, self._calls)
        self._keeping = asyncio.create_task(keeper.run())
        if await _until(lambda: self.batches()[1] >= 0, FIRST_BATCH_S):
            self._spark.let_go()

    def _again(self, after: str, end: str) -> list[Raw]:
        """Trades of the log once more, for whatever thread asks."""
        reader = open_reader(self._settings.bus_url(), self._settings.bus.base)
        try:
            return list(span(reader, "trade", after, end))
        finally:
            reader.close()

    async def _resumed(self, stream: str, position: str) -> str:
        reader = open_reader(self._settings.bus_url(), self._settings.bus.base)
        try:
            return await saved.resumed(self._bus, reader, stream, position)
        finally:
            reader.close()

    def _start_query(self, spark: Any, name: str, source: str, start: Offsets, on_batch: Any) -> None:
        made = self._settings.pipeline
        options = Options(
            self._settings.bus_url(),
            self._settings.bus.base,
            start,
            trades_max=made.batch_max,
            store_s=made.store_s,
            slow_s=made.slow_store_s,
            book_ms=max(1, int(made.book_s * 1_000)),
            periods=tuple(period.seconds for period in self._periods),
            homes=appends.homes(spark) if name == "store" else {},
        )
        self._begin(name, partial(start_query, spark, name, source, options, on_batch, self._settings))

    def _begin(self, name: str, start: Callable[[], Any]) -> None:
        starts = self._starts.get(name, (0, start))[0] + 1
        self._starts[name] = starts, start
        try:
            self._queries[name] = start()
        except (Py4JError, PySparkException) as error:  # in words now, because Java has the rest and is about to end
            if starts >= STARTS_MAX or _LATE_HELPER not in str(error):
                raise CannotStart(f"the {name} query could not start: {reason(error)}") from None
            self._begin(name, start)

    def _check(self) -> None:
        done = dict(zip(("fast", "store"), self.batches(), strict=True))
        for name, query in list(self._queries.items()):
            if self._spark.alive() and query.isActive:
                continue
            starts, start = self._starts[name]
            is_late = self._spark.alive() and _LATE_HELPER in str(query.exception())
            if done[name] >= 0 or starts >= STARTS_MAX or not is_late:
                raise Unavailable(f"the {name} query has stopped: {self._why(query)}")
            _log.warning(f"the {name} query is started once more: its helper took too long", starts=starts)
            self._begin(name, start)
        if self._handover and (failed := self._handover.error()):
            raise Unavailable(f"the candles of a batch could not be kept: {reason(failed)}")
        if self._fast and self._queries:
            limit_s = STUCK_S if done["fast"] >= 0 else FIRST_BATCH_S
            if self._waited_s("fast", done["fast"], lambda: self._lag() > 0) > limit_s:
                raise Unavailable(f"no candles were made for {limit_s:.0f} s although there are trades")
            if self._waited_s("store", done["store"], self._is_unstored) > STORE_STUCK_S:
                raise Unavailable(f"nothing was stored for {STORE_STUCK_S:.0f} s although there is something to store")

    def _waited_s(self, name: str, batch: int, is_due: Callable[[], bool]) -> float:
        return self._patience[name].waited_s(self._monotonic(), batch, is_due)

    def _is_unstored(self) -> bool:
        """Whether a stream holds what the lake does not; while the bus is away nothing can be said."""
        if self._storage is None:
            return True
        reached = self._storage.progress.positions
        with suppress(Unavailable):
            return any(place(self._reader.head(stream)) > place(reached[stream]) for stream in STORE)
        return False

    def _status(self, lag: int) -> dict[str, Any]:
        fast = self._fast
        assert fast is not None
        live = fast.progress.batch >= 0 or (not lag and self._monotonic() - self._began > QUIET_S)
        return {
            "state": "running" if live else "starting",
            "batch": fast.progress.batch,
            "batch_ms": fast.progress.batch_ms,
            "candle_position": fast.candle_position,
            "trade_position": fast.progress.positions.get("trade", "0"),
            "stored_position": self._storage.progress.positions.get("trade", "0") if self._storage else "0",
            "lag_entries": lag,
            "last_commit_ms": self._storage.committed_ms if self._storage else 0,
            "clock_ms": self._book.clock_ms(),
            "stale_trades": self._book.stale,
            "error": self._storage.progress.error if self._storage else "",
            "numbers": self._numbers(),
        }

    def _numbers(self) -> dict[str, float]:
        """What `/metrics` says of the pipeline: names of Prometheus, without what stands before all of them."""
        assert self._fast is not None
        progresses = {"candles": self._fast.progress} | ({"lake": self._storage.progress} if self._storage else {})
        found: dict[str, float] = {
            "candles_held": len(self._book),
            "state_bytes": self._fast.state_bytes,
            "late_trades_total": self._book.stale,
            "corrected_candles_total": self._storage.corrected if self._storage else 0,
        }
        for query, progress in progresses.items():
            found |= {
                f'batch_ms{{query="{query}"}}': progress.batch_ms,
                f'batches_total{{query="{query}"}}': progress.batch + 1,
                f'rows_total{{query="{query}"}}': progress.rows,
            }
            phases = dict(progress.phases)
            found |= {f'phase_ms{{query="{query}",phase="{name}"}}': took for name, took in sorted(phases.items())}
        return found

    def _lag(self) -> int:
        """Trades on the bus that no candle holds yet, by their positions; 1 if there are some, where positions do not
        tell how many. While the bus is away it is what it was."""
        assert self._fast is not None
        with suppress(Unavailable):
            reached = self._fast.progress.positions.get("trade", START)
            found = distance(self._reader, reached, self._reader.head("trade"))
            self._last_lag, self._is_counted = (1, False) if found is None else (found, True)
        return self._last_lag

    async def _counted(self, lag: int) -> int:
        """The same, counted where positions do not tell (Redis); what takes too long to count is left as it is."""
        assert self._fast is not None
        if self._is_counted:
            return lag
        with suppress(ArteryError, TimeoutError):
            reached = self._fast.progress.positions.get("trade", START)
            lag = await asyncio.wait_for(self._bus.count_after("trade", reached), COUNT_S)
        return lag

    def _why(self, query: Any) -> str:
        if not self._spark.alive():
            return "Java has ended"
        error = query.exception()
        return reason(error) if error else "no reason given"


async def _until(is_so: Callable[[], bool], wait_s: float) -> bool:
    """Wait for what another thread does; whether it came in time."""
    for _ in range(int(wait_s * 20)):
        if is_so():
            return True
        await asyncio.sleep(0.05)
    return is_so()


def _prepare_lake(settings: Settings, log: int) -> Offsets:
    """Make the tables; return how far in each stream of this log the lake has come."""
    command = [sys.executable, "-m", "artery.lake.prepare", str(settings.folder), str(log)]
    try:
        url = settings.lake.catalog_url
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PREPARE_S, input=url)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"the lake could not be prepared within {PREPARE_S:.0f} s") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["the lake could not be prepared"]
        raise CannotStart(lines[-1][:300])
    return msgspec.json.decode(done.stdout, type=dict[str, str])
