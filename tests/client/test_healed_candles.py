"""Candles that were lost on the way from the relay, read from a real gateway."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from artery.client import Artery, healed_candles
from artery.client.frames import Gap
from artery.client.relayed import Candles
from artery.model.channels import Channel
from artery.model.events import Candle
from artery.pipeline.published import ohlc
from tests.gateway.made import MINUTE, T0, candle
from tests.gateway.running import started

MARKET = Channel("sim", "BTC")


async def heard(*candles: Candle) -> AsyncIterator[Candle | Gap]:
    """What a client hears of the relay if only these versions arrive."""
    order = Candles(MARKET)
    for one in candles:
        for item in order.take(ohlc(one)):
            yield item


async def found(artery: Artery, *candles: Candle) -> list[tuple[int, int, int, bool] | str]:
    """(minute, close, rev, closed) of each, or a gap's reason."""
    healed = healed_candles.healed_candles(heard(*candles), MINUTE, partial(artery.history, "sim:BTC", "1m"))
    return [
        item.reason
        if isinstance(item, Gap)
        else ((item.start_ts - T0) // MINUTE.ms, int(item.c), item.rev, item.closed)
        async for item in healed
    ]


async def test_a_closed_candle_that_was_lost_comes_from_the_gateway(tmp_path: Path) -> None:
    made = [candle(minute, seq=minute + 1, close=minute + 1) for minute in range(8)]
    async with started(tmp_path) as running, Artery(running.url, running.key) as artery:
        await running.candles(*made)
        half = candle(2, seq=2, close=9, closed=False)
        assert await found(artery, candle(1, seq=1, close=2), half, candle(5, seq=6, close=6)) == [
            (1, 2, 0, True), (2, 9, 0, False), (2, 3, 0, True), (3, 4, 0, True), (4, 5, 0, True), (5, 6, 0, True),
        ]  # fmt: skip


async def test_a_correction_that_was_lost_comes_from_the_gateway_too(tmp_path: Path) -> None:
    made = [candle(minute, seq=minute + 1) for minute in range(5)]
    async with started(tmp_path) as running, Artery(running.url, running.key) as artery:
        await running.candles(*made, candle(1, seq=6, close=77, rev=1), candle(5, seq=7))
        assert await found(artery, made[3], made[4], candle(5, seq=7)) == [
            (3, 100, 0, True), (4, 100, 0, True), (1, 77, 1, True), (4, 100, 0, True), (5, 100, 0, True),
        ]  # fmt: skip


async def test_what_the_gateway_does_not_have_either_stays_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(healed_candles, "AGAIN_S", 0.0)
    made = [candle(minute, seq=minute + 1) for minute in range(6)]
    async with started(tmp_path) as running, Artery(running.url, running.key) as artery:
        await running.candles(*made[:3], *made[4:])
        assert await found(artery, made[1], made[5]) == [
            (1, 100, 0, True), (1, 100, 0, True), (2, 100, 0, True), (4, 100, 0, True), "missed", (5, 100, 0, True),
        ]  # fmt: skip


async def test_a_gateway_that_is_away_leaves_the_gap_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(healed_candles, "AGAIN_S", 0.0)
    async with Artery("http://127.0.0.1:9", "art_live_x.y") as artery:
        assert await found(artery, candle(1, seq=1), candle(2, seq=3)) == [
            (1, 100, 0, True), "missed", (2, 100, 0, True),
        ]  # fmt: skip
