"""A stream comes back while that may help, and says why where it does not."""

import pytest
from websockets.datastructures import Headers
from websockets.http11 import Response

from artery.client.frames import passes
from artery.client.tries import BUSY_MAX, FIRST_PAUSE_S, LONGEST_PAUSE_S, Tries
from artery.errors import NotAllowed, TooMuch, Unavailable

A, B = "http://a", "http://b"


def tries(*bases: str) -> Tries:
    return Tries(bases or (A,), chance=lambda _low, high: high)


def answer(status: int, **headers: str) -> Response:
    return Response(status, "", Headers({name.replace("_", "-"): value for name, value in headers.items()}), b"")


def test_pauses_grow_until_a_gateway_speaks() -> None:
    made = tries()
    pauses = []
    for _ in range(10):
        made.connected()
        pauses.append(made.next())
    assert pauses[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert pauses[-1] == LONGEST_PAUSE_S
    made.let_in()
    assert made.next() == FIRST_PAUSE_S


def test_gateways_take_turns_and_none_is_waited_for_before_one_was_reached() -> None:
    made = tries(A, B)
    made.unanswered()
    assert (made.next(), made.base) == (0.0, B)
    with pytest.raises(Unavailable, match=f"nothing answers at {B}"):
        made.unanswered()


def test_a_client_that_was_let_in_once_outlives_any_trouble_of_the_moment() -> None:
    made = tries()
    made.connected()
    made.let_in()
    for _ in range(3 * BUSY_MAX):
        made.busy(Unavailable("the store is away"))
        made.unanswered()
        made.next()


def test_a_client_that_never_got_in_is_told_what_the_gateway_says() -> None:
    made = tries()
    for _ in range(BUSY_MAX - 1):
        made.connected()
        made.busy(Unavailable("the store is away"))
    with pytest.raises(Unavailable, match="the store is away"):
        made.busy(Unavailable("the store is away"))


def test_a_gateway_that_denies_ends_nothing_while_another_only_cannot_now() -> None:
    made = tries(A, B)
    for _ in range(3):
        made.connected()
        made.busy(TooMuch("later"))
        made.next()
        made.refused(answer(403))
        made.next()
    with pytest.raises(NotAllowed):
        made.refused(answer(403))


def test_it_waits_as_long_as_it_is_told() -> None:
    made = tries()
    made.refused(answer(503, Retry_After="7"))
    assert made.next() == 7.0
    made.refused(answer(503))
    assert made.next() == 2 * FIRST_PAUSE_S


@pytest.mark.parametrize(
    ("frame", "may_pass"),
    [
        ({"type": "error", "code": "internal"}, True),
        ({"type": "error", "code": "rate_limited"}, True),
        ({"type": "error", "code": "rate_limited", "id": "1"}, True),
        ({"type": "error", "code": "internal", "id": "1"}, True),
        ({"type": "error", "code": "subscription_limit", "id": "1"}, False),
        ({"type": "error", "code": "unknown_channel", "id": "1"}, False),
        ({"type": "error", "code": "unauthenticated"}, False),
        ({"type": "event", "code": "internal"}, False),
    ],
)
def test_an_error_of_the_moment_is_told_from_one_that_stays(frame: dict[str, str], may_pass: bool) -> None:
    assert passes(frame) is may_pass
