"""Clients' requests for history: taken from the log, each fetched by whoever holds its lease."""

import asyncio
import random
import secrets
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from artery.bus.base import Entry
from artery.bus.dead import bury
from artery.errors import ArteryError, BadEvent
from artery.ingest import metrics
from artery.ingest.fetching import Fetch
from artery.ingest.parts import Parts
from artery.ingest.retry import persist
from artery.live.base import LeaderLock, Term
from artery.live.leader import lead
from artery.telemetry import logger
from artery.wire import history, requests
from artery.wire.artery_pb2 import DataRequest
from artery.wire.requests import Record

AT_ONCE = 16
ASKS_AT_ONCE = 3
WAIT_MS = 1_000
KEEP_S = 4.0
IDLE_MS = 15_000
"""What another ingestor was given and has shown no sign of working on for so long is taken over."""
LEASE_S = 30.0
LEASE_PAUSE_S = (0.5, 1.5)
CANCELLED_MAX = 1_000
TRIES_MAX = 5
"""So often a request is taken up that fails with what no waiting mends; then its outcome is an error."""
_STREAM = "request"

_log = logger("ingest")


class Requests:
    """Takes requests of this provider, some at a time, and keeps its claim on them while it works."""

    def __init__(self, parts: Parts, lock: LeaderLock) -> None:
        self._parts = parts
        self._lock = lock
        self._group = f"cg_ingest_request_{parts.provider}"
        self._me = secrets.token_hex(8)
        self._room = asyncio.Semaphore(AT_ONCE)
        self._asks = asyncio.Semaphore(ASKS_AT_ONCE)
        self._busy: set[str] = set()
        self._cancelled: deque[str] = deque(maxlen=CANCELLED_MAX)
        self._failures: Counter[str] = Counter()

    def cancel(self, request_id: str) -> None:
        """Leave this request off, or do not begin it."""
        if request_id not in self._cancelled:
            self._cancelled.append(request_id)

    async def run(self) -> None:
        """Work until cancelled."""
        await persist(lambda: self._parts.bus.ensure_group(_STREAM, self._group), "reading the bus")
        async with asyncio.TaskGroup() as group:
            group.create_task(self._take(group))
            group.create_task(self._take_over(group))

    async def _take(self, group: asyncio.TaskGroup) -> None:
        while True:
            await self._room.acquire()
            entries: list[Entry] = []
            try:
                entries = await self._parts.bus.read_new(_STREAM, self._group, self._me, 1, WAIT_MS)
            except ArteryError as error:
                _log.warning("requests cannot be read for the moment", reason=str(error))
                await asyncio.sleep(random.uniform(0.5, 1.0))
            # After a reply that was not heard, it may be one that was taken up meanwhile.
            fresh = [entry for entry in entries if entry.id not in self._busy]
            if not fresh:
                self._room.release()
            for entry in fresh:
                self._begin(group, entry)

    async def _take_over(self, group: asyncio.TaskGroup) -> None:
        """Show that this one lives; take up what failed here, and what the dead have left."""
        bus, seen = self._parts.bus, set[str]()
        while True:
            try:
                mine = await bus.read_pending(_STREAM, self._group, self._me, limit=AT_ONCE * 4)
                left = await bus.claim(_STREAM, self._group, self._me, IDLE_MS, AT_ONCE)
                # What was given a moment ago may not have been begun yet: only at the second look it has failed.
                due = [entry for entry in mine if entry.id in seen] + left
                seen = {entry.id for entry in mine if entry.id not in self._busy}
                await self._take_up(group, due)
            except ArteryError as error:
                _log.warning("requests cannot be looked for for the moment", reason=str(error))
            await asyncio.sleep(KEEP_S * random.uniform(0.8, 1.2))

    async def _take_up(self, group: asyncio.TaskGroup, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.id not in self._busy and not self._room.locked():  # without a wait, so that the list stays true
                _log.info("taking up a request that was left", position=entry.id)
                await self._room.acquire()
                self._begin(group, entry)

    def _begin(self, group: asyncio.TaskGroup, entry: Entry) -> None:
        self._busy.add(entry.id)
        group.create_task(self._do(entry))

    async def _do(self, entry: Entry) -> None:
        try:
            request = requests.decode(entry.fields)
            if request.ticker.partition(":")[0] == self._parts.exchange:
                await self._try(request, entry.id)
            await persist(lambda: self._parts.bus.ack(_STREAM, self._group, [entry.id]), "writing to the bus")
        except BadEvent as error:
            metrics.REQUESTS.labels("bad").inc()
            await bury(self._parts.bus, _STREAM, self._group, entry, str(error))
        except ArteryError as error:  # it stays pending, and is taken up again
            metrics.REQUESTS.labels("failed").inc()
            _log.warning("a request could not be worked on", position=entry.id, reason=str(error))
        finally:
            self._busy.discard(entry.id)
            self._room.release()

    async def _try(self, request: DataRequest, position: str) -> None:
        try:
            await self._fetch(request)
        except ArteryError as error:
            if not error.temporary:
                self._failures[position] += 1
            if self._failures[position] < TRIES_MAX:
                raise
            await self._give_up(request, str(error))
        self._failures.pop(position, None)

    async def _give_up(self, request: DataRequest, reason: str) -> None:
        """Have the request end with an error, whatever else can be told of it."""
        metrics.REQUESTS.labels("given_up").inc()
        _log.error("a request is given up", request=request.request_id[:80], reason=reason)
        note = Note(self._parts, request)
        with suppress(ArteryError):
            if await note.is_over():
                return
        last = history.closing(request, number=0, rows_total=0, error=reason)
        page = history.encode(last, event_ts=self._parts.now_ms())
        await persist(lambda: self._parts.bus.append("history", [page]), "writing history to the bus")
        with suppress(ArteryError):
            await note.storing(0, 1)

    async def _fetch(self, request: DataRequest) -> None:
        lease = requests.lease(request.request_id)
        await lead(self._lock, lease, lambda term: self._work(request, term), LEASE_S, pause_s=LEASE_PAUSE_S)
        # Nobody contends for it any more, and the store would keep it for ever.
        await persist(lambda: self._parts.store.delete(lease), "writing to the store")

    async def _work(self, request: DataRequest, _term: Term) -> None:
        note = Note(self._parts, request)
        if await note.is_over():
            return
        fetch = Fetch(self._parts, request, note.fetching, lambda: request.request_id in self._cancelled, self._asks)
        await note.fetching(0, 0, 0)
        rows, pages = await fetch.run()
        await note.storing(rows, pages)
        metrics.REQUESTS.labels("fetched").inc()


class Note:
    """What the store is told of a request: only ever forward, and never after its outcome."""

    def __init__(self, parts: Parts, request: DataRequest) -> None:
        self._parts = parts
        self._key = requests.key(request.request_id)
        self._new = Record(requests.text(request))

    async def is_over(self) -> bool:
        """Whether someone has fetched all of it already."""
        record = requests.read_record(await persist(lambda: self._parts.store.get(self._key), "reading the store"))
        return record is not None and record.state in ("storing", "done")

    async def fetching(self, progress: int, rows: int, pages: int) -> None:
        await self._say("fetching", progress, rows, pages)

    async def storing(self, rows: int, pages: int) -> None:
        await self._say("storing", 1_000, rows, pages)

    async def _say(self, state: requests.State, progress: int, rows: int, pages: int) -> None:
        async def once() -> None:
            old = await self._parts.store.get(self._key)
            record = requests.read_record(old) or self._new
            if record.state != "done":
                fresh = msgspec.structs.replace(
                    record, state=state, since_ms=self._parts.now_ms(), progress=progress, rows=rows, pages=pages
                )
                await self._parts.store.compare_and_set(self._key, old, requests.write_record(fresh), requests.TTL_S)

        await persist(once, "writing to the store")
