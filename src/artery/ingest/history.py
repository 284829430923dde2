"""Fetching the venue's own candles: the chart's past at first start, and what holes have left out."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import msgspec

from artery.bus.base import Entry
from artery.errors import ArteryError, Fenced, PositionLost
from artery.ingest import metrics
from artery.ingest.marks import Span
from artery.ingest.parts import Parts
from artery.ingest.repairs import Job, Key, Planner, past
from artery.ingest.retry import persist
from artery.ingest.spans import Stretches
from artery.ingest.takeover import back
from artery.ingest.writer import Appender
from artery.model.events import Candle
from artery.model.periods import parse_periods
from artery.telemetry import logger
from artery.wire import history as wire

SETTLE_MS = 3_000
AT_ONCE = 3
ASKS_MAX = 20
FULL_ANSWER = 500
"""A shorter answer is a whole one: no venue cuts its answers shorter than this."""
MARKS_BACK_MS = 25 * 3_600_000
MARKS_MAX = 200_000
DONE_TTL_S = 2 * 86_400.0

_log = logger("ingest")


class Errands:
    """Plans and runs the fetches of one term."""

    def __init__(self, parts: Parts, appender: Appender, coins: Sequence[str], left: Iterable[str] = ()) -> None:
        """`left` are markets that were followed before: their last holes are to be repaired too."""
        self._parts = parts
        self._appender = appender
        self._coins = tuple(coins)
        made = parse_periods(parts.settings.pipeline.periods)
        self._periods = [period for period in made if period in parts.venue.periods()]
        self._planner = Planner(self._coins, self._periods, parts.grace_ms + SETTLE_MS)
        self._planner.follow(self._coins, left)
        self._room = asyncio.Semaphore(AT_ONCE)
        self._pace = asyncio.Lock()

    def need(self, coin: str, from_ms: int, to_ms: int) -> None:
        """The candles of this stretch are to come from the venue, once they are over."""
        self._planner.need(coin, from_ms, to_ms)

    async def follow(self, coins: Sequence[str]) -> None:
        """From now on these are the markets: the past of new ones is fetched as at a first start."""
        added, self._coins = [coin for coin in coins if coin not in self._coins], tuple(coins)
        new = self._planner.follow(coins)
        await persist(lambda: self._load(new, added), "reading the store")

    async def run(self, open_holes: Callable[[], Sequence[Span]]) -> None:
        """Work until cancelled; `open_holes` tells of holes that still grow."""
        await persist(lambda: self._load(self._planner.keys, self._coins), "reading the store")
        async with asyncio.TaskGroup() as group:
            group.create_task(persist(self._recall, "reading the bus"))
            while True:
                await self._room.acquire()
                for span in open_holes():
                    self.need(span.coin, span.from_ms, span.to_ms)
                job = self._planner.next(self._parts.now_ms())
                if job is None:
                    self._room.release()
                    await asyncio.sleep(self._parts.pauses.look_s)
                else:
                    group.create_task(self._do(job))

    async def _load(self, keys: Sequence[Key], coins: Sequence[str]) -> None:
        """What was done before, and what of these markets' past is still to be fetched."""
        for key in keys:
            self._planner.already(key, _stretches(await self._parts.store.get(self._repair_key(key))))
        days, now_ms = self._parts.settings.ingest.history_days, self._parts.now_ms()
        jobs = past(coins, self._periods, days, now_ms)
        self._planner.add_past([job for job in jobs if await self._parts.store.get(self._past_key(job)) is None])

    async def _recall(self) -> None:
        """Take up the holes of the last day: their longer candles may still be open."""
        oldest_ms = self._parts.now_ms() - MARKS_BACK_MS
        head = await self._parts.bus.head("feed")
        async for entry in back(self._parts, "feed", MARKS_MAX):
            if int(entry.fields.get("ts", "0")) < oldest_ms:
                break
            self._heed(entry)
        await self._hear(head)

    async def _hear(self, after: str) -> None:
        """Take up what others say of this feed: the trimmer, when it had to cut what nobody had stored."""
        while True:
            try:
                async for entries in self._parts.bus.follow("feed", after):
                    for entry in entries:
                        self._heed(entry)
                    after = entries[-1].id
            except PositionLost as lost:
                after = lost.first

    def _heed(self, entry: Entry) -> None:
        fields = entry.fields
        if fields.get("t") == "MARK" and fields.get("provider") == self._parts.provider:
            with suppress(KeyError, ValueError):  # anyone may write to the log
                self.need(fields.get("coin", ""), int(fields["from"]), int(fields["to"]))

    async def _do(self, job: Job) -> None:
        kind = "past" if job.first else "repair"
        try:
            candles = await self._fetch(job)
            await self._append(job, candles)
            await self._remember(job, len(candles))
            metrics.REPAIRS.labels(kind, "done").inc()
        except Fenced:
            raise
        except ArteryError as error:
            metrics.REPAIRS.labels(kind, "failed").inc()
            self._planner.failed(job, self._parts.now_ms(), again=error.temporary)
            what = "and are asked for again" if error.temporary else "and will not"
            _log.warning(f"candles could not be had {what}", market=job.coin, period=str(job.period), reason=str(error))
        finally:
            self._room.release()

    async def _fetch(self, job: Job) -> list[Candle]:
        """All closed candles of the job, oldest first, in as many answers as the venue needs."""
        candles: list[Candle] = []
        at_ms = job.start_ms
        for _ in range(ASKS_MAX):
            answer = await self._ask(job, at_ms)
            candles += [row for row in answer if row.closed and at_ms <= row.start_ts < job.end_ms]
            if len(answer) < FULL_ANSWER:
                break
            at_ms = answer[-1].start_ts + job.period.ms
            if at_ms >= job.end_ms:
                break
        return candles

    async def _ask(self, job: Job, at_ms: int) -> list[Candle]:
        async with self._pace:
            await asyncio.sleep(self._parts.pauses.ask_s)
        return await self._parts.venue.candles(job.coin, job.period, at_ms, job.end_ms)

    async def _append(self, job: Job, candles: Sequence[Candle]) -> None:
        """All pages in one append: a request is on the bus whole or not at all."""
        entries = []
        for start in range(0, len(candles), wire.PAGE_ROWS):
            entries.append(self._page(job, candles[start : start + wire.PAGE_ROWS], start, len(candles)))
            await asyncio.sleep(0)  # many rows must not hold up live trades
        if entries:
            await self._appender.append("history", entries)

    def _page(self, job: Job, rows: Sequence[Candle], start: int, total: int) -> dict[str, str]:
        page = wire.page(
            job.request_id(self._parts.provider),
            self._parts.provider,
            job.coin,
            job.period,
            rows,
            number=start // wire.PAGE_ROWS,
            last=start + wire.PAGE_ROWS >= total,
        )
        return wire.encode(page, event_ts=self._parts.now_ms())

    async def _remember(self, job: Job, rows: int) -> None:
        done = msgspec.json.encode(self._planner.finished(job))
        await persist(
            lambda: self._parts.store.put(self._repair_key(job.key), done, DONE_TTL_S), "writing to the store"
        )
        if job.first:
            value = msgspec.json.encode({"from_ms": job.start_ms, "to_ms": job.end_ms, "rows": rows})
            await persist(lambda: self._parts.store.put(self._past_key(job), value), "writing to the store")

    def _repair_key(self, key: Key) -> str:
        return f"artery:repair:{self._parts.provider}:{key[0]}:{key[1]}"

    def _past_key(self, job: Job) -> str:
        return f"artery:history:{self._parts.provider}:{job.coin}:{job.period}"


def _stretches(value: bytes | None) -> Stretches:
    """What the store holds of what is done; what cannot be read is done again."""
    try:
        return msgspec.json.decode(value or b"[]", type=list[tuple[int, int]])
    except msgspec.DecodeError:
        return []
