"""The pipeline as a process of its own: it says how it is, and nothing outlives it."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import msgspec
import psutil

from artery.bus.base import Bus
from artery.bus.open import open_bus
from artery.settings import Settings
from artery.store.open import open_store
from tests.pipeline.test_bars import trade
from tests.pipeline.test_running import BASE, MINUTE, market

DEADLINE_S = 120.0
RUN = "import sys; from artery.settings import Settings; from artery.pipeline.service import run_pipeline;"
RUN += " run_pipeline(Settings().with_(data={'dir': sys.argv[1]}))"


async def test_a_killed_pipeline_leaves_no_process_and_its_status_was_true(tmp_path: Path) -> None:
    settings = Settings().with_(data={"dir": str(tmp_path)})
    settings.folder.mkdir(parents=True)
    bus, store = open_bus(settings.bus_url()), open_store(settings.store_url())
    await market(bus, [trade(1, BASE + 1)], BASE + MINUTE)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", RUN, str(tmp_path))
    try:
        status = await _running(store.get, process)
        assert status["clock_ms"] == BASE + MINUTE
        assert status["trade_position"] == "1"
        assert len(await _candles(bus)) == 6
        family = psutil.Process(process.pid).children(recursive=True)
        assert any("java" in child.name() for child in family)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
    _, alive = await asyncio.to_thread(psutil.wait_procs, family, DEADLINE_S)
    assert alive == []
    await bus.close()
    await store.close()


async def _running(get: object, process: asyncio.subprocess.Process) -> dict[str, object]:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline and process.returncode is None:
        found = await get("artery:pipeline")  # type: ignore[operator]
        if found and (status := msgspec.json.decode(found))["state"] == "running":
            return dict(status)
        await asyncio.sleep(0.1)
    raise AssertionError("the pipeline did not run")


async def _candles(bus: Bus) -> set[str]:
    return {entry.fields["interval"] for entry in await bus.read("candle", limit=1_000)}
