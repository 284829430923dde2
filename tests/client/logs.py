"""Logs for the library's tests, and what is done with them in most."""

from typing import NamedTuple

from artery.client.bus import StreamBus, StreamBusConsumer

CANDLE = {
    "t": "CANDLE", "coin": "BTC", "interval": "1m", "startTs": 1_730_000_040_000, "o": "43210", "h": "43280",
    "l": "43190", "c": "43250", "v": "123.45", "isClosed": False, "eventTs": 1_730_000_040_456,
}  # fmt: skip


class Log(NamedTuple):
    """Where a log is, and the base of its streams."""

    url: str
    base: str = "md_stream"


def consumer(log: Log, name: str = "worker-1", **more: int) -> StreamBusConsumer:
    return StreamBusConsumer(*log, "cg_mine_candle", name, **more)


async def published(log: Log, *coins: str) -> None:
    async with StreamBus(*log) as bus:
        for coin in coins:
            await bus.publish(CANDLE | {"coin": coin})
