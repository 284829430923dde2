"""The processor's voice on ZeroMQ: ticks, candles, markets and the outcomes of requests, to every relay.

One long-lived socket beside the driver: it follows the log, so it publishes nothing that was not durable before.
"""

import asyncio
import heapq
import random
import time
from collections.abc import Mapping, Sequence

from google.protobuf.message import Message

from artery.bus.base import START, Bus, Entry
from artery.errors import ArteryError, BadEvent, BadInput, PositionLost, Unavailable
from artery.model import symbols
from artery.model.tickers import parse_ticker
from artery.pipeline import published
from artery.settings import Settings
from artery.store.base import Store
from artery.telemetry import counter, logger
from artery.wire import certificates, messages, metadata, relays, requests, topics
from artery.wire.listeners import Listeners
from artery.wire.sockets import SUBSCRIPTION_MAX, XPUB_VERBOSE, Context, Kind, Socket, show

GROUP, ME = "cg_publish_notify", "publisher"
SAY_AGAIN_S = (0.0, 1.0, 5.0, 30.0)
"""An outcome is said so long after it was made: a relay or a client may be away for a moment."""
WAITING_MAX = 20_000
LOOK_S, LOOK_FIRST_S = 5.0, 0.5
AGAIN_S = 1.0
_PAGE = 500

_SENT = counter("pipeline_published", "Messages handed to ZeroMQ, by type", "type")
_log = logger("pipeline")


async def run_publisher(bus: Bus, store: Store, settings: Settings) -> None:
    """Publish until cancelled; what fails is begun again, and never ends the pipeline."""
    while True:
        try:
            await _publish(bus, store, settings)
        except Exception as error:  # a bug too: candles matter more
            _log.error("publishing on ZeroMQ has failed and is begun again", exc_info=_first(error))
        await asyncio.sleep(AGAIN_S * random.uniform(0.5, 1.0))


async def _publish(bus: Bus, store: Store, settings: Settings) -> None:
    context = Context(show(certificates.carried(settings.relay.key)))
    try:
        await Publisher(bus, store, context, settings).run()
    finally:
        await context.close()


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class Publisher:
    """Follows the log and says what someone has subscribed to."""

    def __init__(self, bus: Bus, store: Store, context: Context, settings: Settings) -> None:
        self._bus = bus
        self._store = store
        self._settings = settings
        self._socket: Socket = context.socket(Kind.XPUB, frame_max=SUBSCRIPTION_MAX)
        self._socket.option(XPUB_VERBOSE, 1)
        self._listeners = Listeners()
        self._wanted: dict[str, bool] = {}

    async def run(self) -> None:
        heads = {stream: await self._bus.head(stream) for stream in ("trade", "candle", "symbol")}
        async with asyncio.TaskGroup() as group:
            group.create_task(self._find())
            group.create_task(self._listen())
            group.create_task(Outcomes(self._bus, self._socket).run())
            for stream, head in heads.items():
                group.create_task(self._follow(stream, head))

    async def _find(self) -> None:
        """Be connected to every relay that takes processors in; or listen, for relays that come by themselves."""
        url, carries_key = self._settings.pipeline.publish_url, bool(self._settings.relay.key)
        if url:
            self._socket.bind(url, "ART_PIPELINE_PUBLISH_URL")
            return
        while True:
            found: list[relays.Relay] = []
            try:
                known = relays.decode(await self._store.scan(relays.PREFIX, 100))
                found = relays.fitting(known, carries_key=carries_key)
                self._socket.connect(relay.processors for relay in found if relay.processors)
            except ArteryError as error:
                _log.warning("relays cannot be looked for", reason=str(error))
            await asyncio.sleep((LOOK_S if found else LOOK_FIRST_S) * random.uniform(0.8, 1.0))

    async def _listen(self) -> None:
        """Keep account of what is wanted; who asks for a market's metadata gets it at once."""
        while True:
            found = self._listeners.take(await self._socket.receive())
            if found is None:
                continue
            came, topic = found
            if not came:
                self._listeners.gone(topic)  # a relay says only that the last one left
            self._wanted.clear()
            for name in published.market_asked_for(topic.decode(errors="replace")) if came else ():
                await self._say_market(name)

    async def _say_market(self, name: str) -> None:
        try:
            provider, coin = parse_ticker(name)
        except BadInput:
            return
        symbol = symbols.read(await self._store.get(symbols.key(provider, coin)))
        if symbol is not None:
            self._send(topics.market(name), published.market(symbol))

    async def _follow(self, stream: str, after: str) -> None:
        """Say what is new, as far as someone wants it. What was lost on the way is seen by its `seq`."""
        while True:
            try:
                async for entries in self._bus.follow(stream, after, _PAGE):
                    for entry in entries:
                        self._say(entry)
                    after = entries[-1].id
                    await asyncio.sleep(0)
            except PositionLost:
                after = await self._bus.head(stream)

    def _say(self, entry: Entry) -> None:
        topic = published.topic_of(entry.fields)
        if topic and self._wants(topic):
            message = published.message_of(entry.fields, entry.id)
            if message is not None:
                self._send(topic, message)

    def _wants(self, topic: str) -> bool:
        known = self._wanted.get(topic)
        if known is None:
            known = self._wanted[topic] = self._listeners.wants(topic.encode())
        return known

    def _send(self, topic: str, message: object) -> None:
        self._socket.send(messages.publish(topic, message))  # type: ignore[arg-type]
        _SENT.labels(type(message).__name__).inc()


