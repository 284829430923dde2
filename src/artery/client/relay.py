"""The relay's client: history on request, live ticks and candles, over ZeroMQ.

async with Relay() as relay:
    outcome = await relay.fetch("SIM:BTC", "1m", since="7d")    # afterwards the lake has it
    async for tick in relay.ticks("SIM:BTC"):
        print(tick)
"""

import asyncio
import random
import secrets
import time
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from google.protobuf.message import Message

from artery.client.frames import Gap
from artery.client.names import channel, moment
from artery.client.relayed import Candles, Ticks
from artery.errors import BadInput, Unavailable
from artery.model.events import Candle, Trade
from artery.model.periods import Period
from artery.model.tickers import ticker
from artery.wire import certificates, messages, topics
from artery.wire.artery_pb2 import (
    OHLC,
    HistoryReadyNotification,
    StatusRequest,
    StatusResponse,
    SubmitHistoricalRequest,
    SubmitResponse,
    SubscriptionConfirmed,
    SymbolMetadataUpdated,
    Tick,
)
from artery.wire.sockets import Context, Kind, show

REQUESTS, CLIENTS = "tcp://127.0.0.1:5559", "tcp://127.0.0.1:5558"
ANSWER_S = 3.0
"""How long one try waits for its answer; the next one asks the same again."""
SUBMIT_S = 30.0
NO_INGESTOR_S = 10.0
LOOK_S = 1.0
"""How often the status is asked for while the outcome is waited for: it may have been said while nobody listened."""
UNKNOWN_MAX = 3
"""Looks in a row that find a request unknown before it is submitted again."""
OUTCOME_S = 600.0


class Progress(msgspec.Struct, frozen=True):
    """How far a request is: its state, thousandths of its range, rows and pages so far."""

    state: str
    done: int
    rows: int
    pages: int


