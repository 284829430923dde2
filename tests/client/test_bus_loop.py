"""The library's loop over events: nothing lost, nothing stuck, and what nobody can do is given up."""

import asyncio
from contextlib import suppress

import pytest
from prometheus_client import REGISTRY

from artery.bus.base import DEAD, Bus
from artery.bus.open import open_bus
from artery.client.bus import StreamBusConsumer
from artery.errors import Unavailable
from artery.model.events import Candle
from tests.client.logs import Log, consumer, published
from tests.faults.proxy import Proxy
from tests.kafka import BROKER
from tests.servers import RedisServer, until


async def test_a_loop_acks_what_its_body_has_done(log: Log, bus: Bus) -> None:
    await published(log, *(f"C{n}" for n in range(250)))
    seen: list[str] = []
    async with consumer(log) as mine:
        async for event in mine.events("candle", limit=250):
            assert isinstance(event, Candle)
            seen.append(event.coin)
    assert seen == [f"C{n}" for n in range(250)]
    state = await bus.group("candle", "cg_mine_candle")
    assert (state.pending, state.lag) == (0, 0)


async def _fails_at(log: Log, coin: str) -> None:
    async with consumer(log) as mine:
        async for event in mine.events("candle"):
            if event.coin == coin:  # type: ignore[union-attr]
                raise RuntimeError("the body failed")


async def test_an_event_whose_body_failed_is_the_first_of_the_next_loop(log: Log, bus: Bus) -> None:
    await published(log, "A", "B", "C")
    with pytest.raises(RuntimeError):
        await _fails_at(log, "B")
    assert (await bus.group("candle", "cg_mine_candle")).pending == 2
    async with consumer(log) as mine:
        again = [event.coin async for event in mine.events("candle", limit=2)]  # type: ignore[union-attr]
    assert again == ["B", "C"]
    assert (await bus.group("candle", "cg_mine_candle")).pending == 0


async def test_only_the_event_that_fails_again_and_again_is_given_up(log: Log, bus: Bus) -> None:
    await published(log, "A", "B", "C")
    tried: list[str] = []
    for _ in range(5):
        async with consumer(log) as mine:
            async for event in mine.events("candle"):
                tried.append(event.coin)  # type: ignore[union-attr]
                break  # as good as an exception: the event is not done
    assert tried == ["A"] * 5
    async with consumer(log) as mine:
        rest = [event.coin async for event in mine.events("candle", limit=2)]  # type: ignore[union-attr]
    assert rest == ["B", "C"]
    [letter] = await bus.read(DEAD)
    assert letter.fields["coin"] == "A"
    assert letter.fields["error"] == "given out 5 times and never done"
    assert (await bus.group("candle", "cg_mine_candle")).pending == 0


def given_up(stream: str) -> float:
    labels = {"stream": stream, "group": "cg_mine_candle"}
    return REGISTRY.get_sample_value("artery_bus_dead_letters_total", labels) or 0.0


async def test_with_one_consumer_every_failing_event_has_five_tries_and_no_other_waits_for_more(
    log: Log, bus: Bus
) -> None:
    await published(log, "A", "bad1", "B", "bad2")
    await bus.append("candle", [{"hello": "world"}])
    await published(log, "slow", "C")
    tried, before = list[str](), given_up("candle")
    async with consumer(log) as mine:
        while not tried or tried[-1] != "C":
            with suppress(RuntimeError):
                async for event in mine.events("candle"):
                    coin = event.coin  # type: ignore[union-attr]
                    tried.append(coin)
                    if coin.startswith("bad") or (coin == "slow" and tried.count("slow") < 5):
                        raise RuntimeError("the body failed")
                    if coin == "C":
                        break
    assert tried == ["A", *["bad1"] * 5, "B", *["bad2"] * 5, *["slow"] * 5, "C"]
    letters = [letter.fields for letter in await bus.read(DEAD)]
    assert [(letter.get("coin"), letter["tries"]) for letter in letters] == [("bad1", "5"), ("bad2", "5"), (None, "1")]
    assert given_up("candle") == before + 3
    assert (await bus.group("candle", "cg_mine_candle")).pending == 1


async def test_stopping_half_way_keeps_what_was_done(log: Log, bus: Bus) -> None:
    await published(log, "A", "B", "C", "D")
    stuck = asyncio.Event()

    async def run() -> None:
        async with consumer(log) as mine:
            async for event in mine.events("candle"):
                if event.coin == "C":  # type: ignore[union-attr]
                    stuck.set()
                    await asyncio.Event().wait()

    task = asyncio.create_task(run())
    async with asyncio.timeout(60):
        await stuck.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    async with consumer(log) as mine:
        assert [event.coin async for event in mine.events("candle", limit=2)] == ["C", "D"]  # type: ignore[union-attr]


async def test_an_entry_that_was_trimmed_while_it_was_pending_is_given_up(log: Log, bus: Bus) -> None:
    await published(log, "A", "B", "C", "D")
    async with consumer(log) as mine:
        await mine.ensure_group("candle")
        assert len(await mine.read_new("candle", 2, 2_000)) == 2
        await bus.trim("candle", keep=1)
        assert [event.coin async for event in mine.events("candle", limit=1)] == ["D"]  # type: ignore[union-attr]
    assert [letter.fields["error"] for letter in await bus.read(DEAD)] == [
        "the entry was trimmed before it was handled"
    ] * 2


