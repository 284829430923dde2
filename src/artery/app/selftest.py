"""`artery selftest`: all of Artery in a temporary folder, walked through as its users would."""

import asyncio
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import msgspec

from artery.app.notes import read_note
from artery.app.processes import carrying
from artery.bus.open import open_bus
from artery.client import Artery
from artery.errors import ArteryError, Unavailable
from artery.lake.reads import Lake
from artery.model.events import Candle, Trade
from artery.model.tickers import ticker
from artery.settings import RELAY_PORTS, Settings

STOP_S = 10.0
AGAIN_S = 0.2
PAST_ROWS_MIN = 30
LATEST_MS = 2**42


class Step(msgspec.Struct, frozen=True):
    """One step of the walk, how long it took, and why it failed if it did."""

    step: str
    ok: bool
    ms: int
    error: str = ""

    def row(self) -> dict[str, object]:
        row: dict[str, object] = {"step": self.step, "ok": self.ok, "ms": self.ms}
        return row if self.ok else row | {"error": self.error}


def run(
    settings: Settings,
    environ: Mapping[str, str],
    tell: Callable[[Step], None],
    progress: Callable[[str], AbstractContextManager[object]],
) -> list[Step]:
    """Walk every step; a failed one ends the walk, and what was started is stopped in any case."""
    folder = Path(tempfile.mkdtemp(prefix="artery-selftest-"))
    wanted = Settings(log=settings.log, pipeline=settings.pipeline).with_(
        data={"dir": str(folder)}, gateway={"port": 0}, sim={"port": 0}, relay=dict.fromkeys(RELAY_PORTS, 0)
    )
    steps = asyncio.run(_Walk(wanted, environ, tell, progress).walk())
    if all(step.ok for step in steps):
        shutil.rmtree(folder, ignore_errors=True)
    else:
        steps[-1] = msgspec.structs.replace(steps[-1], error=f"{steps[-1].error} (its data and logs: {folder})".strip())
    return steps


