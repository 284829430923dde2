"""A client's request for history: onto the bus before the answer, each id once; and what has become of it."""

import asyncio
import random
from collections.abc import Callable
from functools import partial

import msgspec

from artery.bus.base import Bus
from artery.errors import ArteryError, BadInput
from artery.model.periods import parse_periods
from artery.relay import asking, realtime
from artery.relay.markets import check_ticker
from artery.relay.owners import Owners
from artery.relay.realtime import Realtime
from artery.relay.work import Control, WorkQueue
from artery.settings import Settings
from artery.store.base import Store
from artery.telemetry import logger
from artery.wire import requests, topics
from artery.wire.artery_pb2 import (
    DataRequest,
    HistoryReadyNotification,
    IngestorControl,
    StatusRequest,
    StatusResponse,
    SubmitHistoricalRequest,
    SubmitResponse,
)
from artery.wire.requests import Record

SAY_S = 1.0
"""How often it is looked whether other markets are wanted."""
STUCK_MS = 5_000
"""A request that stayed new for so long was never appended: its relay died in between."""
LOST_MS = 60_000
"""One that stayed queued, or of whose fetching nothing was heard, for so long may no longer be on the bus: it is
appended once more, which harms nobody, as whoever fetches it holds its lease and sees whether it is done."""
_STATES = {
    "new": StatusResponse.QUEUED,
    "queued": StatusResponse.QUEUED,
    "fetching": StatusResponse.FETCHING,
    "storing": StatusResponse.STORING,
    "done": StatusResponse.DONE,
}
_log = logger("relay")
Announce = Callable[[str, HistoryReadyNotification], None]


