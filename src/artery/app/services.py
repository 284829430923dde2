"""`artery run <service>`: each of them as a process of its own, until it is told to stop."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from artery.app.heap import settle
from artery.app.notes import Beat, Note, write_note
from artery.errors import BadInput
from artery.settings import Settings
from artery.telemetry import logger

_UP_S = 5.0
"""By then a service is up."""

_log = logger("app")


def run(name: str, settings: Settings) -> None:
    """Run a service in this process until SIGTERM or SIGINT."""
    if name not in SERVICES:
        raise BadInput(f"{name!r:.40} is not a service; there are {', '.join(SERVICES)}")
    settings.folder.mkdir(parents=True, exist_ok=True)
    SERVICES[name](settings)


def _run_sim(settings: Settings) -> None:
    from artery.providers.sim.service import run_sim

    def ready(port: int) -> None:
        write_note(settings.folder, Note("sim", os.getpid(), f"http://127.0.0.1:{port}"))

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(Beat(settings.folder, "sim").for_ever())
            group.create_task(run_sim(settings, ready=ready))

    _until_stopped(both)


def _run_serve(settings: Settings) -> None:
    from artery.app.serve import serve

    _until_stopped(lambda: serve(settings))


def _run_ingest(settings: Settings) -> None:
    from artery.app.serve import serve_ingest

    _until_stopped(lambda: serve_ingest(settings))


def _run_gateway(settings: Settings) -> None:
    from artery.app.serve import serve_gateway

    _until_stopped(lambda: serve_gateway(settings))


def _run_relay(settings: Settings) -> None:
    from artery.app.relaying import serve_relay

    _until_stopped(lambda: serve_relay(settings))


def _run_engine(settings: Settings) -> None:
    from artery.app.computing import serve_engine

    _until_stopped(lambda: serve_engine(settings))


def _run_pipeline(settings: Settings) -> None:
    from artery.pipeline.service import run_pipeline

    run_pipeline(settings, alive=Beat(settings.folder, "pipeline"))


def _until_stopped(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run on uvloop; the first signal cancels `main`, which then has the time to close what it opened."""
    import uvloop

    async def guarded() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(main())

        def stop() -> None:
            if not task.cancelling():  # a second signal must not break off the closing
                task.cancel()

        loop.set_exception_handler(_tell)
        for one in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(one, stop)
        loop.call_later(_UP_S, settle)
        try:
            await task
        except asyncio.CancelledError:
            return

    uvloop.run(guarded())


def _tell(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What nobody waited for and failed: one line in the log."""
    _log.error("something failed in the background", what=context.get("message"), exc_info=context.get("exception"))


SERVICES: dict[str, Callable[[Settings], None]] = {
    "sim": _run_sim,
    "serve": _run_serve,
    "ingest": _run_ingest,
    "gateway": _run_gateway,
    "relay": _run_relay,
    "engine": _run_engine,
    "pipeline": _run_pipeline,
}
