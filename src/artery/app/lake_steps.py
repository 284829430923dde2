"""Steps of the lake's upkeep by hand: by the pipeline if it runs, else here, under the pipeline's own lock."""

import asyncio
import secrets
import threading
import time
from collections.abc import Callable

import msgspec

from artery.app.wiring import Parts, opened
from artery.errors import NotFound, Unavailable
from artery.lake.asks import ANSWER, ASK, ASK_TTL_S, EXPIRING, EXPIRING_TTL_S, Answer, Ask, Step, pin_key
from artery.lake.looking import looked_at
from artery.lake.open import open_lake
from artery.lake.places import catalog_file, on_server
from artery.lake.state import Look
from artery.lake.tables import TABLES
from artery.live.base import Term
from artery.settings import Settings
from artery.store.base import Store

TAKEN_S = 120.0
"""How long the pipeline may take to begin: it may be starting, storing a batch, or joining files on its own."""
WAIT_S = 1_800.0
_LOOK_S = 0.1
Tell = Callable[[int, str], None]
"""How far it is, of a thousand, and in words."""


class Outcome(msgspec.Struct, frozen=True):
    """What came of a step, and who did it."""

    step: str
    table: str
    count: int
    by: str


class Pinned(msgspec.Struct, frozen=True):
    """A snapshot that stays until then."""

    table: str
    snapshot: int
    until_ms: int


async def do_step(settings: Settings, step: Step, table: str, tell: Tell) -> Outcome:
    """Do a step for one table, or for all if none is named."""
    need_lake(settings, table)
    ask = Ask(secrets.token_hex(8), step, table)
    async with opened(settings) as parts:
        count = await _by_hand(settings, parts, ask, tell)
        if count is not None:
            return Outcome(step, table, count, "this command")
        return Outcome(step, table, await _asked(parts.store, ask, tell), "the pipeline")


async def pin(settings: Settings, table: str, snapshot: int, hours: float) -> Pinned:
    """Keep a snapshot, the newest if none is named, readable for so long."""
    need_lake(settings, table)
    found = await asyncio.to_thread(_seen, settings, table)
    snapshot = snapshot or found.current
    if snapshot not in {one.id for one in found.snapshots}:
        raise NotFound(f"{table} has no snapshot {snapshot}; `artery lake snapshots {table}` lists them")
    key, until_ms = pin_key(table, snapshot, secrets.token_hex(4)), int((time.time() + hours * 3_600) * 1_000)
    async with opened(settings) as parts:
        await parts.store.put(key, b"", hours * 3_600)
        await _until_expired(parts.store)  # what it removes may have been chosen before this pin was there
        found = await asyncio.to_thread(_seen, settings, table)
        if snapshot not in {one.id for one in found.snapshots}:
            await parts.store.delete(key)
            raise NotFound(f"snapshot {snapshot} of {table} was removed just now; pin a newer one")
    return Pinned(table, snapshot, until_ms)


async def _until_expired(store: Store) -> None:
    """Wait until no snapshots are being removed."""
    for _ in range(int(EXPIRING_TTL_S / _LOOK_S)):
        if await store.get(EXPIRING) is None:
            return
        await asyncio.sleep(_LOOK_S)


def _seen(settings: Settings, table: str) -> Look:
    lake = open_lake(settings)
    try:
        return looked_at(lake, table)
    finally:
        lake.close()


def need_lake(settings: Settings, table: str = "") -> None:
    """Refuse where there is no lake, or no such table."""
    if table and table not in TABLES:
        raise NotFound(f"{table!r:.40} is not a table; there are {', '.join(TABLES)}")
    if not on_server(settings.lake.catalog_url) and not catalog_file(settings.folder).exists():
        raise NotFound(f"there is no lake in {settings.folder}: the pipeline makes it at its first start (`artery up`)")


async def _asked(store: Store, ask: Ask, tell: Tell) -> int:
    """Ask the pipeline, and follow what it says."""
    if not await store.put_if_absent(ASK, msgspec.json.encode(ask), ASK_TTL_S):
        raise Unavailable("the pipeline was asked for another step a moment ago; try again when that is done")
    deadline, taken = time.monotonic() + WAIT_S, time.monotonic() + TAKEN_S
    while time.monotonic() < deadline:
        value = await store.get(f"{ANSWER}{ask.id}")
        if value is None and time.monotonic() > taken:
            await store.delete(ASK)
            raise Unavailable("the pipeline does not answer; look at it with /readyz, or try again in a minute")
        answer = msgspec.json.decode(value, type=Answer) if value else Answer(words="waiting for the pipeline")
        if answer.error:
            raise Unavailable(f"the pipeline could not do it: {answer.error}")
        tell(1_000 * answer.done // max(1, answer.of), answer.words)
        if answer.ended:
            return answer.count
        await asyncio.sleep(_LOOK_S)
    raise Unavailable(f"the pipeline was not done after {WAIT_S / 60:.0f} minutes; `artery lake` shows how far it is")


async def _by_hand(settings: Settings, parts: Parts, ask: Ask, tell: Tell) -> int | None:
    """Do it here if no pipeline runs; None if one does."""
    from artery.live.leader import lead
    from artery.pipeline.service import LOCK, LOCK_TTL_S

    done: list[int] = []
    failed: list[Exception] = []

    async def work(_term: Term) -> None:
        try:
            done.append(await _with_spark(settings, parts.store, ask, tell))
        except Exception as error:  # once: a person tries again, `lead` would do so for ever
            failed.append(error)

    first = await parts.lock.acquire(LOCK, LOCK_TTL_S)
    if first is None:
        return None
    await parts.lock.release(first)
    await lead(parts.lock, LOCK, work, LOCK_TTL_S)
    if failed:
        raise failed[0]
    return done[0]


async def _with_spark(settings: Settings, store: Store, ask: Ask, tell: Tell) -> int:
    from artery.pipeline.calls import Calls
    from artery.pipeline.keeper import Keeper
    from artery.pipeline.session import Spark

    tell(0, "no pipeline runs, so Spark is started here (about 15 s)")
    spark = await asyncio.to_thread(Spark, settings)
    loop = asyncio.get_running_loop()
    calls = Calls(loop)
    try:
        session = await asyncio.to_thread(spark.session)
        keeper = Keeper(settings, session, store, threading.Lock(), calls)

        def say(done: int, of: int, words: str) -> None:
            loop.call_soon_threadsafe(tell, 1_000 * done // max(1, of), words)

        return await keeper.do(ask, say)
    finally:
        calls.stop()
        await asyncio.to_thread(spark.stop)