class _Walk:
    """The steps over one started Artery. Each is tried again and again until its time is over."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        tell: Callable[[Step], None],
        progress: Callable[[str], AbstractContextManager[object]],
    ) -> None:
        self._settings, self._tell, self._progress = settings, tell, progress
        self._console = Path(settings.data.dir) / "console.log"
        others = {name: value for name, value in environ.items() if not name.startswith("ART_")}
        with self._console.open("wb") as console:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "artery", "up"],
                env=others | settings.environment() | {"CI": "true"},  # no browser is opened
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
            )
        self._coin = settings.ingest.markets[0]
        self._ticker = ticker(settings.ingest.provider, self._coin)
        self._lake = Lake(settings.folder)
        self._steps: list[Step] = []

    async def walk(self) -> list[Step]:
        try:
            await self._walk()
        finally:
            await self._step("clean stop", STOP_S + 5, self._stops, only_once=True)
            if self._process.poll() is None:
                self._process.kill()  # its services end with it
        return self._steps

    async def _walk(self) -> None:
        for name, within_s, look in (
            ("gateway answers", 60.0, self._gateway_answers),
            ("venue connected", 60.0, self._venue_connected),
            ("first trade on the bus", 30.0, self._trade_on_the_bus),
            ("first trade at a WebSocket client", 30.0, self._trade_at_a_client),
            ("first candle at a WebSocket client", 180.0, self._candle_at_a_client),
            ("candle closed", 150.0, self._candle_closed),
            ("row in the lake", 120.0, self._rows_in_the_lake),
            ("history read", 120.0, self._history_read),
        ):
            if not await self._step(name, within_s, look):
                return

    async def _step(
        self, name: str, within_s: float, look: Callable[[], Awaitable[None]], *, only_once: bool = False
    ) -> bool:
        began = time.monotonic()
        with self._progress(name):
            error = await self._try(look, began + within_s, only_once=only_once)
        step = Step(name, not error, round((time.monotonic() - began) * 1_000), error)
        self._steps.append(step)
        self._tell(step)
        return step.ok

    async def _try(self, look: Callable[[], Awaitable[None]], end: float, *, only_once: bool) -> str:
        """Empty once `look` has gone through, else why it did not in time."""
        while True:
            try:
                async with asyncio.timeout(end - time.monotonic()):
                    await look()
                return ""
            except TimeoutError:
                error = "it did not happen in time"
            except (ArteryError, OSError, httpx.HTTPError, msgspec.MsgspecError, LookupError) as problem:
                error = str(problem) or type(problem).__name__
            if only_once or time.monotonic() > end:
                return error
            if self._process.poll() is not None:
                return f"`artery up` ended with code {self._process.returncode}: {self._last_words()}"
            await asyncio.sleep(AGAIN_S)

    def _last_words(self) -> str:
        lines = self._console.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def _client(self) -> Artery:
        note = read_note(self._settings.folder, "serve")
        if note is None or not note.url:
            raise Unavailable("the gateway has not started")
        return Artery(note.url, (self._settings.folder / "key").read_text().strip())

    async def _gateway_answers(self) -> None:
        async with self._client() as client:
            _need(await client.markets(), "the gateway serves no markets")

    async def _venue_connected(self) -> None:
        note = read_note(self._settings.folder, "serve")
        key = (self._settings.folder / "key").read_text().strip()
        async with httpx.AsyncClient(trust_env=False, timeout=5.0) as http:
            answer = await http.get(f"{note.url if note else ''}/readyz", headers={"Authorization": f"Bearer {key}"})
        states = [feed["state"] for feed in msgspec.json.decode(answer.content)["feeds"]]
        _need("live" in states, f"the feed is {', '.join(states) or 'not there'}")

    async def _trade_on_the_bus(self) -> None:
        bus = open_bus(self._settings.bus_url(), self._settings.bus.base)
        try:
            _need(await bus.read("trade", limit=1), "no trade is on the bus")
        finally:
            await bus.close()

    async def _trade_at_a_client(self) -> None:
        await self._until(["TRADE"], lambda event: isinstance(event, Trade))

    async def _candle_at_a_client(self) -> None:
        await self._until(["CANDLE:1m"], lambda event: isinstance(event, Candle))

    async def _candle_closed(self) -> None:
        await self._until(["CANDLE:1m"], lambda event: isinstance(event, Candle) and event.closed)

    async def _until(self, types: list[str], wanted: Callable[[object], bool]) -> None:
        async with self._client() as client:
            events: AsyncIterator[object] = client.stream(self._ticker, types=types)
            async for event in events:
                if wanted(event):
                    return

    async def _rows_in_the_lake(self) -> None:
        trades = await asyncio.to_thread(self._lake.trades, self._ticker, 0, LATEST_MS, 1)
        candles = await asyncio.to_thread(self._lake.candles, self._ticker, 60, 0, LATEST_MS, 1)
        _need(trades.num_rows, "no trade is in the lake")
        _need(candles.num_rows, "no candle is in the lake")

    async def _history_read(self) -> None:
        async with self._client() as client:
            rows = (await client.history(self._ticker, "1m", since="2h")).num_rows
        _need(rows >= PAST_ROWS_MIN, f"only {rows} candles of the last two hours can be read")

    async def _stops(self) -> None:
        self._process.send_signal(signal.SIGINT)
        try:
            code = await asyncio.to_thread(self._process.wait, STOP_S)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"it did not stop within {STOP_S:.0f} s") from None
        _need(code == 0, f"`artery up` ended with code {code}: {self._last_words()}")
        left = carrying(f"ART_DATA_DIR={self._settings.data.dir}")
        _need(not left, f"processes were left behind: {', '.join(map(str, left))}")


def _need(condition: object, otherwise: str) -> None:
    if not condition:
        raise Unavailable(otherwise)