async def test_two_consumers_of_a_group_share_its_events(log: Log, bus: Bus) -> None:
    coins = [f"C{n}" for n in range(60)]
    seen, all_seen = list[str](), asyncio.Event()

    async def run(mine: StreamBusConsumer) -> None:
        async for event in mine.events("candle"):
            seen.append(event.coin)  # type: ignore[union-attr]
            if len(seen) == len(coins):
                all_seen.set()

    async with consumer(log, "one") as one, consumer(log, "two") as two:
        tasks = [asyncio.create_task(run(mine)) for mine in (one, two)]
        await published(log, *coins)
        async with asyncio.timeout(60):
            await all_seen.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(seen) == sorted(coins)


async def test_a_loop_whose_consumer_is_closed_while_it_waits_ends_and_says_so(log: Log, bus: Bus) -> None:
    await published(log, "A")
    mine = consumer(log)
    await mine.connect()
    events = mine.events("candle")
    await anext(events)
    waiting = asyncio.ensure_future(anext(events))  # so A is done, and is acked by the read that waits
    async with asyncio.timeout(30):
        while (await bus.group("candle", "cg_mine_candle")).pending:
            continue
    await mine.close()
    with pytest.raises(Unavailable):
        await waiting


async def test_what_is_left_over_and_asked_for_in_vain_has_all_its_tries_all_the_same(server: RedisServer) -> None:
    direct = server.new_url()
    async with Proxy(server.port) as proxy:
        log = Log(f"redis://127.0.0.1:{proxy.port}/{direct.rpartition('/')[2]}")
        await published(log, "A")
        tried: list[str] = []
        async with consumer(log) as mine:
            await _one_that_fails(mine, tried)
            proxy.unheard = b"XPENDING"  # what is left over is given out, and counted, and nobody hears of it
            second = asyncio.ensure_future(_one_that_fails(mine, tried))
            await until(lambda: proxy.kept_back >= 4)
            proxy.heal()
            await second
            for _ in range(3):
                await _one_that_fails(mine, tried)
            await published(log, "B")
            await _one_that_fails(mine, tried)
        assert tried == ["A"] * 5 + ["B"]
        bus = open_bus(direct)
        assert [(letter.fields["coin"], letter.fields["tries"]) for letter in await bus.read(DEAD)] == [("A", "5")]
        await bus.close()


async def _one_that_fails(mine: StreamBusConsumer, tried: list[str]) -> None:
    async for event in mine.events("candle"):
        tried.append(event.coin)  # type: ignore[union-attr]
        break


async def test_a_loop_that_begins_while_the_server_is_away_waits_for_it() -> None:
    server = RedisServer(None, "--appendfsync", "always")
    log = Log(server.new_url())
    try:
        await published(log, "A")
        async with consumer(log) as mine:
            server.kill()
            first = asyncio.ensure_future(anext(mine.events("candle")))
            with pytest.raises(Unavailable):
                await mine.read_new("candle")
            server.start()
            assert (await first).coin == "A"  # type: ignore[union-attr]
    finally:
        server.end()


async def test_what_cannot_be_understood_is_given_up_at_once(log: Log, bus: Bus) -> None:
    await bus.append("candle", [{"hello": "world"}])
    await published(log, "A")
    async with consumer(log) as mine:
        assert [event.coin async for event in mine.events("candle", limit=1)] == ["A"]  # type: ignore[union-attr]
    [letter] = await bus.read(DEAD)
    assert (letter.fields["hello"], letter.fields["tries"]) == ("world", "1")
    assert "version None is not known" in letter.fields["error"]


async def test_what_a_dead_consumer_left_is_taken_over(log: Log, bus: Bus) -> None:
    await published(log, "A", "B")
    async with consumer(log, "gone") as gone:
        await gone.ensure_group("candle")
        assert len(await gone.read_new("candle", 100)) == 2
    async with consumer(log, "heir", idle_ms=0) as heir:
        taken = [event.coin async for event in heir.events("candle", limit=2)]  # type: ignore[union-attr]
    assert taken == ["A", "B"]
    assert (await bus.group("candle", "cg_mine_candle")).pending == 0


async def test_what_a_name_left_over_is_found_though_it_comes_to_it_late() -> None:
    log = Log(BROKER.running_url(), BROKER.new_base())
    await published(log, "A", "B")
    async with consumer(log, idle_ms=1_500) as heir:
        async with consumer(log) as gone:
            await gone.ensure_group("candle")
            assert len(await gone.read_new("candle", 2, 30_000)) == 2
            events = heir.events("candle")
            first = asyncio.ensure_future(anext(events))
            assert not (await asyncio.wait({first}, timeout=1))[0], "the stream is another's"
        async with asyncio.timeout(60):
            assert [event.coin for event in (await first, await anext(events))] == ["A", "B"]  # type: ignore[union-attr]


async def test_a_loss_is_counted_and_the_loop_goes_on(log: Log, bus: Bus) -> None:
    await bus.ensure_group("candle", "cg_mine_candle")
    await published(log, "A", "B", "C")
    await bus.trim("candle", keep=1)
    async with consumer(log) as mine:
        assert [event.coin async for event in mine.events("candle", limit=1)] == ["C"]  # type: ignore[union-attr]
        assert mine.losses == 1


async def test_a_loop_waits_for_a_server_that_went_away_and_says_when_it_came_back_empty() -> None:
    server = RedisServer(None, "--appendfsync", "always")
    log = Log(server.new_url())
    try:
        await published(log, "A")
        seen: list[str] = []
        async with consumer(log) as mine:
            async for event in mine.events("candle", limit=3):
                seen.append(event.coin)  # type: ignore[union-attr]
                if len(seen) < 3:
                    server.kill()
                    if len(seen) == 2:
                        server.forget()
                    server.start()
                    await published(log, "B" if len(seen) == 1 else "C")
            assert mine.losses == 1
        assert seen == ["A", "B", "C"]
    finally:
        server.end()
