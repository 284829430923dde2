"""What a group was given and has not acked, and how that is written beside its committed offset; pure."""

import base64
import zlib
from collections.abc import Callable, Iterable, Sequence

import msgspec

from artery.bus.runs import Run, ranges

IMAGE_MAX = 4_000
"""Characters that brokers keep beside an offset: 4,096, unless they are set otherwise."""
_VERSION = 1
_SMALL = 256
"""Bytes that are not worth packing."""
_ZLIB = b"\x78"
"""What packed bytes begin with, and ours never do."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, int, int, int, list[str], list[int]]).decode


class Held:
    """A group. Offsets below `last` were given out; those in `runs` (rising, without a hole in each) are not acked.

    The offset to be committed is that of the oldest entry that is not acked, so that everything before it is done.
    """

    def __init__(self, log: int, last: int, runs: Iterable[Run] = (), *, coarse: bool = False) -> None:
        self.log = log
        self.last = last
        self.runs = list(runs)
        self.coarse = coarse
        """The runs may hold offsets that are no entries, or are acked: there was no room to say it better."""

    @property
    def offset(self) -> int:
        return self.runs[0].first if self.runs else self.last

    @property
    def pending(self) -> int:
        return sum(map(len, self.runs))

    def give(self, offsets: Sequence[int], consumer: str, now_ms: int) -> None:
        """These follow what was given out so far."""
        self.runs += [Run(low, high, consumer, 1, now_ms) for low, high in _ranges(offsets)]
        self.last = offsets[-1] + 1

    def take_back(self, offsets: Sequence[int]) -> None:
        """Nobody has heard of these: as if they had not been given, unless others were given since."""
        if offsets and self.last == offsets[-1] + 1:
            self.ack(offsets)
            self.last = offsets[0]

    def give_again(
        self, which: Callable[[Run], bool], low: int, limit: int, consumer: str, now_ms: int
    ) -> list[tuple[int, int]]:
        """At most `limit` of some runs' entries from `low` on, to this consumer; each with its number of tries."""
        given: list[tuple[int, int]] = []
        kept: list[Run] = []
        for run in self.runs:
            start = max(low, run.first)
            part = run.part(start, start + limit - len(given) - 1) if which(run) and len(given) < limit else None
            if part is None:
                kept.append(run)
                continue
            again = part.given(consumer, now_ms)
            kept += sorted([*run.without(part.first, part.last), again], key=lambda one: one.first)
            given += [(offset, again.tries) for offset in range(part.first, part.last + 1)]
        self.runs = kept
        return given

    def ack(self, offsets: Sequence[int]) -> int:
        """Take these (rising, each once) out of the pending; how many were."""
        done = _ranges(offsets)
        if not done:
            return 0
        before = self.pending
        kept: list[Run] = []
        at = 0
        for run in self.runs:
            while at < len(done) and done[at][1] < run.first:
                at += 1
            kept += _without(run, done, at)
        self.runs = kept
        return before - self.pending

    def ack_up_to(self, last: int) -> None:
        """Take everything below here for given and done."""
        self.runs = [rest for run in self.runs for rest in run.without(0, last - 1)]
        self.last = max(self.last, last)

    def needed(self) -> list[tuple[int, int | None]]:
        """Offsets that are not acked, as ranges (`None`: without an end)."""
        return [*((run.first, run.last) for run in self.runs), (self.last, None)]

    def restamp(self, now_ms: int, wall_ms: int) -> None:
        """Times by the wall clock become times by one that never jumps; what lies ahead of now was given just now."""
        stamped = (msgspec.structs.replace(run, given_ms=now_ms - max(0, wall_ms - run.given_ms)) for run in self.runs)
        self.runs = list(stamped)

    def image(self, ahead_ms: int = 0) -> str:
        """All of it as text, for the broker; runs that are too many are drawn together, the newest first. `ahead_ms`:
        how far the wall clock, by which other processes understand times, is ahead of the one that they are kept by."""
        runs, coarse = self.runs, self.coarse
        while True:
            text = _written(self.log, self.last, runs, coarse, ahead_ms)
            if len(text) <= IMAGE_MAX or len(runs) < 2:
                return text
            half = len(runs) // 2
            tail = runs[half:]
            drawn = msgspec.structs.replace(tail[0], last=tail[-1].last, tries=max(run.tries for run in tail))
            runs, coarse = [*runs[:half], drawn], True


def _ranges(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """The same as `ranges`, sooner where there is no hole."""
    if offsets and offsets[-1] - offsets[0] + 1 == len(offsets):
        return [(offsets[0], offsets[-1])]
    return list(ranges(offsets))


def _without(run: Run, done: Sequence[tuple[int, int]], at: int) -> list[Run]:
    """What remains of a run; the ranges from `at` on may touch it."""
    kept = []
    rest: Run | None = run
    while rest is not None and at < len(done) and done[at][0] <= rest.last:
        low, high = done[at]
        kept.append(rest.part(rest.first, low - 1))
        rest = rest.part(high + 1, rest.last)
        at += 1
    return [part for part in (*kept, rest) if part is not None]


def _written(log: int, last: int, runs: Sequence[Run], coarse: bool, ahead_ms: int) -> str:
    names = sorted({run.consumer for run in runs})
    numbers: list[int] = []
    at, ms = 0, -ahead_ms
    for run in runs:
        numbers += (run.first - at, run.last - run.first, names.index(run.consumer), run.tries, run.given_ms - ms)
        at, ms = run.last, run.given_ms
    packed = _encode((_VERSION, log, last, int(coarse), names, numbers))
    return base64.b64encode(packed if len(packed) < _SMALL else zlib.compress(packed, 6)).decode()


def read_image(text: str) -> Held | None:
    """What an image says; None if it is none of ours."""
    try:
        packed = base64.b64decode(text, validate=True)
        packed = zlib.decompress(packed) if packed[:1] == _ZLIB else packed
        version, log, last, coarse, names, numbers = _decode(packed)
        if version != _VERSION:
            return None
        runs = []
        at, ms = 0, 0
        for gap, more, name, tries, later in zip(*[iter(numbers)] * 5, strict=True):
            first, ms = at + gap, ms + later
            at = first + more
            runs.append(Run(first, at, names[name], tries, ms))
    except (ValueError, zlib.error, msgspec.MsgspecError, IndexError):
        return None
    return Held(log, last, runs, coarse=bool(coarse))
