"""The session decides by frames and clock alone; nothing a client sends can break it."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artery.gateway.grants import Grant
from artery.gateway.limits import LIMITS, Limits
from artery.gateway.session import Decision, Leave, Now, Ping, Say, Session, Shut, State, Watch
from tests.gateway.made import BTC, ETH, MIDS

GRANT = Grant("local", frozenset(("stream",)), "artery:key:1")


class Known:
    """Three channels, of which one has a position; it counts who wants what."""

    def __init__(self) -> None:
        self.taken: Counter[str] = Counter()

    def known(self, channel: str) -> bool:
        return channel in (BTC, ETH, MIDS) or channel.startswith("artery:stream:many:")

    def positions(self, channel: str, types: frozenset[str]) -> dict[str, str]:
        return {"TRADE": "1.2.3"} if channel == BTC and "TRADE" in types else {}

    def take(self, owner: str, channels: Sequence[str]) -> str:
        self.taken.update(channels)
        return ""

    def give(self, owner: str, channel: str) -> None:
        assert owner == GRANT.source
        self.taken[channel] -= 1
        assert self.taken[channel] >= 0


def session(limits: Limits = LIMITS) -> Session:
    return Session(Known(), limits, 0.0)


def live(limits: Limits = LIMITS) -> Session:
    made = session(limits)
    assert made.verified(GRANT, at(0)) == []
    return made


def at(s: float) -> Now:
    return Now(s, 1_730_000_000_000 + int(s * 1_000))


def frame(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def said(decisions: list[Decision]) -> list[dict[str, Any]]:
    return [json.loads(decision.payload) for decision in decisions if isinstance(decision, Say)]


def shut(decisions: list[Decision]) -> list[int]:
    return [decision.code for decision in decisions if isinstance(decision, Shut)]


def test_subscribing_answers_first_and_then_watches() -> None:
    answer, watch = live().receive(frame(type="subscribe", id="1", channels=[BTC]), at(1))
    assert said([answer]) == [
        {
            "type": "subscribed",
            "id": "1",
            "subscription_id": "sub_1",
            "channels": [{"channel": BTC, "positions": {"TRADE": "1.2.3"}}],
        }
    ]
    assert watch == Watch(BTC, frozenset(("TRADE", "BOOK_TOPN", "CANDLE:1m")))


def test_a_channel_may_have_its_own_types_and_since() -> None:
    wanted = {"channel": BTC, "types": ["TRADE", "CANDLE:60s"], "since": {"ms": 5}}
    decisions = live().receive(frame(type="subscribe", id="1", channels=[wanted, MIDS]), at(1))
    first, second = [decision for decision in decisions if isinstance(decision, Watch)]
    assert first.types == {"TRADE", "CANDLE:1m"}
    assert first.since is not None
    assert first.since.ms == 5
    assert second.types == {"MIDS"}


def test_subscribing_again_replaces_the_types() -> None:
    one = live()
    one.receive(frame(type="subscribe", id="1", channels=[BTC]), at(1))
    again = frame(type="subscribe", id="2", channels=[{"channel": BTC, "types": ["TRADE"]}])
    _, watch = one.receive(again, at(2))
    assert watch == Watch(BTC, frozenset(("TRADE",)), old=frozenset(("TRADE", "BOOK_TOPN", "CANDLE:1m")))
    assert one.subscriptions == {BTC: frozenset(("TRADE",))}


def test_unsubscribing_is_answered_even_if_there_was_nothing() -> None:
    one = live()
    one.receive(frame(type="subscribe", id="1", channels=[BTC]), at(1))
    decisions = one.receive(frame(type="unsubscribe", id="2", channels=[BTC, "nonsense"]), at(2))
    assert isinstance(decisions[0], Leave)
    assert said(decisions) == [{"type": "unsubscribed", "id": "2", "channels": [BTC, "nonsense"]}]
    assert said(one.receive(frame(type="unsubscribe", id="3", channels=[BTC]), at(3)))[0]["id"] == "3"
    assert one.subscriptions == {}


def test_a_ping_with_a_body_is_answered_with_its_id_and_the_time() -> None:
    assert said(live().receive(frame(type="ping", id="9", body=[1]), at(2))) == [
        {"type": "pong", "id": "9", "ts": 1_730_000_002_000}
    ]


def test_one_unknown_channel_refuses_the_whole_request() -> None:
    one = live()
    decisions = one.receive(frame(type="subscribe", id="1", channels=[BTC, "artery:stream:sim:NOPE"]), at(1))
    assert [(item["id"], item["code"]) for item in said(decisions)] == [("1", "unknown_channel")]
    assert one.subscriptions == {}


def test_the_limit_counts_channels_not_requests() -> None:
    one = live(Limits(subscriptions=3))
    names = [f"artery:stream:many:{n}" for n in range(4)]
    for _ in range(3):
        assert said(one.receive(frame(type="subscribe", id="1", channels=names[:3]), at(1)))[0]["type"] == "subscribed"
    assert said(one.receive(frame(type="subscribe", id="2", channels=names[3:]), at(1)))[0]["code"] == (
        "subscription_limit"
    )
    one.receive(frame(type="unsubscribe", id="3", channels=names[:1]), at(1))
    assert said(one.receive(frame(type="subscribe", id="4", channels=names[3:]), at(1)))[0]["type"] == "subscribed"


def test_too_many_channels_are_too_many_whether_or_not_they_are_known() -> None:
    names = [f"artery:stream:sim:NOPE{n}" for n in range(LIMITS.subscriptions + 1)]
    (refusal,) = said(live().receive(frame(type="subscribe", id="1", channels=names), at(1)))
    assert (refusal["code"], "1000" in refusal["message"]) == ("subscription_limit", True)


@pytest.mark.parametrize(
    "data",
    [
        b"not json",
        b"",
        b"[]",
        b"1",
        b'"text"',
        b"{}",
        b"[" * 60_000,
        b'{"type":5}',
        b'{"type":"dance"}',
        b'{"type":"subscribe"}',
        b'{"type":"subscribe","channels":"x"}',
        b'{"type":"subscribe","channels":[5]}',
        b'{"type":"subscribe","channels":[{"types":["TRADE"]}]}',
        b'{"type":"subscribe","channels":["artery:stream:sim"]}',
        b'{"type":"subscribe","channels":["artery:stream:sim:bad market"]}',
        b'{"type":"subscribe","channels":[{"channel":"artery:stream:sim:BTC","types":[]}]}',
        b'{"type":"subscribe","channels":[{"channel":"artery:stream:sim:BTC","types":["CANDLE"]}]}',
        b'{"type":"subscribe","channels":[{"channel":"artery:stream:sim:BTC","types":["CANDLE:1w"]}]}',
        b'{"type":"subscribe","channels":[{"channel":"artery:stream:sim:BTC","since":{}}]}',
        b'{"type":"subscribe","channels":[{"channel":"artery:stream:sim:BTC","since":{"ms":-1}}]}',
        b'{"type":"subscribe","channels":[{"channel":"artery:stream:sim:BTC","since":{"positions":{"TRADE":"x"}}}]}',
        b'{"type":"subscribe","id":{"a":1},"channels":[]}',
        b'{"type":"ping","id":1.5}',
        b'\xff{"type":"ping"}',
    ],
)
def test_bad_frames_get_an_error_and_the_session_goes_on(data: bytes) -> None:
    one = live()
    decisions = one.receive(data, at(1))
    assert [item["code"] for item in said(decisions)] == ["bad_request"]
    assert one.state is State.LIVE
    assert said(one.receive(frame(type="ping", id="1"), at(1)))[0]["type"] == "pong"


def test_the_id_is_echoed_even_where_the_rest_is_wrong() -> None:
    assert said(live().receive(b'{"id":"7","type":["x"]}', at(1)))[0]["id"] == "7"


def test_early_frames_wait_and_are_handled_in_order() -> None:
    one = session()
    for n in range(64):
        assert one.receive(frame(type="ping", id=str(n)), at(0)) == []
    assert [item["id"] for item in said(one.verified(GRANT, at(1)))] == [str(n) for n in range(64)]


def test_early_frames_count_like_any_other() -> None:
    one = session()
    for n in range(64):
        one.receive(frame(type="ping", id=str(n)), at(0))
    assert len(one.verified(GRANT, at(0))) == 64
    assert said(one.receive(frame(type="ping", id="64"), at(0)))[0]["code"] == "rate_limited"
    assert said(one.receive(frame(type="ping", id="65"), at(1)))[0]["type"] == "pong"


@pytest.mark.parametrize("sizes", [[10] * 65, [40_000, 30_000]])
def test_too_much_before_verification_ends_the_session(sizes: list[int]) -> None:
    one = session()
    decisions: list[Decision] = []
    for size in sizes:
        decisions += one.receive(b"x" * size, at(0))
    assert shut(decisions) == [4029]
    assert one.verified(GRANT, at(1)) == []
    assert one.state is State.CLOSED


def test_without_a_key_the_session_ends_after_ten_seconds() -> None:
    one = session()
    assert one.tick(9.9) == []
    decisions = one.tick(10.0)
    assert said(decisions)[0]["code"] == "unauthenticated"
    assert shut(decisions) == [4500]


def test_a_key_without_the_scope_is_refused() -> None:
    decisions = session().verified(Grant("u", frozenset(("read",)), "k"), at(1))
    assert said(decisions)[0]["code"] == "forbidden_scope"
    assert shut(decisions) == [4503]


def test_frames_beyond_the_rate_are_refused_and_then_the_session_ends() -> None:
    one = live()
    decisions = [one.receive(frame(type="ping", id=str(n)), at(1)) for n in range(120)]
    kinds = [said(decision)[0]["type"] for decision in decisions]
    assert kinds[:60] == ["pong"] * 60
    assert kinds[60:] == ["error"] * 60
    assert said(decisions[60])[0]["code"] == "rate_limited"
    assert shut(decisions[-1]) == [4029]
    assert not any(shut(decision) for decision in decisions[:-1])


def test_a_client_within_the_rate_goes_on_for_ever() -> None:
    one = live()
    for n in range(2_000):
        assert said(one.receive(frame(type="ping", id="1"), at(1 + n / 20)))[0]["type"] == "pong"


@pytest.mark.parametrize("make", [live, session])
def test_pings_of_the_protocol_count_as_frames_too(make: Callable[[], Session]) -> None:
    one = make()
    ends = [shut(one.receive_other(1.0)) for _ in range(200)]
    assert [4029] in ends
    assert ends.count([4029]) == 1


def test_a_silent_client_is_pinged_and_then_let_go() -> None:
    one = live()
    pings = [s for s in range(1, 60) if one.tick(s) == [Ping()]]
    assert pings == [20, 40]
    assert shut(one.tick(60)) == [4012]


def test_a_client_that_talks_is_pinged_too() -> None:
    one = live()
    pings = []
    for s in range(1, 100):
        one.heard(s)
        pings += [s for decision in one.tick(s) if decision == Ping()]
    assert pings == [20, 40, 60, 80]


def test_any_byte_keeps_the_session() -> None:
    one = live()
    for s in range(1, 300):
        if s % 50 == 0:
            one.heard(s)
        assert shut(one.tick(s)) == []


def test_closing_leaves_every_channel_and_nothing_happens_after_it() -> None:
    one = live()
    one.receive(frame(type="subscribe", id="1", channels=[BTC, ETH]), at(1))
    decisions = one.close(4000, "restart")
    assert [type(decision) for decision in decisions] == [Leave, Leave, Shut]
    assert one.receive(frame(type="subscribe", id="2", channels=[BTC]), at(2)) == []
    assert one.receive_binary() == one.receive_other(3) == one.tick(99) == one.close(4000, "") == []
    assert one.subscriptions == {}


def test_binary_frames_are_a_protocol_error() -> None:
    decisions = live().receive_binary()
    assert said(decisions)[0]["code"] == "bad_request"
    assert shut(decisions) == [4504]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
CHANNEL = st.sampled_from([BTC, ETH, MIDS, "artery:stream:sim:*:x", "artery:stream::", ""]) | st.text(max_size=30)
REQUEST = st.fixed_dictionaries(
    {"type": st.sampled_from(["subscribe", "unsubscribe", "ping", "ack", ""])},
    optional={
        "id": JSON,
        "channels": JSON
        | st.lists(
            CHANNEL
            | st.fixed_dictionaries(
                {"channel": CHANNEL}, optional={"types": JSON | st.lists(st.text()), "since": JSON}
            ),
            max_size=5,
        ),
    },
)
FRAMES = (
    st.binary(max_size=200) | JSON.map(lambda v: json.dumps(v).encode()) | REQUEST.map(lambda v: json.dumps(v).encode())
)


@given(st.lists(st.tuples(st.sampled_from("rrrrovbt"), FRAMES, st.floats(0, 30)), max_size=40))
def test_no_frame_at_no_time_raises_and_what_is_kept_is_bounded(steps: list[tuple[str, bytes, float]]) -> None:
    one = session()
    now_s = 0.0
    watched: set[str] = set()
    for kind, data, wait_s in steps:
        now_s += wait_s / 10
        decisions: list[Decision] = []
        if kind == "r":
            decisions = one.receive(data, at(now_s))
        elif kind == "o":
            decisions = one.receive_other(now_s)
        elif kind == "v":
            decisions = one.verified(GRANT, at(now_s))
        elif kind == "b" and data[:1] == b"\x00":
            decisions = one.receive_binary()
        elif kind == "t":
            decisions = one.tick(now_s)
        for decision in decisions:
            if isinstance(decision, Watch):
                watched.add(decision.channel)
            elif isinstance(decision, Leave):
                watched.discard(decision.channel)
        assert all(json.loads(decision.payload)["type"] for decision in decisions if isinstance(decision, Say))
    assert watched == set(one.subscriptions)
    assert len(one.subscriptions) <= LIMITS.subscriptions
    if one.state is State.CLOSED:
        assert not one.subscriptions
