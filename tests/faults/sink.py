"""A process that reads a stream, as one of a group (by the library's loop) or by itself, and records what it sees.

`python -m tests.faults.sink JOB`; SIGTERM ends it.
"""

import asyncio
import contextlib
import os
import random
import signal
import sys
import time

import msgspec

from artery import crash
from artery.bus.base import START, Bus
from artery.bus.open import open_bus
from artery.client.bus import StreamBusConsumer
from artery.errors import ArteryError, PositionLost
from tests.faults.entries import DEADLY, FAILING, read_of
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
    idle_ms: int = 1_500
    handle_ms: float = 0.0
    crash: str = ""


class CannotBeHandled(Exception):
    """What a body raises for an entry that is made to fail."""


async def share(job: Job, record: Record) -> None:
    """Consume as one of a group, as a user does whose bodies may fail: the loop is simply begun again."""
    async with StreamBusConsumer(job.url, job.base, job.group, job.consumer, idle_ms=job.idle_ms) as mine:
        while True:
            with contextlib.suppress(CannotBeHandled):
                await handle_all(job, mine, record)


async def handle_all(job: Job, mine: StreamBusConsumer, record: Record) -> None:
    """Entries say by themselves how their handling goes."""
    told = mine.losses
    async for event in mine.events(job.stream):
        id_, position, fate = read_of(event)
        if mine.losses > told:
            record.say(*[Line(gap="entries were lost")] * (mine.losses - told))
            told = mine.losses
        if fate == DEADLY:
            os.kill(os.getpid(), signal.SIGKILL)
        if fate == FAILING:
            record.say(Line(error=id_))
            raise CannotBeHandled(id_)
        await asyncio.sleep(job.handle_ms / 1_000)
        record.say(Line(seen=id_, position=position, at_ms=int(time.time() * 1_000)))


async def follow(job: Job, record: Record) -> None:
    """Read everything in order, from where this record ends; a loss is recorded, and it goes on behind it."""
    after = next((line.position for line in reversed(list(lines(job.file))) if line.seen), START)
    bus = open_bus(job.url, job.base)
    try:
        await _follow(job, bus, record, after)
    finally:
        await bus.close()


async def _follow(job: Job, bus: Bus, record: Record, after: str) -> None:
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
    record = Record(job.file)
    task = asyncio.ensure_future(share(job, record) if job.group else follow(job, record))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Job)))
