"""Port 5559: every request gets an answer, whatever its peer is; what cannot be answered is counted."""

import asyncio
import time
from collections.abc import Callable, Sequence

from google.protobuf.message import Message

from artery.errors import ArteryError, BadInput
from artery.relay import metrics, routing
from artery.relay.submit import Desk
from artery.telemetry import logger
from artery.wire import messages
from artery.wire.artery_pb2 import (
    DataRequest,
    IngestorControl,
    StatusRequest,
    StatusResponse,
    SubmitHistoricalRequest,
    SubmitResponse,
)
from artery.wire.sockets import Socket

AT_ONCE = 2_000
"""Requests under way; past it nothing more is read, and the sockets hold the rest back."""
ANSWER_S = 20.0

_log = logger("relay")


class Door:
    """Reads requests from a ROUTER and sends their answers, many at a time."""

    def __init__(self, socket: Socket, desk: Desk, user_of: Callable[[str], str]) -> None:
        """`user_of` says whose key it is: nobody's, where there are no keys."""
        self._socket = socket
        self._desk = desk
        self._user_of = user_of
        self._room = asyncio.Semaphore(AT_ONCE)

    async def run(self) -> None:
        """Answer for ever."""
        async with asyncio.TaskGroup() as group:
            while True:
                key, frames = await self._socket.receive_from()
                await self._room.acquire()
                group.create_task(self._one(frames, self._user_of(key)))

    async def _one(self, frames: Sequence[bytes], user: str) -> None:
        began = time.perf_counter()
        try:
            await self._serve(frames, user)
        except BadInput as error:
            metrics.REFUSED.labels("requests", "routing").inc()
            _log.debug("a message without a way back was left out", reason=str(error))
        finally:
            self._room.release()
            metrics.ANSWER_S.observe(time.perf_counter() - began)

    async def _serve(self, frames: Sequence[bytes], user: str) -> None:
        path, message = routing.split(frames)
        answer = await self._answer(message, user)
        if not self._socket.send([*path, *messages.write(answer)]):
            metrics.UNANSWERED.inc()

    async def _answer(self, frames: Sequence[bytes], user: str) -> Message:
        try:
            routing.check_size(frames)
            asked = messages.read(frames)
        except BadInput as error:
            metrics.REFUSED.labels("requests", "unreadable").inc()
            return SubmitResponse(status=SubmitResponse.INVALID, error=str(error))
        kind = type(asked).__name__
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await self._ask(asked, user)
        except BadInput as error:
            metrics.ASKED.labels(kind, "invalid").inc()
            return _refusal(asked, SubmitResponse.INVALID, str(error))
        except (ArteryError, TimeoutError) as error:
            metrics.ASKED.labels(kind, "failed").inc()
            reason = str(error) or f"no answer within {ANSWER_S:g} s"
            _log.warning("a request could not be answered", type=kind, reason=reason)
            return _refusal(asked, SubmitResponse.NO_INGESTOR, f"{reason}; ask again")
        metrics.ASKED.labels(kind, "answered").inc()
        return answer

    async def _ask(self, asked: Message, user: str) -> Message:
        if isinstance(asked, SubmitHistoricalRequest):
            return await self._desk.submit(asked, user)
        if isinstance(asked, StatusRequest):
            return await self._desk.status(asked, user)
        if isinstance(asked, DataRequest) and asked.type == DataRequest.HISTORICAL_OHLC:
            return await self._desk.submit(_submitted(asked), user)
        if isinstance(asked, DataRequest) and asked.type == DataRequest.REALTIME_TICKS:
            return await self._desk.follow(asked, user)
        if isinstance(asked, IngestorControl) and asked.action == IngestorControl.CANCEL:
            return await self._desk.cancel(asked, user)
        metrics.REFUSED.labels("requests", "not_a_request").inc()
        return SubmitResponse(status=SubmitResponse.INVALID, error=f"{type(asked).__name__} is not a request")


def _refusal(asked: Message, status: "SubmitResponse.Status", error: str) -> Message:
    """Why there is no answer, in the message that the peer waits for. That a status is not to be had says nothing of
    the request, which goes on."""
    request_id = str(getattr(asked, "request_id", ""))
    if isinstance(asked, StatusRequest | IngestorControl):
        return StatusResponse(request_id=request_id, state=StatusResponse.UNKNOWN, error=error)
    return SubmitResponse(request_id=request_id, status=status, error=error)


def _submitted(asked: DataRequest) -> SubmitHistoricalRequest:
    wanted = asked.historical
    return SubmitHistoricalRequest(
        request_id=asked.request_id,
        client_id=asked.client_id,
        ticker=asked.ticker,
        start_ms=wanted.start_ms,
        end_ms=wanted.end_ms,
        period_s=wanted.period_s,
        limit=wanted.limit,
    )
