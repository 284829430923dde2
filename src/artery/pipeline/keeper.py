"""Has the lake kept by the one who writes it: what is due, what was asked for, and how every table is."""

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeVar

import msgspec

from artery.errors import ArteryError
from artery.lake.asks import (
    ANSWER,
    ANSWER_TTL_S,
    ASK,
    EXPIRING,
    EXPIRING_TTL_S,
    PIN,
    STATE,
    STATE_TTL_S,
    Answer,
    Ask,
    pinned_by,
)
from artery.lake.state import Health, health_of
from artery.lake.tables import OHLC, TABLES, Table
from artery.pipeline import upkeep
from artery.pipeline.calls import Calls
from artery.pipeline.compaction import Keep, jobs
from artery.settings import Settings
from artery.store.base import Store
from artery.telemetry import logger

LISTEN_S = 1.0
"""How often it is looked whether someone has asked for a step."""
LOOK_S = 300.0
FIRST_LOOK_S = 60.0
"""How often the tables are looked at, and how long after a start: people wait for candles then."""
EXPIRE_COMMITS = 40
"""How many commits a table takes before its old snapshots are looked at."""
ORPHANS_S = 24 * 3_600.0
FIRST_ORPHANS_S = 3_600.0
"""How often files that nobody names are looked for, and how long after a start, or after a search that failed."""
_log = logger("pipeline")
T = TypeVar("T")


