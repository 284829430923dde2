"""A venue that says what a test tells it to, a bus that fails when told to, and a feed around them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from artery.bus.base import Entry
from artery.bus.open import open_bus
from artery.errors import ArteryError, Unavailable
from artery.ingest.feed import serve_term
from artery.ingest.parts import Parts, Pauses
from artery.live.base import Message
from artery.live.memory import MemoryPubSub
from artery.model.events import Candle, Trade
from artery.model.periods import DERIVED, Period
from artery.providers.base import Market, Signal, Up
from artery.settings import Settings
from artery.store.open import open_store
from tests.ingest.make import T0

DEADLINE_S = 30.0


async def until(condition: Callable[[], Awaitable[Any]], what: str, pause_s: float = 0.005) -> Any:
    """The condition's value, once it is true."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE_S
    while loop.time() < deadline:
        if value := await condition():
            return value
        await asyncio.sleep(pause_s)
    raise AssertionError(f"not within {DEADLINE_S:g} s: {what}")


class ScriptedVenue:
    """Everyone who listens hears what was said since; candles are made up from their start."""

    provider = "sim"
    markets_max = 480

    def __init__(self, coins: Sequence[str]) -> None:
        self.followed: tuple[str, ...] = ()
        self.coins = tuple(coins)
        self.ticks: dict[str, Decimal] = {}
        self.listening = 0
        self.asked: list[tuple[str, str, int, int]] = []
        self.now_ms = T0
        self.rest_error: ArteryError | None = None
        self.fail_after: int | None = None
        self.markets_hang = False
        self.hung = 0
        self._ears: list[asyncio.Queue[Signal]] = []

    def say(self, *signals: Signal) -> None:
        for ear in self._ears:
            for signal in signals:
                ear.put_nowait(signal)

    def unheard(self) -> int:
        """How much of what was said nobody has taken yet."""
        return sum(ear.qsize() for ear in self._ears)

    async def listen(self, coins: Sequence[str]) -> AsyncIterator[Signal]:
        ear: asyncio.Queue[Signal] = asyncio.Queue()
        self._ears.append(ear)
        self.listening += 1
        try:
            while True:
                yield await ear.get()
        finally:
            self._ears.remove(ear)
            self.listening -= 1

    def follow(self, coins: Sequence[str]) -> None:
        self.followed = tuple(coins)

    async def markets(self) -> list[Market]:
        if self.markets_hang:
            self.hung += 1
            await asyncio.Event().wait()
        if self.rest_error:
            raise self.rest_error
        step = Decimal("0.001")
        return [Market("sim", coin, coin, "USDC", self.ticks.get(coin, Decimal("0.10")), step) for coin in self.coins]

    async def candles(self, coin: str, period: Period, start_ms: int, end_ms: int) -> list[Candle]:
        self.asked.append((coin, str(period), start_ms, end_ms))
        if self.rest_error:
            raise self.rest_error
        if self.fail_after is not None and len(self.asked) > self.fail_after:
            raise Unavailable("away for good")
        first = -(-start_ms // period.ms) * period.ms
        return [self.candle(coin, period, at) for at in range(first, end_ms, period.ms)]

    def candle(self, coin: str, period: Period, start_ms: int) -> Candle:
        price = Decimal(1 + start_ms // period.ms % 1_000)
        return Candle(
            provider="sim",
            event_ts=self.now_ms,
            coin=coin,
            period=period,
            start_ts=start_ms,
            o=price,
            h=price,
            l=price,
            c=price,
            v=Decimal(1),
            n=1,
            closed=start_ms + period.ms <= self.now_ms,
        )

    async def recent_trades(self, coin: str) -> list[Trade]:
        return []

    def periods(self) -> Sequence[Period]:
        return DERIVED

    async def close(self) -> None:
        self._ears.clear()


class TroubledBus:
    """A bus over another that can be told to fail, and that writes down what happened in what order."""

    def __init__(self, bus: Any) -> None:
        self._bus = bus
        self.away = False
        self.fail_after_writing = 0
        self.happened: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def append(
        self, stream: str, entries: Sequence[Mapping[str, str]], *, writer: str = "", epoch: int = 0
    ) -> list[str]:
        if self.away:
            raise Unavailable("the disk is full: make room")
        positions: list[str] = await self._bus.append(stream, entries, writer=writer, epoch=epoch)
        self.happened += [(f"append {stream}", fields.get("tid", "")) for fields in entries]
        if self.fail_after_writing and entries:
            self.fail_after_writing -= 1
            raise Unavailable("the answer was lost")
        return positions


class RecordingPubSub(MemoryPubSub):
    """Pub/sub that writes down what was published, in the same list as the bus."""

    def __init__(self, happened: list[tuple[str, str]]) -> None:
        super().__init__()
        self.messages: list[Message] = []
        self._happened = happened

    async def publish(self, messages: Sequence[Message]) -> None:
        self._happened += [(f"publish {message.series}", message.position) for message in messages]
        self.messages += messages
        await super().publish(messages)


class Stage:
    """Real SQLite bus and store, a scripted venue, and a wall clock that the test moves."""

    def __init__(self, folder: Path, coins: Sequence[str] = ("BTC", "ETH"), **ingest: Any) -> None:
        self.settings = Settings().with_(ingest={"provider": "sim", "markets": tuple(coins)} | ingest)
        self.bus = TroubledBus(open_bus(f"sqlite:///{folder}/bus.db"))
        self.store = open_store(f"sqlite:///{folder}/store.db")
        self.pubsub = RecordingPubSub(self.bus.happened)
        self.venue = ScriptedVenue(coins)
        self.parts = self.parts_with(self.settings)

    def parts_with(self, settings: Settings) -> Parts:
        pauses = Pauses(beat_s=0.002, look_s=0.005, ask_s=0.0, status_s=0.02, demand_s=0.02)
        now_ms = lambda: self.venue.now_ms  # noqa: E731 (both clocks are the venue's)
        return Parts(settings, self.bus, self.pubsub, self.store, self.venue, now_ms, pauses, steady_ms=now_ms)

    @property
    def now_ms(self) -> int:
        return self.venue.now_ms

    async def advance(self, ms: int, step_ms: int = 250) -> None:
        """Let the wall clock go on in steps that the feed's tasks can see."""
        for _ in range(0, ms, step_ms):
            self.venue.now_ms += step_ms
            await asyncio.sleep(0.005)

    async def advance_until(self, condition: Callable[[], Awaitable[Any]], what: str) -> Any:
        """Let the wall clock go on until the condition holds."""

        async def step() -> Any:
            await self.advance(250)
            return await condition()

        return await until(step, what)

    async def clocks(self) -> list[int]:
        """The times that the clock has said."""
        return [int(entry.fields["ts"]) for entry in await self.entries("feed", "CLOCK")]

    async def clock_beyond(self, ms: int) -> int:
        """The newest time that the clock has said, once it is later than this."""

        async def beyond() -> int:
            newest = max(await self.clocks(), default=0)
            return newest if newest > ms else 0

        newest: int = await self.advance_until(beyond, "the clock goes on")
        return newest

    @asynccontextmanager
    async def term(self, epoch: int, cause: str = "restart", *, up: bool = True) -> AsyncIterator[asyncio.Task[None]]:
        """A leader's term, up and running; it ends with the block."""
        before = self.venue.listening
        task = asyncio.create_task(serve_term(self.parts, epoch, cause))

        async def listening() -> bool:
            if task.done():
                task.result()
            return self.venue.listening > before

        await until(listening, "the feed listens")
        try:
            if up:
                self.venue.say(Up(self.venue.coins, self.now_ms))
            yield task
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def entries(self, stream: str, t: str = "") -> list[Entry]:
        found = await self.bus.read(stream, limit=100_000)
        return [entry for entry in found if not t or entry.fields["t"] == t]

    async def tids(self) -> list[str]:
        return [entry.fields["tid"] for entry in await self.entries("trade")]

    async def written(self, count: int) -> list[str]:
        """The trades on the bus, once there are so many."""

        async def enough() -> bool:
            return len(await self.tids()) >= count

        await until(enough, f"{count} trades on the bus")
        return await self.tids()

    async def marks(self, count: int = 1) -> list[dict[str, str]]:
        """The marks on the bus, once there are so many."""

        async def enough() -> bool:
            return len(await self.entries("feed", "MARK")) >= count

        await until(enough, f"{count} marks")
        return [entry.fields for entry in await self.entries("feed", "MARK")]

    async def close(self) -> None:
        await self.bus.close()
        await self.store.close()
