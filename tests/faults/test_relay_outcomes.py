"""Spark's driver that dies while clients wait for outcomes, and a thousand of them; in long runs only, because each
start of Spark takes half a minute. tests/relay/test_many.py and tests/pipeline have the same without the whole."""

import asyncio
import time
from collections import Counter

from artery.lake.reads import Lake
from artery.wire.artery_pb2 import HistoryReadyNotification, SubmitResponse
from tests.faults.checker import Seen, Sent, Sight, check
from tests.faults.logs import Log
from tests.faults.processes import Child, Stage
from tests.faults.relayed import Client, Relayed, relayed
from tests.faults.trial import Trial
from tests.faults.venue import reaches

ONCE = True
SLACK_S = 3.0
"""What a busy machine may add to a bound."""
OUTCOMES_S, NOTIFIED_S = 60.0, 10.0
START_S = 240.0
BAD = 10
"""Every so many-th request is refused at the relay, and the one after it by the ingestor."""


async def test_a_thousand_who_subscribe_and_submit_at_once_all_get_their_outcome(
    trial: Trial, sqlite_log: Log, stage: Stage
) -> None:
    count = 1_000
    async with relayed(stage, sqlite_log) as one:
        for service in ("relay", "ingest"):
            one.service(service)
        await running(one, one.service("pipeline"))
        first = one.client("first")
        await first.accepted("first")
        await reaches(lambda: told(first), START_S)

        async def submit(number: int) -> "SubmitResponse.Status":
            client = one.client(f"c{number}")
            clients.append(client)
            await client.confirmed()
            period_s = 0 if number % BAD == 0 else 7 if number % BAD == 1 else 60
            return (await client.submit(f"r{number}", 30, period_s, before=number % 60)).status

        clients: list[Client] = []
        began = time.monotonic()
        answers = Counter(await asyncio.gather(*(submit(number) for number in range(count))))
        assert answers == {SubmitResponse.ACCEPTED: count - count // BAD, SubmitResponse.INVALID: count // BAD}
        sent = {f"r{number}" for number in range(count) if number % BAD}

        def seen() -> set[str]:
            return {outcome.request_id for client in clients for outcome in client.outcomes}

        async def all_told() -> bool:
            return seen() >= sent

        await reaches(all_told, OUTCOMES_S + 60)
        took_s = time.monotonic() - began
        trial.judge(check([Sent(sorted(sent), sent)], [Seen(name, name) for name in seen()], ordered=False))
        assert took_s < OUTCOMES_S + SLACK_S, f"{took_s:.0f} s; {trial.again}"


async def test_a_driver_that_dies_at_any_step_leaves_one_outcome_for_every_accepted_request(
    trial: Trial, stage: Stage
) -> None:
    log = Log("sqlite", f"sqlite:///{stage.folder}/md_stream/sim/bus.db", "md_stream", None)
    async with relayed(stage, log) as one:
        for service in ("relay", "ingest"):
            one.service(service)
        client, asked = one.client("c1"), []
        await one.open()
        for point in ("pipeline.finishing", "pipeline.outcomes", "pipeline.committed"):
            dies = one.service("pipeline", ART_CRASH_POINT=point, ART_PIPELINE_STORE_S="600")
            asked.append(f"r{len(asked)}")
            await client.accepted(asked[-1])
            assert await dies.ended(START_S) == -9
        last = one.service("pipeline")
        await running(one, last)
        took_s = await reaches(lambda: told(client, set(asked)), START_S)
        assert took_s < NOTIFIED_S + SLACK_S, f"{took_s:.0f} s; {trial.again}"
        lake = Lake(one.scene.folder / "sim")
        rows = lake.scan("requests").column("request_id").to_pylist()
        candles = lake.scan("ohlc").select(["ticker", "period_s", "start"]).to_pylist()
        sights: list[Sight] = [Seen(name, str(copy)) for copy, name in enumerate(rows)]
        trial.judge(check([Sent(asked, set(asked))], sights, ordered=False))
        assert max(Counter(tuple(row.values()) for row in candles).values()) == 1, trial.again
        assert {outcome.status for outcome in client.outcomes} == {HistoryReadyNotification.READY}
        await last.stop()


async def running(one: Relayed, pipeline: Child) -> None:
    """Until this pipeline makes candles."""

    async def is_so() -> bool:
        value = await one.scene.store.get("artery:pipeline")
        return value is not None and f'"pid":{pipeline.pid}'.encode() in value and b'"state":"running"' in value

    await reaches(is_so, START_S)


async def told(client: Client, ids: set[str] | None = None) -> bool:
    heard = {outcome.request_id for outcome in client.outcomes}
    return heard >= ids if ids else bool(heard)
