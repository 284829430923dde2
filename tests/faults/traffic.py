"""Events on their way through a log: a generator, the consumers of a group, a follower; and the verdict on them."""

import msgspec

from tests.faults import generator, sink
from tests.faults.checker import Gap, Verdict, check
from tests.faults.logs import Log
from tests.faults.processes import Child, Stage
from tests.faults.records import sent_of, sights_of
from tests.faults.trial import Trial

STREAM, GROUP = "trade", "cg_storage_trade"
WRITER, FOLLOWER = "gen", "follower"


class Traffic:
    """Starts what a scenario needs; `settle` lets everything come to rest and judges it."""

    def __init__(self, stage: Stage, log: Log, trial: Trial, url: str = "") -> None:
        self.stage, self.log = stage, log
        self._trial = trial
        self._url = url or log.url
        self._consumers: list[str] = []
        self._follows = False
        self.generator: Child | None = None
        self.readers: list[Child] = []

    def generate(self, **more: object) -> Child:
        job = generator.Job(self._url, self.log.base, STREAM, WRITER, self.stage.file(WRITER), seed=self._trial.seed)
        self.generator = self.stage.start("generator", _with(job, more), WRITER)
        return self.generator

    def consume(self, consumer: str, **more: object) -> Child:
        if consumer not in self._consumers:
            self._consumers.append(consumer)
        job = sink.Job(self._url, self.log.base, STREAM, self.stage.file(consumer), GROUP, consumer)
        self.readers.append(self.stage.start("sink", _with(job, more), consumer))
        return self.readers[-1]

    def follow(self) -> Child:
        self._follows = True
        job = sink.Job(self._url, self.log.base, STREAM, self.stage.file(FOLLOWER))
        self.readers.append(self.stage.start("sink", job, FOLLOWER))
        return self.readers[-1]

    async def flows(self, more: int = 40) -> None:
        """Until the writer has heard of so many more events."""
        await self.stage.acked(WRITER, more)

    async def arrived(self, without: frozenset[str] = frozenset()) -> None:
        """Until everything that is acknowledged by now, but for these, has been seen by all."""
        acked = {id_ for sent in sent_of([self.stage.file(WRITER)]) for id_ in sent.acked} - without
        if self._consumers:
            await self.stage.sees(acked, *self._consumers)
        if self._follows:
            await self.stage.sees(acked, FOLLOWER)

    async def settle(self, *, counted: int = 0, gone: frozenset[str] = frozenset()) -> Verdict:
        """Stop the writer, let the readers see everything that is not gone, stop them, and judge."""
        if self.generator is not None and self.generator.alive:
            await self.generator.stop()
        await self.arrived(gone)
        for reader in self.readers:
            if reader.alive:
                await reader.stop()
        return self._trial.judge(self.verdict(counted))

    def verdict(self, counted: int = 0) -> Verdict:
        """Of the group and of the follower together; what was sent counts once."""
        sent = sent_of([self.stage.file(WRITER)])
        verdict = Verdict()
        if self._consumers:
            files = [self.stage.file(name) for name in self._consumers]
            verdict += check(sent, sights_of(files), ordered=False, counted=counted)
        if self._follows:
            verdict += check(sent, sights_of([self.stage.file(FOLLOWER)]))
        alone = check(sent, [], ordered=False)
        return msgspec.structs.replace(verdict, sent=alone.sent, unknown=alone.unknown)

    def gaps(self, *names: str) -> int:
        """How often these readers were told that something is missing."""
        return sum(isinstance(sight, Gap) for sight in sights_of(self.stage.file(name) for name in names))


def _with(job: msgspec.Struct, more: dict[str, object]) -> msgspec.Struct:
    return msgspec.structs.replace(job, **more)
