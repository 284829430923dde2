"""A process that appends events with ids of their own and records which were acknowledged.

`python -m tests.faults.generator JOB`; SIGTERM ends it after the append under way; SIGUSR2 has it
rest after that, and go on.
"""

import asyncio
import random
import resource
import signal
import sys

import msgspec

from artery import crash
from artery.bus.open import open_bus
from artery.errors import ArteryError
from tests.faults.entries import entry_of
from tests.faults.records import Line, Record

AGAIN_S = 0.05


class Job(msgspec.Struct):
    """What to append, where, and where to record it; `count` of 0 goes on until told to stop."""

    url: str
    base: str
    stream: str
    writer: str
    file: str
    seed: int = 0
    epoch: int = 0
    first: int = 0
    """How many this writer has sent before."""
    count: int = 0
    batch_max: int = 20
    every_ms: int = 10
    pad_bytes: int = 300
    limit_bytes: int = 0
    """How large a file may become until SIGUSR1 lifts the limit; 0 for none."""
    crash: str = ""


def limit(size: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (size or hard, hard))


class Rest:
    """Between two appends: told to rest, it says so and waits until it is told again."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._awake = asyncio.Event()
        self._awake.set()

    def turn(self) -> None:
        (self._awake.clear if self._awake.is_set() else self._awake.set)()

    async def taken(self) -> None:
        if not self._awake.is_set():
            self._record.say(Line(rests=True))
            await self._awake.wait()


async def main(job: Job) -> None:
    dice, record, stop = random.Random(job.seed), Record(job.file), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, limit, 0)
    rest = Rest(record)
    loop.add_signal_handler(signal.SIGUSR2, rest.turn)
    limit(job.limit_bytes)
    crash.arm(job.crash)
    bus = open_bus(job.url, job.base)
    number, last = job.first, job.first + job.count
    while not stop.is_set() and (not job.count or number < last):
        size = dice.randint(1, job.batch_max)
        size = min(size, last - number) if job.count else size
        pads = ["x" * dice.randint(0, job.pad_bytes) for _ in range(size)]
        entries = [entry_of(job.writer, number + n, pad=pad) for n, pad in enumerate(pads, 1)]
        number += size
        ids = [each["id"] for each in entries]
        record.say(Line(sent=ids))
        try:
            positions = await bus.append(job.stream, entries, writer=job.writer, epoch=job.epoch)
            assert len(positions) == len(ids)
            record.say(Line(acked=ids))
            await asyncio.sleep(job.every_ms / 1_000)
        except ArteryError as error:
            record.say(Line(error=f"{error.code}: {error}") if error.temporary else Line(refused=ids))
            if not error.temporary:
                break
            await asyncio.sleep(AGAIN_S)
        await rest.taken()
    await bus.close()


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Job)))
