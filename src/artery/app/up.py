"""`artery up`: everything on this machine, started, watched and stopped together."""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from artery.app import machine, preflight
from artery.app.notes import last_beat, read_note, remove_notes
from artery.app.supervisor import Service, Supervisor
from artery.app.wiring import opened_store
from artery.gateway.keys import make_start_code
from artery.settings import Settings

PIPELINE_NICENESS = 5
LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class Ready:
    """The gateway answers: where to look."""

    url: str
    link: str
    folder: Path
    simulated: bool
    page: bool


def up(
    settings: Settings,
    environ: Mapping[str, str],
    say: Callable[[str, str], None],
    ready: Callable[[Ready], None],
) -> None:
    """Run all of Artery until SIGINT or SIGTERM; `CannotStart` if this machine lacks something."""
    preflight.check(settings, environ)
    with preflight.only_one(settings.folder):
        remove_notes(settings.folder)
        house = _House(settings, environ, say, ready)
        loud = settings.log.level.lower() == "debug"
        supervisor = Supervisor(house.services(), settings.folder / "logs", say, everything=loud)
        supervisor.run(each=lambda: house.look(supervisor))


async def start_link(settings: Settings, url: str) -> str:
    """A link that opens the page once, within five minutes."""
    async with opened_store(settings) as store:
        return f"{url}/#start={await make_start_code(store)}"


class _House:
    """The services of one folder, and what has been learnt of them since they started."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        say: Callable[[str, str], None],
        ready: Callable[[Ready], None],
    ) -> None:
        self._settings = settings.with_(data={"dir": str(settings.folder.parent)})
        self._others = {name: value for name, value in environ.items() if not name.startswith("ART_")}
        self._say, self._ready = say, ready
        self._venue_up = not settings.simulated
        self._told = self._candles = False
        self._looked = 0.0

    def services(self) -> list[Service]:
        """The slowest one starts first; serve waits for the venue, so that it need not try twice."""
        found = [self._service("pipeline", start_s=180.0, silence_s=90.0, niceness=PIPELINE_NICENESS)]
        if self._settings.simulated:
            found.append(self._service("sim"))
        return [*found, self._service("serve", may_start=lambda: self._venue_up)]

    def look(self, supervisor: Supervisor) -> None:
        """See what has become ready, and say it once."""
        if not self._venue_up:
            self._see_venue(supervisor.pid("sim"))
        if not self._told:
            self._see_gateway(supervisor.pid("serve"))
        elif not self._candles and time.monotonic() - self._looked > LOOK_S:
            self._looked = time.monotonic()
            self._candles = asyncio.run(self._pipeline_runs())
            if self._candles:
                self._say("artery", "candles are live")

    def _service(
        self,
        name: str,
        *,
        start_s: float = 60.0,
        silence_s: float = 30.0,
        niceness: int = 0,
        may_start: Callable[[], bool] = lambda: True,
    ) -> Service:
        return Service(
            name,
            (sys.executable, "-m", "artery", "run", name),
            self._environment,
            partial(last_beat, self._settings.folder, name),
            may_start,
            start_s,
            silence_s,
            niceness,
        )

    def _environment(self) -> dict[str, str]:
        return {**self._others, **self._settings.environment(), "PYTHONUNBUFFERED": "1"}

    def _see_venue(self, pid: int) -> None:
        note = read_note(self._settings.folder, "sim")
        if note and note.pid == pid:
            self._settings = self._settings.with_(sim={"port": _port(note.url)})  # it keeps its port when restarted
            self._venue_up = True

    def _see_gateway(self, pid: int) -> None:
        note = read_note(self._settings.folder, "serve")
        if not note or note.pid != pid:
            return
        self._settings = self._settings.with_(gateway={"port": _port(note.url)})
        link = asyncio.run(start_link(self._settings, note.url))
        simulated, has_page = self._settings.simulated, machine.page() is not None
        self._ready(Ready(note.url, link, self._settings.folder, simulated, has_page))
        self._told = True

    async def _pipeline_runs(self) -> bool:
        async with opened_store(self._settings) as store:
            raw = await store.get("artery:pipeline")
        return raw is not None and msgspec.json.decode(raw).get("state") == "running"


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])
