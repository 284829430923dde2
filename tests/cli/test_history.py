"""`artery history --fetch`: the command asks a real relay, waits for the outcome, and reads from a real gateway."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import zmq.asyncio

from artery.app.notes import Note, write_note
from artery.wire import relays
from artery.wire.artery_pb2 import HistoryReadyNotification
from tests.cli.command import artery
from tests.gateway.made import MINUTE, candle
from tests.gateway.running import Running, started
from tests.relay.conftest import FREE, House, relay, until
from tests.relay.test_client import outcome_of

NOW_MS = int(time.time() * 1_000) // MINUTE.ms * MINUTE.ms


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[tuple[Running, House]]:
    """A gateway and a relay on the same folder, and an ingestor that hears of work."""
    context = zmq.asyncio.Context()
    async with started(tmp_path, relay=FREE) as running:
        write_note(running.settings.folder, Note("gateway", os.getpid(), running.url))
        try:
            async with relay(running.settings, running.bus, running.store) as where:
                house = House(running.settings, running.bus, running.store, where, context)
                await house.ingestor()
                await until(lambda: running.store.scan(relays.PREFIX, 1), "the relay says where it is")
                yield running, house
        finally:
            context.destroy(linger=0)


async def asked(house: House) -> str:
    (entry,) = await until(lambda: house.bus.read("request"), "the request is on the bus")
    return str(entry.fields["request_id"])


async def test_it_has_history_brought_and_shows_what_is_there_then(both: tuple[Running, House], tmp_path: Path) -> None:
    running, house = both
    words = ("history", "SIM:BTC", "1m", "--since", "1h", "--fetch", "--json")
    command = asyncio.create_task(asyncio.to_thread(artery, *words, folder=tmp_path))
    request_id = await asked(house)
    made = [msgspec.structs.replace(candle(0, close=7), start_ts=NOW_MS - n * MINUTE.ms) for n in (3, 2)]
    await running.candles(*made)
    await outcome_of(house, request_id)
    done = await command
    assert done.code == 0, done.err
    assert [row["close"] for row in json.loads(done.out)] == ["7", "7"]


async def test_an_error_of_the_venue_is_one_sentence(both: tuple[Running, House], tmp_path: Path) -> None:
    _, house = both
    command = asyncio.create_task(asyncio.to_thread(artery, "history", "SIM:BTC", "--fetch", folder=tmp_path))
    await outcome_of(house, await asked(house), HistoryReadyNotification.ERROR)
    done = await command
    assert (done.code, done.out) == (1, "")
    assert done.err.strip().splitlines()[-1] == "artery: the history could not be fetched: why"


async def test_what_could_only_be_brought_in_part_is_shown_and_said(
    both: tuple[Running, House], tmp_path: Path
) -> None:
    running, house = both
    words = ("history", "SIM:BTC", "1m", "--since", "1h", "--fetch", "--json")
    command = asyncio.create_task(asyncio.to_thread(artery, *words, folder=tmp_path))
    request_id = await asked(house)
    await running.candles(msgspec.structs.replace(candle(0, close=7), start_ts=NOW_MS - 2 * MINUTE.ms))
    await outcome_of(house, request_id, HistoryReadyNotification.PARTIAL)
    done = await command
    assert [row["close"] for row in json.loads(done.out)] == ["7"]
    assert (done.code, done.sentence) == (1, "only a part of it could be fetched: why")


async def test_without_a_relay_it_says_how_to_start_one(tmp_path: Path) -> None:
    async with started(tmp_path) as running:
        write_note(running.settings.folder, Note("gateway", os.getpid(), running.url))
        done = await asyncio.to_thread(artery, "history", "SIM:BTC", "--fetch", folder=tmp_path)
    assert done.code == 1
    assert "no relay runs on this data folder" in done.sentence
