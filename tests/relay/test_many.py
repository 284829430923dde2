"""Many clients at once, each subscribed before it asks: every one gets an outcome, the bad ones at once."""

import asyncio
import time
from collections import Counter

from artery.ingest.parts import Parts
from artery.ingest.requests import Requests
from artery.live.lock import StoreLock
from artery.live.memory import MemoryPubSub
from artery.wire import history
from artery.wire.artery_pb2 import OHLCBatch, SubmitHistoricalRequest, SubmitResponse
from tests.ingest.scripted import ScriptedVenue
from tests.relay.conftest import House, until

CLIENTS = 200
NOW = int(time.time() * 1_000)
BAD = 10
"""Every so many-th request is refused at the relay, and the one after it by the ingestor."""


async def ask(house: House, number: int) -> "SubmitResponse.Status":
    subscriber, client = house.subscriber(), house.client()
    await subscriber.subscribe(f"RESPONSE:c{number}|")
    request = SubmitHistoricalRequest(
        request_id=f"r{number}",
        client_id=f"c{number}",
        ticker="SIM:BTC",
        start_ms=NOW - 3_600_000 - number * 60_000,
        end_ms=NOW - 60_000,
        period_s=0 if number % BAD == 0 else 7 if number % BAD == 1 else 60,
    )
    answer: SubmitResponse = await client.ask(request)
    return answer.status


async def last_pages(house: House) -> list[OHLCBatch]:
    pages = [history.decode(entry.fields) for entry in await house.bus.read("history", limit=100_000)]
    return [page for page in pages if page.last]


async def test_many_that_subscribe_and_submit_at_once_all_get_an_outcome(house: House) -> None:
    venue = ScriptedVenue(("BTC",))
    venue.now_ms = NOW
    parts = Parts(house.settings, house.bus, MemoryPubSub(), house.store, venue, lambda: NOW)
    await house.ingestor()
    work = asyncio.create_task(Requests(parts, StoreLock(house.store)).run())
    try:
        answers = Counter(await asyncio.gather(*(ask(house, number) for number in range(CLIENTS))))
        accepted = CLIENTS - CLIENTS // BAD
        assert answers == {SubmitResponse.ACCEPTED: accepted, SubmitResponse.INVALID: CLIENTS // BAD}

        async def all_there() -> list[OHLCBatch]:
            found = await last_pages(house)
            return found if len(found) >= accepted else []

        found = await until(all_there, "every request has its last page")
        assert len({page.request_id for page in found}) == len(found) == accepted
        errors = [page for page in found if page.status == OHLCBatch.ERROR]
        assert len(errors) == CLIENTS // BAD
        assert all("no candles of 7s" in page.error for page in errors)
    finally:
        work.cancel()
        await asyncio.wait({work})