class Desk:
    """Answers requests. It keeps nothing: what must be remembered is on the bus or in the store."""

    def __init__(
        self,
        settings: Settings,
        bus: Bus,
        store: Store,
        work: WorkQueue,
        control: Control,
        announce: Announce,
        now_ms: Callable[[], int],
        owners: Owners | None = None,
    ) -> None:
        """With `owners`, requests belong to the users who made them."""
        self._settings = settings
        self._bus = bus
        self._store = store
        self._work = work
        self._control = control
        self._announce = announce
        self._now_ms = now_ms
        self._owners = owners
        self._realtime = Realtime(settings, store, work, control)
        self._noting: set[asyncio.Task[None]] = set()
        self._beginning: dict[str, asyncio.Task[bool]] = {}

    async def submit(self, asked: SubmitHistoricalRequest, user: str = "") -> SubmitResponse:
        """Accepted once it is on the bus; any other outcome has a reason."""
        try:
            request = asking.work_of(asked, self._now_ms())
            exchange = await check_ticker(self._settings, self._store, asked.ticker)
            return await self._accept(request, exchange, user)
        except BadInput as error:
            return SubmitResponse(request_id=asked.request_id, status=SubmitResponse.INVALID, error=str(error))

    async def follow(self, asked: DataRequest, user: str = "") -> SubmitResponse:
        """Accepted once the market is wanted in the store, where every leader of its feed looks."""
        try:
            exchange = await check_ticker(
                self._settings,
                self._store,
                realtime.check(asked, parse_periods(self._settings.pipeline.periods)).ticker,
            )
            return await self._realtime.follow(asked, exchange, partial(self._claim, asked, user))
        except BadInput as error:
            return SubmitResponse(request_id=asked.request_id, status=SubmitResponse.INVALID, error=str(error))

    async def keep_saying(self) -> None:
        """Tell the ingestors which markets are wanted, until cancelled."""
        while True:
            try:
                await self._realtime.say()
            except ArteryError as error:
                _log.warning("what is wanted cannot be said for the moment", reason=str(error))
            await asyncio.sleep(SAY_S * random.uniform(0.8, 1.0))

    async def status(self, asked: StatusRequest, user: str = "") -> StatusResponse:
        """What has become of a request."""
        record = await self._record(asked.request_id)
        theirs = await self._is_theirs(topics.history_ready(asked.request_id), user)
        if record is None and theirs and await self._realtime.holds(asked.request_id):
            return StatusResponse(request_id=asked.request_id, state=StatusResponse.FETCHING)
        if record is None or not theirs:
            error = "no such request: it was never accepted, or is older than a week"
            return StatusResponse(request_id=asked.request_id, state=StatusResponse.UNKNOWN, error=error)
        return StatusResponse(
            request_id=asked.request_id,
            state=_STATES[record.state],
            progress=record.progress,
            rows=record.rows,
            pages=record.pages,
            outcome=record.notification if record.outcome else None,
        )

    async def cancel(self, asked: IngestorControl, user: str = "") -> StatusResponse:
        """Have a request left off; its outcome is announced as of any other."""
        status = await self.status(StatusRequest(request_id=asked.request_id), user)
        if status.state == StatusResponse.FETCHING and await self._realtime.holds(asked.request_id):
            await self._realtime.cancel(asked.request_id)
            return StatusResponse(request_id=asked.request_id, state=StatusResponse.DONE)
        if status.state in (StatusResponse.QUEUED, StatusResponse.FETCHING):
            self._control.cancel(asked.request_id)
        return status

    async def _claim(self, request: DataRequest, user: str) -> None:
        """All the topics of a request become the user's, or none; only where something is kept of it."""
        names = requests.topics_of(request.request_id, request.client_id)
        for judge in (self._owners.could_use, self._owners.may_use) if self._owners else ():
            for topic in names:
                if not user or not await judge(user, topic):
                    raise BadInput(f"{topic} belongs to another user: take another id")

    async def _is_theirs(self, topic: str, user: str) -> bool:
        return self._owners is None or (bool(user) and await self._owners.owns(user, topic))

    async def _record(self, request_id: str) -> Record | None:
        return requests.read_record(await self._store.get(requests.key(request_id)))

    async def _accept(self, request: DataRequest, exchange: str, user: str) -> SubmitResponse:
        served = await self._work.has_ingestor(exchange)
        if served or await self._record(request.request_id) is not None:
            await self._claim(request, user)
            if served and await self._begin(request, exchange):
                return _response(request, SubmitResponse.ACCEPTED)
            old = await self._record(request.request_id)
            if old is not None:
                return await self._again(request, exchange, old)
        error = f"no ingestor of {exchange} is connected; nothing was kept, ask again later"
        return _response(request, SubmitResponse.NO_INGESTOR, error)

    async def _begin(self, request: DataRequest, exchange: str) -> bool:
        """Whether this request is new, and then on the bus. Once begun this is finished or undone, even where nobody
        waits for it any more; and who sends the same id meanwhile waits for what comes of it."""
        running = self._beginning.get(request.request_id)
        if running is not None:
            await asyncio.shield(running)
            return False
        task = asyncio.create_task(self._note_and_append(request, exchange))
        self._beginning[request.request_id] = task
        task.add_done_callback(partial(self._begun, request.request_id))
        return await asyncio.shield(task)

    def _begun(self, request_id: str, task: "asyncio.Task[bool]") -> None:
        del self._beginning[request_id]
        if not task.cancelled() and (error := task.exception()):
            _log.warning("a request could not be put on the bus", request=request_id, reason=str(error))

    async def _note_and_append(self, request: DataRequest, exchange: str) -> bool:
        record = Record(requests.text(request), since_ms=self._now_ms())
        key, value = requests.key(request.request_id), requests.write_record(record)
        if not await self._store.put_if_absent(key, value, requests.TTL_S):
            return False
        await self._append(request, exchange, record)
        return True

    async def _again(self, request: DataRequest, exchange: str, old: Record) -> SubmitResponse:
        if not asking.is_of(request, old):
            raise BadInput(f"request_id {request.request_id} was used for another request: take a new one")
        if old.state == "done":
            outcome = old.notification
            outcome.client_id = request.client_id or outcome.client_id
            for topic in requests.topics_of(request.request_id, request.client_id):
                self._announce(topic, outcome)
        elif old.state == "new" and self._now_ms() - old.since_ms > STUCK_MS:
            await self._append(old.request, exchange, old)
        elif old.state in ("queued", "fetching"):
            if self._now_ms() - old.since_ms > LOST_MS:
                await self._bus.append("request", [requests.encode(old.request, event_ts=self._now_ms())])
                await self._note(requests.key(request.request_id), requests.write_record(old), old)
            self._work.wake(exchange, old.request)
        response = _response(request, SubmitResponse.DUPLICATE)
        if old.state != "done" and request.client_id != old.request.client_id:
            response.notification_topic = topics.history_ready(request.request_id)  # the one that is sure to hear of it
        return response

    async def _append(self, request: DataRequest, exchange: str, record: Record) -> None:
        """The bus first, then the wake-up; the store's word for it may come after the answer."""
        key, before = requests.key(request.request_id), requests.write_record(record)
        try:
            await self._bus.append("request", [requests.encode(request, event_ts=self._now_ms())])
        except ArteryError:
            await self._store.compare_and_set(key, before, None)
            raise
        self._work.wake(exchange, request)
        noting = asyncio.create_task(self._note(key, before, record))
        self._noting.add(noting)
        noting.add_done_callback(self._noting.discard)

    async def _note(self, key: str, before: bytes, record: Record) -> None:
        """Say that it is on the bus; an ingestor that was quicker has the last word. Where this fails, whoever asks
        again has it appended again, which harms nobody."""
        state: requests.State = "queued" if record.state == "new" else record.state
        queued = msgspec.structs.replace(record, state=state, since_ms=self._now_ms())
        try:
            await self._store.compare_and_set(key, before, requests.write_record(queued), requests.TTL_S)
        except ArteryError as error:
            _log.warning("the store cannot be told of a request", reason=str(error))


def _response(request: DataRequest, status: "SubmitResponse.Status", error: str = "") -> SubmitResponse:
    kept = status != SubmitResponse.NO_INGESTOR
    topic = requests.topics_of(request.request_id, request.client_id)[0] if kept else ""
    return SubmitResponse(request_id=request.request_id, status=status, notification_topic=topic, error=error)
