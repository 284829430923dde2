"""What a peer on 5559 is told when its request cannot be answered."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import zmq.asyncio

from artery.bus.base import Bus
from artery.bus.open import open_bus
from artery.client.relay import Relay
from artery.errors import Unavailable
from artery.relay import door
from artery.settings import Settings
from artery.store.base import Store
from artery.store.open import open_store
from artery.wire import requests
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


class SlowAtTimes:
    """A real bus whose appends wait while it is told so, and then fail if it is told that too."""

    def __init__(self, bus: Bus) -> None:
        self._bus, self.open, self.failing, self.waiting = bus, asyncio.Event(), False, 0
        self.open.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def append(self, *what: Any, **how: Any) -> Any:
        self.waiting += 1
        await self.open.wait()
        if self.failing:
            raise Unavailable("the bus is away")
        return await self._bus.append(*what, **how)


@pytest.fixture
async def slow(tmp_path: Path) -> AsyncIterator[tuple[House, SlowAtTimes]]:
    settings = Settings().with_(data={"dir": str(tmp_path)}, relay=FREE)
    settings.folder.mkdir()
    bus, store, context = open_bus(settings.bus_url()), open_store(settings.store_url()), zmq.asyncio.Context()
    made = SlowAtTimes(bus)
    try:
        async with relay(settings, made, store) as where:  # type: ignore[arg-type]
            yield House(settings, bus, store, where, context), made
    finally:
        context.destroy(linger=0)
        await bus.close()
        await store.close()


async def test_a_request_whose_answer_came_too_late_is_still_put_on_the_bus_or_undone(
    slow: tuple[House, SlowAtTimes], monkeypatch: pytest.MonkeyPatch
) -> None:
    house, bus = slow
    await house.ingestor()
    client = house.client()
    assert (await client.ask(asked("r0"))).status == SubmitResponse.ACCEPTED
    monkeypatch.setattr(door, "ANSWER_S", 0.2)
    for request_id, failing in (("r1", False), ("r2", True)):
        bus.open.clear()
        bus.failing = failing
        late = await client.ask(asked(request_id))
        assert (late.status, late.error) == (SubmitResponse.NO_INGESTOR, "no answer within 0.2 s; ask again")
        bus.open.set()

        async def settled(request_id: str = request_id, failing: bool = failing) -> bool:
            record = requests.read_record(await house.store.get(requests.key(request_id)))
            return record is None if failing else record is not None and record.state == "queued"

        await until(settled, "it is on the bus, or nothing of it is left")
    assert [requests.decode(entry.fields).request_id for entry in await house.bus.read("request")] == ["r0", "r1"]
    bus.failing = False
    monkeypatch.undo()
    assert (await client.ask(asked("r1"))).status == SubmitResponse.DUPLICATE
    assert (await client.ask(asked("r2"))).status == SubmitResponse.ACCEPTED


async def test_of_two_with_one_id_none_is_told_that_it_is_known_if_it_is_then_undone(
    slow: tuple[House, SlowAtTimes],
) -> None:
    house, bus = slow
    await house.ingestor()
    one, two = house.client(), house.client()
    assert (await one.ask(asked("r0"))).status == SubmitResponse.ACCEPTED
    bus.open.clear()
    bus.failing = True
    answers = [asyncio.create_task(peer.ask(asked("r1"))) for peer in (one, two)]

    async def begun() -> bool:
        return bus.waiting == 2  # r0, and r1 once

    await until(begun, "the first is being put on the bus")
    assert (await house.client().ask(StatusRequest(request_id="r1"))).state == StatusResponse.QUEUED
    bus.open.set()
    assert [(await soon(answer)).status for answer in answers] == [SubmitResponse.NO_INGESTOR] * 2
    assert await house.store.get(requests.key("r1")) is None


async def test_the_client_submits_again_what_nobody_knows_any_more(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("artery.client.relay.LOOK_S", 0.05)
    await house.ingestor()
    async with Relay(house.where.requests, house.where.clients) as client:
        task = asyncio.create_task(client.fetch("SIM:BTC", "1m", "1h", request_id="r1"))
        await until(lambda: house.bus.read("request"), "the request is on the bus")
        await house.store.delete(requests.key("r1"))

        async def twice() -> bool:
            return len(await house.bus.read("request")) == 2

        await until(twice, "it was submitted again")
        outcome = await outcome_of(house, "r1")
        assert await soon(task) == outcome


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
