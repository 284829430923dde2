"""A process that ingests, as `artery run` starts it, but with a wall clock that tests can set.

`python -m tests.faults.feed SHIFT`: settings come from the environment. SHIFT names a file that holds by how many
seconds this process's wall clock is wrong; it may change at any time. An empty name leaves the clock alone.
"""

import sys
import time
from pathlib import Path


def shift_clock(file: str) -> None:
    """Before anything of Artery is imported, because some of it takes the clock at import."""
    real, real_ns = time.time, time.time_ns
    seen: list[float] = [-1.0, 0.0]

    def shift() -> float:
        if time.monotonic() - seen[0] > 0.05:
            seen[:] = [time.monotonic(), float(Path(file).read_text() or 0)]
        return seen[1]

    time.time = lambda: real() + shift()
    time.time_ns = lambda: real_ns() + int(shift() * 1_000_000_000)


def main(file: str) -> None:
    if file:
        shift_clock(file)
    import asyncio
    import contextlib
    import os
    import signal

    from prometheus_client import generate_latest

    from artery import crash
    from artery.app.wiring import opened
    from artery.ingest.parts import Parts
    from artery.ingest.service import Service
    from artery.live.leader import PAUSE_S
    from artery.providers.open import open_venue
    from artery.settings import load
    from artery.telemetry import set_up_logs

    pauses = os.environ.pop("FAULT_PAUSES", "")  # how long a contender rests, if not as long as usual
    settings = load(os.environ)
    set_up_logs(settings.log.level)
    crash.arm(settings.crash.point)

    async def ingest() -> None:
        async with opened(settings) as rooms:
            venue = open_venue(settings)
            parts = Parts(settings, rooms.bus, rooms.pubsub, rooms.store, venue)
            low, high = map(float, pauses.split()) if pauses else PAUSE_S
            try:
                await Service(parts, rooms.lock, (low, high)).run()
            finally:
                await venue.close()

    async def until_stopped() -> None:
        task = asyncio.ensure_future(ingest())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(until_stopped())
    said = generate_latest().decode().splitlines()
    print("\n".join(line for line in said if line.startswith("artery_provider_")))


if __name__ == "__main__":
    main(sys.argv[1])
