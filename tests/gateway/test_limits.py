"""Whoever asks too often waits; nobody else does, and remembering it costs little."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from artery.errors import NotAllowed, TooMuch
from artery.gateway import keys
from artery.gateway.access import Access, Credential
from artery.gateway.limits import LIMITS
from artery.gateway.rates import Rates, network
from artery.gateway.service import CROWD_S, rates_of
from artery.settings import Settings
from artery.store.open import open_store
from tests.gateway.made import BTC
from tests.gateway.running import Running, hear, started, subscribe

STEPS = some.lists(some.tuples(some.floats(0, 3), some.integers(1, 3)), max_size=60)


@given(steps=STEPS, per_s=some.floats(0.5, 20), burst=some.integers(1, 30))
def test_no_stretch_of_time_has_more_than_its_burst_and_what_was_filled_since(
    steps: list[tuple[float, int]], per_s: float, burst: int
) -> None:
    rates, now_s, taken = Rates(per_s, burst), 0.0, list[tuple[float, int]]()
    for pause_s, cost in steps:
        now_s += pause_s
        if rates.take("ann", now_s, cost) == 0.0:
            taken.append((now_s, cost))
    for at, (start_s, _) in enumerate(taken):
        for end_s, total in _running_totals(taken[at:]):
            assert total <= burst + (end_s - start_s) * per_s + 1e-6


def _running_totals(taken: list[tuple[float, int]]) -> list[tuple[float, int]]:
    total, found = 0, []
    for at_s, cost in taken:
        total += cost
        found.append((at_s, total))
    return found


@given(steps=STEPS, per_s=some.floats(0.5, 20))
def test_after_the_wait_that_was_named_it_goes_on(steps: list[tuple[float, int]], per_s: float) -> None:
    rates, now_s = Rates(per_s, 5), 0.0
    for pause_s, cost in steps:
        now_s += pause_s
        wait_s = rates.take("ann", now_s, cost)
        if wait_s:
            now_s += wait_s + 1e-9
            assert rates.take("ann", now_s, cost) <= 1e-6


def test_names_do_not_share_and_zero_means_no_limit() -> None:
    rates, free = Rates(1, 2), Rates(0, 0)
    assert [rates.take("ann", 0.0) for _ in range(3)] == [0.0, 0.0, 1.0]
    assert rates.take("bob", 0.0) == 0.0
    assert [free.take("ann", 0.0) for _ in range(1_000)] == [0.0] * 1_000
    assert len(free) == 0


def test_a_flood_of_names_costs_no_memory_and_the_newest_are_kept() -> None:
    rates = Rates(0.001, 1, names_max=100)
    for n in range(10_000):
        rates.take(f"10.0.{n // 256}.{n % 256}", 0.0)
    assert len(rates) == 100
    assert rates.wait_s("10.0.39.15", 0.0) > 0


def test_spending_more_than_there_is_leaves_an_empty_bucket_not_a_debt() -> None:
    rates = Rates(1, 5)
    for _ in range(1_000):
        rates.spend("ann", 0.0)
    assert rates.wait_s("ann", 0.0) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("address", "whole"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("nonsense", "nonsense"),
    ],
)
def test_an_address_stands_for_whoever_has_it(address: str, whole: str) -> None:
    assert network(address) == whole


async def test_wrong_keys_from_one_address_are_counted_and_another_address_is_not_touched() -> None:
    store, clock = open_store("sqlite:///:memory:"), [0.0]
    access = Access(store, now_s=lambda: clock[0], strangers=Rates(1, 3))
    _, text = await keys.make_key(store, "ann", ["read"])
    known = await access.verify(Credential(key=text), "192.0.2.7")
    for _ in range(3):
        with pytest.raises(NotAllowed):
            await access.verify(Credential(key="wrong"), "192.0.2.7")
    with pytest.raises(TooMuch) as refused:
        await access.verify(Credential(key="wrong"), "192.0.2.7")
    assert refused.value.wait_s == pytest.approx(1.0)
    with pytest.raises(TooMuch):
        await access.open_page(key=text, address="192.0.2.7")
    assert await access.verify(Credential(key=text), "192.0.2.7") is known  # who was let in a moment ago stays in
    assert (await access.verify(Credential(key=text), "192.0.2.8")).user == "ann"
    clock[0] = 3.0
    assert (await access.verify(Credential(key=text), "192.0.2.7")).user == "ann"
    await store.close()


async def test_a_key_that_asks_too_often_is_told_how_long_to_wait_and_others_are_not(tmp_path: Path) -> None:
    async with started(tmp_path, gateway={"port": 0, "requests_per_s": 0.001}) as running:
        _, text = await keys.make_key(running.store, "ann", ["read"])
        async with running.http() as local, running.http(running.bearer(text)) as ann:
            answers = [await local.get("/v1/markets") for _ in range(2)]
            assert [answer.status_code for answer in answers] == [429, 429]  # a bucket of less than one token
            assert answers[0].json()["error"]["code"] == "rate_limited"
            assert int(answers[0].headers["retry-after"]) > 1
            assert (await ann.get("/healthz")).status_code == 200


async def test_strangers_are_slowed_down_and_those_with_keys_are_not(tmp_path: Path) -> None:
    async with started(tmp_path, gateway={"port": 0, "strangers_per_s": 0.5}) as running:
        await _wear_out(running)
        async with running.http() as friend, running.http({}) as stranger:
            assert (await friend.get("/v1/markets")).status_code == 200
            assert (await stranger.get("/openapi.json")).status_code == 429
            assert (await stranger.get("/healthz")).status_code == 200
        async with running.connect(additional_headers=running.bearer("wrong")) as socket:
            await socket.wait_closed()
            assert socket.close_code == 4029


async def test_a_key_that_connects_too_often_is_closed_to_come_back_later_and_others_are_not(tmp_path: Path) -> None:
    async with started(tmp_path, gateway={"port": 0, "connects_per_s": 0.2}) as running:  # bursts of four
        _, text = await keys.make_key(running.store, "ann", ["stream"])
        ann = {"additional_headers": running.bearer(text)}
        for _ in range(4):
            async with running.connect(**ann) as socket:
                assert (await subscribe(socket, BTC))["type"] == "subscribed"
        async with running.connect(**ann) as refused:
            said = await hear(refused)
            assert (said["type"], said["code"]) == ("error", "rate_limited")
            await refused.wait_closed()
            assert refused.close_code == 4029
        async with running.connect() as other:
            assert (await subscribe(other, BTC))["type"] == "subscribed"


def test_a_thousand_clients_of_one_key_may_come_back_at_once() -> None:
    settings = Settings().gateway
    rates = rates_of(settings.connects_per_s, CROWD_S)
    let_in = sum(rates.take("key", 0.0) == 0.0 for _ in range(5_000))
    assert let_in == pytest.approx(2_000, abs=1), "connected, cut, and back, and no more than that"


def test_the_limits_of_a_connection_are_those_that_clients_were_told() -> None:
    kib = 1_024
    assert (LIMITS.queue_events, LIMITS.queue_bytes, LIMITS.control_frames) == (256, 1_024 * kib, 64)
    assert (LIMITS.subscriptions, LIMITS.ping_s, LIMITS.idle_s) == (1_000, 20.0, 60.0)
    assert (LIMITS.inbound_bytes, LIMITS.frames_per_s, LIMITS.frames_burst) == (64 * kib, 20.0, 60.0)
    assert (LIMITS.early_frames, LIMITS.early_bytes) == (64, 64 * kib)
    assert (LIMITS.verify_s, LIMITS.unverified) == (10.0, 200)
    assert (LIMITS.replay_bytes, LIMITS.held_bytes, LIMITS.replays) == (64 * kib * kib, 64 * kib * kib, 8)


async def _wear_out(running: Running) -> None:
    """Show wrong keys until the address has none left to show; who is known stays so for a moment."""
    async with running.http() as friend, running.http(running.bearer("wrong")) as stranger:
        await friend.get("/v1/markets")
        codes = [(await stranger.get("/v1/markets")).status_code for _ in range(8)]
        await friend.get("/v1/markets")
    assert codes[:2] == [401, 401]
    assert codes[-1] == 429