class Relay:
    """A relay, by its two addresses; everything that is asked may be asked again without harm."""

    def __init__(self, requests: str = REQUESTS, clients: str = CLIENTS, key: str | Path = "") -> None:
        """`key` is the file with which a relay that asks for keys lets this client in."""
        self._urls = (requests, clients)
        self._id = f"py-{secrets.token_hex(8)}"
        self._context = Context(show(certificates.carried(key)))
        self._answers: dict[bytes, asyncio.Future[Message]] = {}
        self._outcomes: dict[str, asyncio.Future[HistoryReadyNotification]] = {}
        self._subscribed = False
        self._confirmed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._dealer = self._context.socket(Kind.DEALER)
        self._dealer.connect([self._urls[0]])
        self._notices = self._context.socket(Kind.SUB)
        self._notices.connect([self._urls[1]])
        self._tasks = [asyncio.create_task(self._hear_answers()), asyncio.create_task(self._hear_notices())]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await self._context.close()

    async def fetch(
        self,
        market: str,
        period: str = "1m",
        since: str | int | datetime = "1d",
        until: str | int | datetime | None = None,
        *,
        limit: int = 0,
        request_id: str = "",
        progress: Callable[[Progress], None] = lambda _progress: None,
        wait_s: float = OUTCOME_S,
    ) -> HistoryReadyNotification:
        """Have the lake hold these candles; return what the outcome says. An error of the venue is `Unavailable`."""
        wanted, now_ms = channel(market), time.time_ns() // 1_000_000
        asked = SubmitHistoricalRequest(
            request_id=request_id or f"py-{secrets.token_hex(12)}",
            client_id=self._id,
            ticker=ticker(wanted.provider, wanted.market),
            start_ms=moment(since, now_ms),
            end_ms=moment(until, now_ms) if until is not None else now_ms,
            period_s=Period.parse(period).seconds,
            limit=limit,
        )
        future = self._outcomes[asked.request_id] = asyncio.get_running_loop().create_future()
        try:
            await self._subscribe()
            await self._submit(asked)
            async with asyncio.timeout(wait_s):
                outcome = await self._outcome(asked, future, progress)
        except TimeoutError:
            raise Unavailable(f"no outcome of {asked.request_id} within {wait_s:g} s: ask again with this id") from None
        finally:
            del self._outcomes[asked.request_id]
        if outcome.status == HistoryReadyNotification.ERROR:
            raise Unavailable(f"the history could not be fetched: {outcome.error}")
        return outcome

    async def status(self, request_id: str) -> StatusResponse:
        """What has become of a request."""
        answer = await self._ask(StatusRequest(request_id=request_id), SUBMIT_S)
        if not isinstance(answer, StatusResponse):
            raise Unavailable("the relay did not answer with a status")
        return answer

    async def ticks(self, market: str) -> AsyncIterator[Trade | Gap]:
        """A market's trades, live; one that was lost on the way is a `Gap`."""
        wanted, order = channel(market), Ticks(channel(market))
        async for message in self._follow(topics.tick(ticker(wanted.provider, wanted.market))):
            if isinstance(message, Tick):
                for item in order.take(message):
                    yield item

    async def candles(self, market: str, period: str = "1m") -> AsyncIterator[Candle | Gap]:
        """Every version of a market's candles, live; a later one of the same start holds. What was lost is a `Gap`."""
        wanted, order = channel(market), Candles(channel(market))
        topic = topics.ohlc(ticker(wanted.provider, wanted.market), Period.parse(period))
        async for message in self._follow(topic):
            if isinstance(message, OHLC):
                for item in order.take(message):
                    yield item

    async def metadata_updates(self) -> AsyncIterator[SymbolMetadataUpdated | None]:
        """Word that markets' metadata has changed; None once the subscription holds, so that nothing is missed."""
        async for message in self._follow(topics.METADATA_UPDATE):
            if isinstance(message, SubscriptionConfirmed):
                yield None
            elif isinstance(message, SymbolMetadataUpdated):
                yield message

    async def _follow(self, topic: str) -> AsyncIterator[Message]:
        socket = self._context.socket(Kind.SUB)
        try:
            socket.connect([self._urls[1]])
            socket.subscribe(topic)
            while True:
                heard = _published(await socket.receive())
                if heard is not None and heard[0] == topic:
                    yield heard[1]
        finally:
            socket.close()

    async def _subscribe(self) -> None:
        """Hear what is said to this client, confirmed by the relay, before anything is asked; subscribed to once, as
        the relay hears of each subscription, but of one leaving."""
        if not self._subscribed:
            self._subscribed = True
            self._notices.subscribe(topics.response(self._id))
        try:
            async with asyncio.timeout(SUBMIT_S):
                await self._confirmed.wait()
        except TimeoutError:
            raise Unavailable(f"no relay answers at {self._urls[1]}: start it with `artery up`") from None

    async def _submit(self, asked: SubmitHistoricalRequest) -> None:
        deadline = time.monotonic() + NO_INGESTOR_S
        while True:
            answer = await self._ask(asked, SUBMIT_S)
            if not isinstance(answer, SubmitResponse) or answer.status == SubmitResponse.STATUS_UNSPECIFIED:
                raise Unavailable("the relay did not answer with a status")
            if answer.status == SubmitResponse.INVALID:
                raise BadInput(answer.error)
            if answer.status in (SubmitResponse.ACCEPTED, SubmitResponse.DUPLICATE):
                return
            if time.monotonic() > deadline:
                raise Unavailable(answer.error)
            await asyncio.sleep(random.uniform(0.5, 1.0))

    async def _resubmit(self, asked: SubmitHistoricalRequest) -> None:
        """Ask the same once more, with the same id: harmless where it is known, and needed where it was lost."""
        answer = await self._ask(asked, ANSWER_S)
        if isinstance(answer, SubmitResponse) and answer.status == SubmitResponse.INVALID:
            raise BadInput(answer.error)

    async def _outcome(
        self,
        asked: SubmitHistoricalRequest,
        future: "asyncio.Future[HistoryReadyNotification]",
        progress: Callable[[Progress], None],
    ) -> HistoryReadyNotification:
        unknown = 0
        while True:
            await asyncio.wait({future}, timeout=LOOK_S * random.uniform(0.8, 1.0))
            if future.done():
                return future.result()
            try:
                status = await self.status(asked.request_id)
                unknown = unknown + 1 if status.state == StatusResponse.UNKNOWN else 0
                if unknown and unknown % UNKNOWN_MAX == 0:
                    await self._resubmit(asked)
            except Unavailable:  # the request goes on, whoever is away
                continue
            if unknown:
                continue
            state = StatusResponse.State.Name(status.state).lower()
            progress(Progress(state, status.progress, status.rows, status.pages))
            if status.state == StatusResponse.DONE:
                return status.outcome

    async def _ask(self, message: Message, wait_s: float) -> Message:
        """The answer to a request, which is sent again while none comes."""
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline:
            number = secrets.token_bytes(8)
            future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
            self._answers[number] = future
            try:
                self._dealer.send([number, b"", *messages.write(message)])
                async with asyncio.timeout(ANSWER_S):
                    return await future
            except TimeoutError:
                continue
            finally:
                del self._answers[number]
        raise Unavailable(f"no relay answers at {self._urls[0]}: start it with `artery up`")

    async def _hear_answers(self) -> None:
        while True:
            frames = await self._dealer.receive()
            future = self._answers.get(frames[0]) if len(frames) == 4 else None
            if future is not None and not future.done():
                try:
                    future.set_result(messages.read(frames[2:]))
                except BadInput as error:
                    future.set_exception(Unavailable(f"the relay's answer cannot be read: {error}"))

    async def _hear_notices(self) -> None:
        while True:
            heard = _published(await self._notices.receive())
            if heard is None or heard[0] != topics.response(self._id):
                continue
            if isinstance(heard[1], SubscriptionConfirmed):
                self._confirmed.set()
            elif isinstance(heard[1], HistoryReadyNotification):
                future = self._outcomes.get(heard[1].request_id)
                if future is not None and not future.done():
                    future.set_result(heard[1])


def _published(frames: list[bytes]) -> tuple[str, Message] | None:
    """(topic, message); None where it cannot be read."""
    try:
        return frames[0].decode(), messages.read(frames[1:])
    except (BadInput, UnicodeDecodeError):
        return None
