"""Relays and ingestors that die while clients ask for history."""

import asyncio
import statistics
import time
from collections import Counter

from artery.wire.artery_pb2 import OHLCBatch, StatusResponse, SubmitResponse
from tests.faults.logs import Log
from tests.faults.processes import Stage
from tests.faults.relayed import Client, relayed
from tests.faults.trial import Trial
from tests.faults.venue import reaches

ONCE = True
SLACK_S = 3.0
"""What a busy machine may add to the slowest of several; half of them keep the bound itself."""
SUBSCRIBED_S, NO_INGESTOR_S = 3.0, 1.0


async def test_clients_of_a_killed_relay_are_subscribed_again_within_3_s(
    trial: Trial, sqlite_log: Log, stage: Stage
) -> None:
    async with relayed(stage, sqlite_log) as one:
        relay = one.service("relay")
        await one.open()
        clients = [one.client(f"c{number}") for number in range(trial.pick(50, 500))]
        await asyncio.gather(*(client.confirmed() for client in clients))
        took_s = [await refused(clients[0]) for _ in range(5)]
        trial.say(f"no ingestor is said within {max(took_s):.2f} s")
        assert max(took_s) < NO_INGESTOR_S
        relay.kill()
        one.service("relay", "again")
        await one.open()
        came = time.monotonic()
        await asyncio.gather(*(client.confirmed(2) for client in clients))
        back_s = [client.confirmed_at[1] - came for client in clients]
        trial.say(f"{len(back_s)} clients are subscribed again within {max(back_s):.2f} s")
        assert statistics.median(back_s) < SUBSCRIBED_S
        assert max(back_s) < SUBSCRIBED_S + SLACK_S
        assert "Traceback" not in stage.said()


async def refused(client: Client) -> float:
    """How long the relay needed to say that nobody serves this exchange."""
    began = time.monotonic()
    assert (await client.submit("nobody")).status == SubmitResponse.NO_INGESTOR
    return time.monotonic() - began


async def test_of_three_ingestors_one_works_and_when_it_is_killed_another_finishes(
    trial: Trial, sqlite_log: Log, stage: Stage
) -> None:
    async with relayed(stage, sqlite_log) as one:
        one.service("relay")
        ingestors = {child.pid: child for child in (one.service("ingest", f"ingest-{n}") for n in range(3))}
        client = one.client("c1")
        await client.accepted("whole", trial.pick(600, 4_000))
        pages = await one.finished("whole")
        assert max(Counter(page.page for page in pages).values()) == 1, "nobody else worked on it"
        await one.scene.disturb(refuse_s=600)
        await client.accepted("left", 3_000, 300)  # other candles, which nobody has yet
        working = await one.holder("left")

        async def begun() -> bool:
            return await one.state(client, "left") == StatusResponse.FETCHING

        await reaches(begun)
        ingestors[working].kill()
        await one.scene.disturb(refuse_s=0)
        last = [page for page in await one.finished("left") if page.last]
        assert [page.status for page in last] == [OHLCBatch.OK]

        async def storing() -> bool:  # said once the last page is on the log
            return await one.state(client, "left") == StatusResponse.STORING

        await reaches(storing)
