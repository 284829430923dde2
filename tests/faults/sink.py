"""A process that reads a stream, as one of a group or by itself, and records every event that it sees.

`python -m tests.faults.sink JOB`; SIGTERM ends it.
"""

import asyncio
import contextlib
import random
import signal
import sys
import time
from typing import Any

import msgspec

from artery import crash
from artery.bus.base import START, Bus, Entry
from artery.bus.consume import Pace, consume
from artery.bus.open import open_bus
from artery.errors import ArteryError, BadEvent, PositionLost
from tests.faults.records import Line, Record, lines

AGAIN_S = 0.1


class Job(msgspec.Struct):
    """What to read and where to record it; without a group it follows the stream."""

    url: str
    base: str
    stream: str
    file: str
    group: str = ""
    consumer: str = ""
    page: int = 50
    idle_ms: int = 1_500
    handle_ms: float = 0.0
    crash: str = ""


class Told:
    """A bus whose losses are recorded; everything else is the bus's own."""

    def __init__(self, bus: Bus, record: Record) -> None:
        self._bus = bus
        self._record = record

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._bus, name)

        async def told(*args: Any, **kwargs: Any) -> Any:
            try:
                return await call(*args, **kwargs)
            except PositionLost as lost:
                self._record.say(Line(gap=str(lost)))
                raise

        return told


async def share(job: Job, bus: Bus, record: Record) -> None:
    """Consume as one of a group; entries say by themselves how their handling goes."""

    async def handle(entry: Entry) -> None:
        fate = entry.fields.get("fate", "")
        if fate == "undecodable":
            raise BadEvent("this entry cannot be decoded")
        if fate == "failing":
            raise ValueError("this entry cannot be handled")
        await asyncio.sleep(job.handle_ms / 1_000)
        record.say(Line(seen=entry.fields["id"], position=entry.id, at_ms=int(time.time() * 1_000)))

    pace = Pace(page=job.page, wait_ms=500, retry_s=0.05, retry_max_s=0.5, idle_ms=job.idle_ms)
    await consume(Told(bus, record), job.stream, job.group, job.consumer, handle, pace=pace)  # type: ignore[arg-type]


async def follow(job: Job, bus: Bus, record: Record) -> None:
    """Read everything in order, from where this record ends; a loss is recorded, and it goes on behind it."""
    after = next((line.position for line in reversed(list(lines(job.file))) if line.seen), START)
    while True:
        try:
            async for page in bus.follow(job.stream, after):
                record.say(*(Line(seen=entry.fields["id"], position=entry.id) for entry in page))
                after = page[-1].id
        except PositionLost as lost:
            record.say(Line(gap=str(lost)))
            after = lost.first
        except ArteryError as error:
            if not error.temporary:
                raise
            await asyncio.sleep(AGAIN_S * random.uniform(0.5, 1.0))


async def main(job: Job) -> None:
    crash.arm(job.crash)
    bus, record = open_bus(job.url, job.base), Record(job.file)
    task = asyncio.ensure_future(share(job, bus, record) if job.group else follow(job, bus, record))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await bus.close()


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Job)))
