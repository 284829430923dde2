"""Silence is noticed per stream and for the socket, on a virtual clock."""

from artery.providers.frames import Stream
from artery.providers.liveness import Liveness

BOOK, OTHER, TRADES, MIDS = Stream("book", "BTC"), Stream("book", "ETH"), Stream("trades", "BTC"), Stream("mids")


def listening() -> Liveness:
    liveness = Liveness({"book": 12.0, "mids": 30.0}, 10.0, 0.0)
    for stream in (BOOK, OTHER, TRADES, MIDS):
        liveness.expect(stream, 0.0)
    return liveness


def test_a_socket_without_data_is_silent_after_its_limit() -> None:
    liveness = listening()
    assert not liveness.silent(10.0)
    assert liveness.silent(10.1)


def test_data_of_any_stream_keeps_the_socket_alive() -> None:
    liveness = listening()
    liveness.heard(MIDS, 9.0)
    assert not liveness.silent(19.0)


def test_one_silent_book_is_noticed_while_the_others_move() -> None:
    liveness = listening()
    for now in range(1, 14):
        liveness.heard(OTHER, float(now))
        liveness.heard(MIDS, float(now))
    assert liveness.stale(12.0) == []
    assert liveness.stale(12.1) == [BOOK]


def test_trades_of_a_quiet_market_may_be_silent_for_ever() -> None:
    liveness = listening()
    for stream in (BOOK, OTHER, MIDS):
        liveness.heard(stream, 7_200.0)
    assert liveness.stale(7_200.0) == []


def test_each_kind_has_a_limit_of_its_own() -> None:
    liveness = listening()
    for now in (12.0, 24.0, 30.0):
        liveness.heard(BOOK, now)
        liveness.heard(OTHER, now)
    assert liveness.stale(30.1) == [MIDS]


def test_time_in_which_nobody_listened_is_not_silence() -> None:
    liveness = listening()
    liveness.paused(60.0)
    assert not liveness.silent(65.0)
    assert liveness.stale(65.0) == []


def test_a_forgotten_stream_is_not_missed() -> None:
    liveness = listening()
    liveness.forget(BOOK)
    liveness.heard(OTHER, 20.0)
    assert liveness.stale(20.0) == []
    assert not liveness.expects(BOOK)
