"""The trimmer keeps streams to their caps."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from artery.bus.base import CAPS, DEAD, Trimmed
from artery.bus.sqlite import SqliteBus
from artery.bus.trimmer import run_trimmer, trim_all, trim_stream


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[SqliteBus]:
    made = SqliteBus(str(tmp_path / "bus.db"))
    yield made
    await made.close()


async def grown(bus: SqliteBus, stream: str, count: int) -> None:
    await bus.append(stream, [{"n": str(n)} for n in range(count)])


def lost(stream: str) -> float:
    return REGISTRY.get_sample_value("artery_bus_lost_total", {"stream": stream}) or 0.0


async def test_a_stream_is_trimmed_to_its_cap_and_shorter_ones_are_left_alone(bus: SqliteBus) -> None:
    await grown(bus, DEAD, CAPS[DEAD])
    await grown(bus, DEAD, 500)
    await grown(bus, "trade", 100)
    await grown(bus, "unknown", 100)
    assert await trim_all(bus) == {DEAD: Trimmed(removed=500, lost=0)}
    assert {state.name: state.length for state in await bus.streams()} == {DEAD: 100_000, "trade": 100, "unknown": 100}
    assert await trim_all(bus) == {}


async def test_a_paused_group_holds_the_trimmer_until_the_hard_cap_and_the_loss_is_counted(bus: SqliteBus) -> None:
    before = lost("trade")
    await bus.ensure_group("trade", "cg_storage_trade")
    await bus.ensure_group("trade", "cg_indicator_trade")
    await grown(bus, "trade", 350)
    assert await trim_stream(bus, "trade", cap=100) == Trimmed(removed=0, lost=0)
    await bus.ack_up_to("trade", "cg_storage_trade", "30")
    assert await trim_stream(bus, "trade", cap=100) == Trimmed(removed=30, lost=0)
    assert lost("trade") == before
    await grown(bus, "trade", 100)
    assert await trim_stream(bus, "trade", cap=100) == Trimmed(removed=20, lost=20)
    assert lost("trade") == before + 20
    assert [(state.length, state.lost) for state in await bus.streams()] == [(400, 20)]


async def test_what_no_reader_has_ever_asked_for_is_kept_until_the_hard_cap_and_then_counted(
    bus: SqliteBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stream in ("trade", "notify"):
        monkeypatch.setitem(CAPS, stream, 100)
        await grown(bus, stream, 350)
    assert await trim_all(bus) == dict.fromkeys(("notify", "trade"), Trimmed(removed=0, lost=0))
    for stream in ("trade", "notify"):
        await grown(bus, stream, 100)
    assert await trim_all(bus) == dict.fromkeys(("notify", "trade"), Trimmed(removed=50, lost=50))


async def test_a_request_stays_until_every_provider_has_acked_it(
    bus: SqliteBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CAPS, "request", 100)
    await grown(bus, "request", 200)
    for group, done in (("cg_ingest_request_sim", "60"), ("cg_ingest_request_binance", "30"), ("cg_mine", "10")):
        await bus.ensure_group("request", group)
        await bus.ack_up_to("request", group, done)
    assert await trim_all(bus) == {"request": Trimmed(removed=30, lost=0)}


async def test_it_runs_for_ever_and_survives_a_bus_that_is_away(tmp_path: Path, bus: SqliteBus) -> None:
    closed = SqliteBus(str(tmp_path / "other.db"))
    await closed.close()
    away = asyncio.create_task(run_trimmer(closed, every_s=0.01))
    task = asyncio.create_task(run_trimmer(bus, every_s=0.01))
    await grown(bus, DEAD, CAPS[DEAD])
    for _ in range(2):
        await grown(bus, DEAD, 10)
        deadline = time.monotonic() + 30
        while (await bus.streams())[0].length > CAPS[DEAD]:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
    assert not away.done()
    for running in (away, task):
        running.cancel()
    await asyncio.gather(away, task, return_exceptions=True)