class Outcomes:
    """Says what is on `notify` on its topics, several times; it is acked once it was said for the last time."""

    def __init__(self, bus: Bus, socket: Socket) -> None:
        self._bus = bus
        self._socket = socket
        self._due: list[tuple[float, int, int]] = []
        self._entries: dict[int, Entry] = {}
        self._count = 0

    async def run(self) -> None:
        await self._bus.ensure_group("notify", GROUP)
        after = START
        while page := await self._bus.read_pending("notify", GROUP, ME, after, _PAGE):
            self._take(page)
            after = page[-1].id
        while True:
            await self._say_due()
            if len(self._entries) < WAITING_MAX:
                self._take(await self._bus.read_new("notify", GROUP, ME, _PAGE, self._wait_ms()))
            else:
                await asyncio.sleep(self._wait_ms() / 1_000)

    def _take(self, page: list[Entry]) -> None:
        for entry in page:
            self._count += 1
            self._entries[self._count] = entry
            heapq.heappush(self._due, (time.monotonic() + SAY_AGAIN_S[0], self._count, 0))

    def _wait_ms(self) -> int:
        left_s = self._due[0][0] - time.monotonic() if self._due else 1.0
        return int(min(1.0, max(0.001, left_s)) * 1_000) + 1

    async def _say_due(self) -> None:
        over: list[str] = []
        while self._due and self._due[0][0] <= time.monotonic():
            _, number, times = heapq.heappop(self._due)
            entry = self._entries[number]
            said = self._say(entry)
            if said and times + 1 < len(SAY_AGAIN_S):
                wait_s = SAY_AGAIN_S[times + 1] - SAY_AGAIN_S[times]
                heapq.heappush(self._due, (time.monotonic() + wait_s, number, times + 1))
            else:
                over.append(self._entries.pop(number).id)
        if over:
            await self._bus.ack("notify", GROUP, over)

    def _say(self, entry: Entry) -> bool:
        """Whether it is ours to say; whatever else is on `notify` is others' to deliver."""
        try:
            said = notice_of(entry.fields)
        except BadEvent as error:
            _log.warning("a notice cannot be read", position=entry.id, reason=str(error))
            return False
        if said is None:
            return False
        message, names = said
        for topic in names:
            if not self._socket.send(messages.publish(topic, message)):
                raise Unavailable("the socket to the relays does not take a notice")
        _SENT.labels(type(message).__name__).inc()
        return True


def notice_of(fields: Mapping[str, str]) -> tuple[Message, Sequence[str]] | None:
    """What an entry of `notify` says, and on which topics; None if it is not for ZeroMQ's clients."""
    if fields.get("kind") == metadata.KIND:
        return metadata.decode(fields), (topics.METADATA_UPDATE,)
    if fields.get("kind") != "history":
        return None
    outcome = requests.decode_outcome(fields)
    return outcome, requests.topics_of(outcome.request_id, outcome.client_id)
