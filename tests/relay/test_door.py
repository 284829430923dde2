"""What a peer on 5559 is told when its request cannot be answered."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import zmq.asyncio

from artery.bus.open import open_bus
from artery.client.relay import Relay
from artery.errors import Unavailable
from artery.settings import Settings
from artery.store.base import Store
from artery.store.open import open_store
from artery.wire.artery_pb2 import (
    DataRequest,
    IngestorControl,
    StatusRequest,
    StatusResponse,
    SubmitResponse,
)
from tests.relay.conftest import FREE, House, relay, soon, until
from tests.relay.test_client import outcome_of
from tests.relay.test_requests import asked

LONG = "x" * 2_000
"""Longer than any key of the store."""


class AwayAtTimes:
    """A real store that does not answer questions about requests while it is told so."""

    def __init__(self, store: Store) -> None:
        self._store, self.away, self.missed = store, False, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, key: str) -> bytes | None:
        if self.away and key.startswith("artery:request:"):
            self.missed += 1
            raise Unavailable("the store is away")
        return await self._store.get(key)


@pytest.fixture
async def troubled(tmp_path: Path) -> AsyncIterator[tuple[House, AwayAtTimes]]:
    settings = Settings().with_(data={"dir": str(tmp_path)}, relay=FREE)
    settings.folder.mkdir()
    bus, store, context = open_bus(settings.bus_url()), open_store(settings.store_url()), zmq.asyncio.Context()
    away = AwayAtTimes(store)
    try:
        async with relay(settings, bus, away) as where:  # type: ignore[arg-type]
            yield House(settings, bus, store, where, context), away
    finally:
        context.destroy(linger=0)
        await bus.close()
        await store.close()


async def test_a_status_that_is_not_to_be_had_is_an_unknown_one_with_the_reason(
    troubled: tuple[House, AwayAtTimes],
) -> None:
    house, store = troubled
    store.away = True
    cancel = IngestorControl(action=IngestorControl.CANCEL, request_id="r1")
    for question in (StatusRequest(request_id="r1"), cancel):
        answer = await house.client().ask(question)
        assert isinstance(answer, StatusResponse)
        assert (answer.state, answer.request_id) == (StatusResponse.UNKNOWN, "r1")
        assert answer.error == "the store is away; ask again"


async def test_a_submission_that_cannot_be_judged_is_to_be_sent_again(troubled: tuple[House, AwayAtTimes]) -> None:
    house, store = troubled
    await house.ingestor()
    client = house.client()
    assert (await client.ask(asked())).status == SubmitResponse.ACCEPTED
    store.away = True
    answer = await client.ask(asked())
    assert (answer.status, answer.request_id) == (SubmitResponse.NO_INGESTOR, "r1")
    assert answer.error.endswith("; ask again")


async def test_an_id_that_is_too_long_is_invalid_and_not_to_be_asked_for_again(house: House) -> None:
    client = house.client()
    status = await client.ask(StatusRequest(request_id=LONG))
    assert isinstance(status, StatusResponse)
    assert (status.state, status.request_id) == (StatusResponse.UNKNOWN, LONG)
    assert "a key has" in status.error
    assert "ask again" not in status.error
    live = await client.ask(DataRequest(request_id=LONG, type=DataRequest.REALTIME_TICKS, ticker="SIM:BTC"))
    assert (live.status, live.request_id) == (SubmitResponse.INVALID, LONG)


async def test_the_client_waits_on_while_the_status_is_not_to_be_had(troubled: tuple[House, AwayAtTimes]) -> None:
    house, store = troubled
    await house.ingestor()
    async with Relay(house.where.requests, house.where.clients) as client:
        task = asyncio.create_task(client.fetch("SIM:BTC", "1m", "1h", request_id="r1"))
        await until(lambda: house.bus.read("request"), "the request is on the bus")
        store.away = True

        async def missed() -> bool:
            return store.missed > 0

        await until(missed, "the status was asked for in vain")
        outcome = await outcome_of(house, "r1")
        store.away = False
        assert await soon(task) == outcome
