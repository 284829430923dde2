"""Which of the venue's own candles are to be fetched, and when. Pure: times in, jobs out."""

from collections.abc import Iterable, Sequence

import msgspec

from artery.ingest import spans
from artery.ingest.spans import Stretches
from artery.model.periods import Period

WINDOWS_MAX = 5_000
"""Candles in one job, at most: no venue here keeps more."""
KEPT_MAX = 200
RETRY_FIRST_MS = 2_000
RETRY_MOST_MS = 60_000
PAST_ROWS = 1_500
Key = tuple[str, Period]


class Job(msgspec.Struct, frozen=True):
    """Candles of one market and period that start in `[start_ms, end_ms)`; `first` is the chart's past."""

    coin: str
    period: Period
    start_ms: int
    end_ms: int
    first: bool = False

    @property
    def key(self) -> Key:
        return (self.coin, self.period)

    def request_id(self, provider: str) -> str:
        if self.first:
            return f"own:first:{provider}:{self.coin}:{self.period}"
        return f"own:repair:{provider}:{self.coin}:{self.period}:{self.start_ms}:{self.end_ms}"


def windows(period: Period, from_ms: int, to_ms: int) -> tuple[int, int]:
    """The whole candles that this stretch touches."""
    return period.start(from_ms), period.start(to_ms) + period.ms


def past(coins: Sequence[str], periods: Sequence[Period], days: float, now_ms: int) -> list[Job]:
    """The chart's past: the shortest period of every market first, then the others, which reach back further."""
    if not days:
        return []
    jobs = []
    for period in sorted(periods):
        rows = PAST_ROWS if period != min(periods) else min(WINDOWS_MAX, int(days * 86_400_000 / period.ms))
        end_ms = period.start(now_ms)
        jobs += [Job(coin, period, max(0, end_ms - rows * period.ms), end_ms, first=True) for coin in coins if rows]
    return jobs


class Planner:
    """What is needed, what is done, what failed and waits.

    Repairs come before the past, as people look at what closes now. A candle is due once it has been over for
    `settle_ms`. One job of a market and period is under way at a time.
    """

    def __init__(self, coins: Sequence[str], periods: Sequence[Period], settle_ms: int) -> None:
        self._settle_ms = settle_ms
        self._periods = sorted(periods)
        self._coins: frozenset[str] = frozenset()
        self._keys: list[Key] = []
        self._need: dict[Key, Stretches] = {}
        self._done: dict[Key, Stretches] = {}
        self.follow(coins)
        self._past: list[Job] = []
        self._busy: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._wait_until_ms: dict[Key, int] = {}

    def follow(self, coins: Sequence[str], also: Iterable[str] = ()) -> list[Key]:
        """From now on these are the markets, `also` those of which something may be left to repair; return the market
        and period of each that is new. What was needed of others is still done."""
        self._coins = frozenset(coins)
        known = {coin for coin, _ in self._keys}
        new = [coin for coin in dict.fromkeys([*coins, *also]) if coin not in known]
        added = [(coin, period) for period in self._periods for coin in new]
        for key in added:
            self._need[key], self._done[key] = [], []
        self._keys = sorted([*self._keys, *added], key=lambda key: key[1])
        return added

    @property
    def keys(self) -> Sequence[Key]:
        """Every market and period, shortest period first."""
        return self._keys

    def already(self, key: Key, done: Stretches) -> None:
        """These stretches were fetched before."""
        self._done[key] = spans.union([*self._done[key], *done])

    def need(self, coin: str, from_ms: int, to_ms: int) -> None:
        """Nobody vouches for this stretch of a market (of all, if `coin` is empty)."""
        for key in self._keys:
            if coin == key[0] or (not coin and key[0] in self._coins):
                self._need[key] = spans.union([*self._need[key], windows(key[1], from_ms, to_ms)])

    def add_past(self, jobs: Iterable[Job]) -> None:
        """Fetch these too, in this order; what they cover needs no repair."""
        for job in jobs:
            self._past.append(job)
            self.already(job.key, [(job.start_ms, job.end_ms)])

    def next(self, now_ms: int) -> Job | None:
        """A job whose time has come, from now on under way: `finished` or `failed` must follow."""
        job = self._next_repair(now_ms) or self._next_past(now_ms)
        if job is not None:
            self._busy.add(job.key)
        return job

    def finished(self, job: Job) -> Stretches:
        """The job's candles are on the bus; return all that is done of its market and period."""
        self._busy.discard(job.key)
        self._failures.pop(job.key, None)
        self._wait_until_ms.pop(job.key, None)
        if job.first:
            self._past.remove(job)
        self.already(job.key, [(job.start_ms, job.end_ms)])
        self._done[job.key] = spans.newest(self._done[job.key], KEPT_MAX)
        # What is over and done is not looked at again.
        self._need[job.key] = spans.minus(self._need[job.key], self._done[job.key])
        return self._done[job.key]

    def failed(self, job: Job, now_ms: int, *, again: bool) -> None:
        """The job failed; it is tried again later, or given up."""
        self._busy.discard(job.key)
        failures = self._failures[job.key] = self._failures.get(job.key, 0) + 1
        self._wait_until_ms[job.key] = now_ms + min(RETRY_MOST_MS, RETRY_FIRST_MS << min(failures - 1, 10))
        if again:
            return
        if job.first:
            self._past.remove(job)
        self.already(job.key, [(job.start_ms, job.end_ms)])

    def _free(self, key: Key, now_ms: int) -> bool:
        return key not in self._busy and now_ms >= self._wait_until_ms.get(key, 0)

    def _next_repair(self, now_ms: int) -> Job | None:
        for key in self._keys:
            if not self._need[key] or not self._free(key, now_ms):
                continue
            coin, period = key
            over_ms = period.start(now_ms - self._settle_ms)
            due = spans.minus(spans.before(self._need[key], over_ms), self._done[key])
            if due:
                start_ms, end_ms = due[-1]
                return Job(coin, period, max(start_ms, end_ms - WINDOWS_MAX * period.ms), end_ms)
        return None

    def _next_past(self, now_ms: int) -> Job | None:
        """One at a time, so that the venue's budget is not spent when a repair comes."""
        if any(job.key in self._busy for job in self._past):
            return None
        return next((job for job in self._past if self._free(job.key, now_ms)), None)
