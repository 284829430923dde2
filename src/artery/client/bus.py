"""The library of the stream bus: put events on it, read them from it.

async with StreamBus("redis://localhost:6379") as bus:
    await bus.publish({"t": "TRADE", "coin": "BTC", "ts": 1730000000789, "px": "43255", "sz": "0.12", "side": "B",
                       "eventTs": 1730000000800})

async with StreamBusConsumer("redis://localhost:6379", "md_stream", "cg_mine_candle", "worker-1") as consumer:
    async for event in consumer.events("candle"):
        print(event)

A URL is any that `ART_BUS_URL` takes.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from artery.bus.base import START, Bus
from artery.bus.open import open_bus
from artery.client.bus_consumer import StreamBusConsumer
from artery.client.bus_fields import Event, decode_stream_event, to_publish
from artery.errors import Unavailable

__all__ = ["Event", "StreamBus", "StreamBusConsumer", "decode_stream_event"]


class StreamBus:
    """A producer. It writes beside Artery's own writers, without an epoch: what it publishes is nobody's series."""

    def __init__(self, url: str, stream_base: str = "md_stream") -> None:
        self._url, self._base = url, stream_base
        self._bus: Bus | None = None

    async def connect(self) -> None:
        """Open the bus and see that it answers; safe to call again."""
        if self._bus is None:
            bus = open_bus(self._url, self._base)
            try:
                await bus.count_after("trade", START)
            except BaseException:
                await bus.close()
                raise
            self._bus = bus

    async def publish(self, event: Event | Mapping[str, Any]) -> str:
        """Put an event on the stream of its type; return its position once it is durable. `BadEvent` if it is none."""
        if self._bus is None:
            raise Unavailable("the stream bus is not connected: await connect() first")
        stream, fields = to_publish(event)
        [position] = await self._bus.append(stream, [fields])
        return position

    async def close(self) -> None:
        bus, self._bus = self._bus, None
        if bus is not None:
            await bus.close()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
