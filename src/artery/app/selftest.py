"""`artery selftest`: all of Artery in a temporary folder, walked through as its users would."""

import asyncio
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import msgspec

from artery.app.journeys import Journeys, need
from artery.app.processes import carrying
from artery.errors import ArteryError, Unavailable
from artery.settings import RELAY_PORTS, Settings

MARKETS, HISTORY_DAYS = ("BTC", "ETH"), 1.0
"""What it boots with: enough for every journey, and little to wait for."""
STOP_S = 10.0
AGAIN_S = 0.2


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
        data={"dir": str(folder)},
        gateway={"port": 0},
        sim={"port": 0},
        ingest={"markets": MARKETS, "history_days": HISTORY_DAYS},
        relay=dict.fromkeys(RELAY_PORTS, 0),
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
        for name, within_s, look in Journeys(self._settings).steps():
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
        error = "it did not happen in time"
        while True:
            try:
                async with asyncio.timeout(end - time.monotonic()):
                    await look()
                return ""
            except TimeoutError:
                pass  # what was wrong the last time says more
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

    async def _stops(self) -> None:
        self._process.send_signal(signal.SIGINT)
        try:
            code = await asyncio.to_thread(self._process.wait, STOP_S)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"it did not stop within {STOP_S:.0f} s") from None
        need(code == 0, f"`artery up` ended with code {code}: {self._last_words()}")
        left = carrying(f"ART_DATA_DIR={self._settings.data.dir}")
        need(not left, f"processes were left behind: {', '.join(map(str, left))}")