class Keeper:
    """One thread that works on the lake only while it holds `between`, the lock that a batch holds too."""

    def __init__(
        self,
        settings: Settings,
        session: Any,
        store: Store,
        between: AbstractContextManager[Any],
        calls: Calls,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._session = session.newSession()
        self._store = store
        self._between = between
        self._calls = calls
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "lake")
        self._seen: dict[str, int] = {}
        self._orphans_at = clock() - ORPHANS_S + FIRST_ORPHANS_S

    async def run(self) -> None:
        """Until cancelled; what fails here is said and tried again later, because it is no loss."""
        looked = time.monotonic() - LOOK_S + FIRST_LOOK_S
        try:
            while True:
                await self._listen()
                if time.monotonic() - looked >= LOOK_S:
                    await self._quietly(self._keep)
                    looked = time.monotonic()
                await asyncio.sleep(LISTEN_S)
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def do(self, ask: Ask, tell: upkeep.Tell) -> int:
        """One step, for one table or all; return how many files were joined or snapshots removed."""
        tables = [TABLES[ask.table]] if ask.table else list(TABLES.values())
        step = self._compact if ask.step == "compact" else self._expire
        return await self._in_thread(step, tables, tell)

    async def _listen(self) -> None:
        try:
            value = await self._store.get(ASK)
            if value is None:
                return
            await self._store.delete(ASK)
            await self._answer(msgspec.json.decode(value, type=Ask))
        except (ArteryError, msgspec.MsgspecError) as error:
            _log.warning("what was asked of the lake could not be done", error=str(error))

    async def _answer(self, ask: Ask) -> None:
        loop = asyncio.get_running_loop()

        async def say(answer: Answer) -> None:
            await self._store.put(f"{ANSWER}{ask.id}", msgspec.json.encode(answer), ANSWER_TTL_S)

        def tell(done: int, of: int, words: str) -> None:
            asyncio.run_coroutine_threadsafe(say(Answer(done, of, words)), loop).result()

        await say(Answer(words="waiting for the batch that is being stored"))
        try:
            count = await self.do(ask, tell)
        except Exception as error:  # Spark raises whatever its parts do
            await say(Answer(ended=True, error=_short(error)))
        else:
            await say(Answer(1, 1, "done", ended=True, count=count))
        await self._quietly(self._look_again)

    async def _keep(self) -> None:
        """What is due: join what is over, remove what is old, say how it is. A table that fails holds up no other."""
        await self._say_state([await self._kept(table) for table in TABLES.values()])
        if self._clock() - self._orphans_at >= ORPHANS_S:
            self._orphans_at = self._clock() - ORPHANS_S + FIRST_ORPHANS_S
            gone = await asyncio.to_thread(upkeep.remove_orphans, self._settings)
            self._orphans_at = self._clock()
            if gone:
                _log.info("files that no table names were removed", files=gone)

    async def _kept(self, table: Table) -> Health | None:
        return await self._tried(self._keep_table, table) or await self._tried(self._look, table)

    def _keep_table(self, table: Table) -> Health:
        state = upkeep.look(self._session, table)
        changed = False
        for job in jobs(table, state.files, self._now_ms()):
            changed = True
            with self._between:  # a batch may come between two jobs
                upkeep.compact(self._session, job)
        if len(state.snapshots) - self._seen.get(table.name, 0) >= EXPIRE_COMMITS:
            gone = self._expire_table(table)
            self._seen[table.name] = len(state.snapshots) - gone
            changed = changed or gone > 0
        return health_of(table, upkeep.look(self._session, table) if changed else state, self._now_ms())

    def _compact(self, tables: Iterable[Table], tell: upkeep.Tell) -> int:
        """Every job that is worth it now; a batch may come between two."""
        found = [(table, upkeep.look(self._session, table).files) for table in tables]
        due = [job for table, files in found for job in jobs(table, files, self._now_ms(), join_open=2)]
        for number, job in enumerate(due):
            tell(number, len(due), f"joining {job.files} files of {job.table}")
            with self._between:
                upkeep.compact(self._session, job)
        return sum(job.files for job in due)

    def _expire(self, tables: list[Table], tell: upkeep.Tell) -> int:
        gone = 0
        for number, table in enumerate(tables):
            tell(number, len(tables) + 1, f"removing old snapshots of {table.name}")
            gone += self._expire_table(table)
        tell(len(tables), len(tables) + 1, "looking for files that no table names")
        upkeep.remove_orphans(self._settings)
        return gone

    def _expire_table(self, table: Table) -> int:
        """Who pins a snapshot sees that this goes on, or is seen here: see `EXPIRING`."""
        with self._between:
            self._calls(partial(self._store.put, EXPIRING, b"", EXPIRING_TTL_S), "saying that snapshots are removed")
            try:
                pins = self._calls(self._pins, "reading what is pinned")
                return upkeep.expire(self._session, table, self._to_keep(table, pins), self._now_ms())
            finally:
                self._calls(partial(self._store.delete, EXPIRING), "saying that snapshots were removed")

    def _to_keep(self, table: Table, pins: dict[str, set[int]]) -> Keep:
        """What readers hold, and what notifications have named; only candles are announced."""
        since_ms = self._now_ms() - int(self._settings.lake.pin_h * 3_600_000)
        named = upkeep.announced(self._session, since_ms) if table is OHLC else []
        held, ms = pins.get(table.name, set()), int(self._settings.lake.keep_min * 60_000)
        return Keep(held, ms, announced=frozenset(named))

    async def _pins(self) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for key, _ in await self._store.scan(PIN):
            table, snapshot = pinned_by(key)
            found.setdefault(table, set()).add(snapshot)
        return found

    async def _look_again(self) -> None:
        await self._say_state([await self._tried(self._look, table) for table in TABLES.values()])

    async def _say_state(self, tables: Iterable[Health | None]) -> None:
        seen = [health for health in tables if health is not None]
        value = msgspec.json.encode({"updated_ms": self._now_ms(), "tables": seen})
        await self._store.put(STATE, value, STATE_TTL_S)

    def _look(self, table: Table) -> Health:
        return health_of(table, upkeep.look(self._session, table), self._now_ms())

    async def _tried(self, work: Callable[[Table], Health], table: Table) -> Health | None:
        """What comes of it for this table, or nothing if it failed."""
        try:
            return await self._in_thread(work, table)
        except Exception as error:  # Spark raises whatever its parts do
            _log.warning("a table's upkeep failed and is tried again", table=table.name, error=_short(error))
            return None

    async def _quietly(self, work: Callable[[], Any]) -> None:
        try:
            await work()
        except Exception as error:  # Spark raises whatever its parts do
            _log.warning("the lake's upkeep failed and is tried again", error=_short(error))

    async def _in_thread(self, call: Callable[..., T], *values: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *values)

    def _now_ms(self) -> int:
        return int(self._clock() * 1_000)


def _short(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
