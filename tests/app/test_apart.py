"""Ingest and gateway as processes of their own on the embedded default: one leads, the next follows a clean stop."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from artery.client import Artery
from artery.model.events import Book, Trade
from tests.cli.command import artery, environment
from tests.journeys.apart import Service, leads
from tests.journeys.waiting import until


async def test_a_clean_stop_hands_over_and_a_gateway_without_pubsub_follows_the_log(tmp_path: Path) -> None:
    environ = environment(tmp_path, ART_INGEST_MARKETS="BTC", ART_INGEST_LOCK_TTL_S="300", ART_INGEST_HISTORY_DAYS="0")
    services: dict[str, Service] = {}

    def start(as_: str, name: str) -> Service:
        services[as_] = Service(name, tmp_path, environ)
        return services[as_]

    try:
        start("sim", "sim")
        note = tmp_path / "sim" / "run" / "sim.json"
        await until("the venue", so(note.exists))
        environ["ART_SIM_PORT"] = note.read_text().rpartition(":")[2].strip('"}')
        first = start("first", "ingest")
        await until("a leader", so(lambda: leads(first)))
        second = start("second", "ingest")
        gateway = start("gateway", "gateway")
        await seen(tmp_path, gateway, 0)

        assert first.stop() == 0
        await until("the other one to lead", so(lambda: leads(second)), within_s=60)  # the lock's TTL is 300 s
        stopped_ms = max_event_ms(await seen(tmp_path, gateway, 0))
        await seen(tmp_path, gateway, stopped_ms)
        assert artery("open", "--json", folder=tmp_path).code == 0, "commands find a gateway that runs alone"
        assert gateway.stop() == 0
        assert second.stop() == 0
        assert "Traceback" not in "".join(service.log.read_text() for service in services.values())
    finally:
        for service in services.values():
            if service.runs():
                service.kill()


def so(condition: Callable[[], object]) -> Callable[[], object]:
    async def look() -> object:
        return condition()

    return look


async def seen(folder: Path, gateway: Service, since_ms: int) -> list[Trade | Book]:
    """Live trades and a book, all newer than `since_ms`."""
    note = folder / "sim" / "run" / "gateway.json"
    await until("the gateway", so(lambda: note.exists() or not gateway.runs()))
    url = note.read_text().partition('"url":"')[2].partition('"')[0]
    found: list[Trade | Book] = []
    async with asyncio.timeout(60), Artery(url, (folder / "sim" / "key").read_text().strip()) as client:
        async for event in client.stream("SIM:BTC", types=["TRADE", "BOOK_TOPN"]):
            if isinstance(event, Trade | Book) and event.event_ts > since_ms:
                found.append(event)
            kinds = [type(event) for event in found]
            if kinds.count(Trade) >= 2 and kinds.count(Book) >= 2:
                return found
    raise AssertionError("the stream ended")


def max_event_ms(events: list[Trade | Book]) -> int:
    return max(event.event_ts for event in events)
