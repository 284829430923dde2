"""One connection on a virtual clock: who is asked for, who is up, and what silence means."""

from decimal import Decimal

from artery.model.events import Book, Mids, Trade
from artery.providers.base import Batch, Down, Signal, Up
from artery.providers.frames import Ack, Data, Stream
from artery.providers.hyperliquid import HyperliquidDialect
from artery.providers.roster import Roster
from artery.providers.session import Session
from artery.providers.timing import Timing

TIMING = Timing()
WALL = 1_794_800_000_000


class Talk:
    """A session, its clock, and what it said and sent so far."""

    def __init__(self, *coins: str, roster: Roster | None = None) -> None:
        self.roster = roster or Roster(coins, TIMING)
        self.now = 1_000.0
        self.session = Session(HyperliquidDialect("sim"), self.roster, TIMING, self.now, self.wall_ms)
        self.sent: list[str] = []
        self.told: list[Signal] = []
        self.wait(0)

    @property
    def wall_ms(self) -> int:
        return WALL + int(self.now * 1_000)

    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            self.session.tick(self.now)
            self.sent += self.session.take_sends(self.now)
            self.told += self.session.take_signals()
            if self.now >= end:
                return
            self.now = min(end, self.now + TIMING.tick_s)

    def hear(self, heard: Ack | Data) -> None:
        self.session.hear(heard, self.now, self.wall_ms)
        self.sent += self.session.take_sends(self.now)
        self.told += self.session.take_signals()

    def ack(self, kind: str, coin: str = "") -> None:
        self.hear(Ack("subscribe", Stream(kind, coin)))  # type: ignore[arg-type]

    def book(self, coin: str, late_ms: int = 0) -> None:
        event = Book(provider="sim", event_ts=self.wall_ms, coin=coin, ts=self.wall_ms - late_ms, bids=(), asks=())
        self.hear(Data("book", [event]))

    def trade(self, coin: str, tid: str = "1") -> None:
        one = Decimal(1)
        event = Trade(
            provider="sim", event_ts=self.wall_ms, coin=coin, ts=self.wall_ms, tid=tid, px=one, sz=one, side="B"
        )
        self.hear(Data("trades", [event]))

    def mids(self) -> None:
        self.hear(Data("mids", [Mids(provider="sim", event_ts=self.wall_ms, mids={})]))

    def asked_for(self, kind: str, coin: str) -> int:
        return self.sent.count(f'{{"method":"subscribe","subscription":{{"type":"{kind}","coin":"{coin}"}}}}')

    def ups(self) -> list[tuple[str, ...]]:
        return [signal.coins for signal in self.told if isinstance(signal, Up)]

    def downs(self) -> list[Down]:
        return [signal for signal in self.told if isinstance(signal, Down)]


def connected(*coins: str) -> Talk:
    """All markets acknowledged and moving."""
    talk = Talk(*coins)
    talk.ack("mids")
    for coin in coins:
        talk.ack("trades", coin)
    for coin in coins:
        talk.ack("book", coin)
        talk.book(coin)
    talk.told.clear()
    talk.sent.clear()
    return talk


def test_new_markets_are_asked_for_one_by_one() -> None:
    talk = Talk("BTC", "NOPE", "ETH")
    assert [talk.asked_for("trades", coin) for coin in ("BTC", "NOPE", "ETH")] == [1, 0, 0]
    talk.ack("trades", "BTC")
    assert [talk.asked_for("trades", coin) for coin in ("BTC", "NOPE", "ETH")] == [1, 1, 0]
    talk.session.was_closed = True
    assert talk.session.guilty == "NOPE"


def test_markets_that_were_taken_before_are_asked_for_at_once() -> None:
    roster = Roster(["BTC", "ETH", "SOL"], TIMING)
    for coin in ("BTC", "ETH", "SOL"):
        roster.trust(coin)
    talk = Talk(roster=roster)
    assert [talk.asked_for("trades", coin) for coin in roster.coins] == [1, 1, 1]
    assert [talk.asked_for("l2Book", coin) for coin in roster.coins] == [1, 1, 1]
    talk.session.was_closed = True
    assert talk.session.guilty == ""
    assert talk.session.unanswered() == ["BTC", "ETH", "SOL"]


def test_markets_acknowledged_together_come_up_together() -> None:
    talk = Talk("BTC", "ETH")
    talk.ack("trades", "BTC")
    assert talk.ups() == []
    talk.ack("trades", "ETH")
    assert talk.ups() == [("BTC", "ETH")]
    assert [signal.at_ms for signal in talk.told if isinstance(signal, Up)] == [talk.wall_ms]


def test_the_opening_batch_comes_after_the_announcement_and_is_not_lost() -> None:
    talk = Talk("BTC", "ETH")
    talk.ack("trades", "BTC")
    talk.trade("BTC", "7")
    assert talk.told == []
    talk.ack("trades", "ETH")
    assert [type(signal) for signal in talk.told] == [Up, Batch]


def test_a_market_that_never_answers_does_not_hold_up_the_others() -> None:
    talk = Talk("MUTE", "BTC", "ETH")
    talk.wait(TIMING.ack_s + 1)
    talk.mids()
    talk.ack("trades", "BTC")
    talk.ack("trades", "ETH")
    assert talk.ups() == [("BTC", "ETH")]
    assert [down.coins for down in talk.downs()] == [("MUTE",)]
    talk.mids()
    talk.wait(9)
    talk.mids()
    talk.wait(4)
    assert talk.asked_for("trades", "MUTE") == 2
    talk.ack("trades", "MUTE")
    assert talk.ups()[-1] == ("MUTE",)


def test_a_late_acknowledgement_still_counts() -> None:
    talk = Talk("BTC")
    talk.wait(TIMING.ack_s + 0.5)
    talk.ack("trades", "BTC")
    assert talk.ups() == [("BTC",)]


def test_pings_go_out_every_twenty_seconds() -> None:
    talk = connected("BTC")
    for _ in range(59):
        talk.wait(1)
        talk.mids()
        talk.book("BTC")
    assert talk.sent.count('{"method":"ping"}') == 2


def test_a_socket_without_data_is_given_up_in_time_whatever_its_pongs_say() -> None:
    talk = connected("BTC")
    talk.wait(9.5)
    assert not talk.session.verdict
    talk.wait(1)
    assert "no data" in talk.session.verdict


def test_a_market_that_falls_silent_is_down_since_it_last_spoke_and_is_subscribed_anew() -> None:
    talk = connected("BTC", "ETH")
    silent_since = talk.wall_ms
    for _ in range(13):
        talk.wait(1)
        talk.book("BTC")
    [down] = talk.downs()
    assert down.coins == ("ETH",)
    assert down.from_ms == silent_since - TIMING.margin_ms
    assert talk.asked_for("trades", "ETH") == 1
    assert talk.asked_for("l2Book", "ETH") == 1
    assert not talk.session.verdict


def test_a_market_that_was_silent_is_up_again_only_when_it_speaks() -> None:
    talk = connected("BTC", "ETH")
    for _ in range(13):
        talk.wait(1)
        talk.book("BTC")
    talk.ack("trades", "ETH")
    talk.ack("book", "ETH")
    assert talk.ups() == []
    talk.book("ETH")
    assert talk.ups() == [("ETH",)]


def test_a_silent_book_whose_trades_still_come_is_subscribed_anew_without_a_hole() -> None:
    talk = connected("BTC", "ETH")
    for number in range(14):
        talk.wait(1)
        talk.book("BTC")
        talk.trade("ETH", str(number))
    assert talk.downs() == []
    assert talk.asked_for("l2Book", "ETH") == 1
    assert talk.asked_for("trades", "ETH") == 0


def test_a_market_whose_trades_fall_silent_after_its_book_is_down_too() -> None:
    talk = connected("BTC", "ETH")
    for second in range(24):
        talk.wait(1)
        talk.book("BTC")
        if second == 9:
            talk.trade("ETH")
            last = talk.wall_ms
    [down] = talk.downs()
    assert down.coins == ("ETH",)
    assert down.from_ms == last - TIMING.margin_ms
    talk.ack("trades", "ETH")
    talk.book("ETH")
    assert talk.ups() == [("ETH",)]


def test_silent_trades_alone_mean_nothing() -> None:
    talk = connected("BTC")
    for _ in range(600):
        talk.wait(5)
        talk.book("BTC")
        talk.mids()
    assert talk.downs() == []
    assert not talk.session.verdict


def test_a_slow_consumer_is_not_the_venues_silence() -> None:
    talk = connected("BTC")
    talk.now += 60
    talk.session.paused(60)
    talk.wait(1)
    assert not talk.session.verdict
    assert talk.downs() == []


def test_a_frame_that_waited_in_a_buffer_vouches_for_its_own_time_only() -> None:
    talk = connected("BTC")
    at = talk.wall_ms
    talk.now += 30
    talk.session.paused(30)
    talk.book("BTC", late_ms=30_000)
    assert talk.session.good_until_ms() == at - TIMING.margin_ms


def test_a_lost_connection_is_down_since_the_market_that_was_heard_least_lately() -> None:
    talk = connected("BTC", "ETH")
    since = talk.wall_ms
    talk.wait(3)
    talk.book("BTC")
    [down] = talk.roster.lost("gone", talk.session.good_until_ms())
    assert (down.coins, down.from_ms) == ((), since - TIMING.margin_ms)
    assert talk.roster.lost("gone", 0) == []


def test_a_trade_that_cannot_be_read_is_a_hole_said_once_a_minute() -> None:
    talk = connected("BTC", "ETH")
    talk.now += 60 - talk.wall_ms % 60_000 / 1_000
    talk.hear(Data("trades", [], bad=1, torn=frozenset(["ETH", "STRANGE"])))
    talk.hear(Data("trades", [], bad=1, torn=frozenset(["ETH"])))
    assert [(type(signal), signal.coins) for signal in talk.told if not isinstance(signal, Batch)] == [
        (Down, ("ETH",)),
        (Up, ("ETH",)),
    ]


def test_events_of_markets_that_were_not_asked_for_are_left_out() -> None:
    talk = connected("BTC")
    talk.book("DOGE")
    assert talk.told == []


def test_a_thousand_markets_keep_within_the_venues_limit_of_messages() -> None:
    roster = Roster([f"C{number}" for number in range(1_000)], TIMING)
    for coin in roster.coins:
        roster.trust(coin)
    talk = Talk(roster=roster)
    assert len(talk.sent) <= 1_000
    for _ in range(59):
        talk.wait(1)
        talk.mids()
    assert len(talk.sent) <= 2_000


def test_a_refused_market_is_left_out_longer_each_time_and_can_come_back() -> None:
    roster = Roster(["BTC", "NOPE"], TIMING)
    roster.refused("NOPE", 0.0)
    assert roster.untried() == ["BTC"]
    assert roster.to_probe(TIMING.quarantine_s - 1) == ""
    assert roster.to_probe(TIMING.quarantine_s) == "NOPE"
    roster.refused("NOPE", TIMING.quarantine_s)
    assert roster.to_probe(TIMING.quarantine_s * 2) == ""
    assert roster.to_probe(TIMING.quarantine_s * 3) == "NOPE"
    talk = Talk(roster=roster)
    talk.ack("trades", "BTC")
    talk.session.admit("NOPE")
    talk.wait(1)
    assert talk.asked_for("trades", "NOPE") == 1


def test_a_market_can_be_added_while_the_others_go_on() -> None:
    talk = connected("BTC")
    before = len(talk.sent)
    talk.session.follow(*talk.roster.want(["BTC", "ETH"]), talk.wall_ms)
    talk.wait(0.5)
    assert talk.sent[before:] == ['{"method":"subscribe","subscription":{"type":"trades","coin":"ETH"}}']
    talk.ack("trades", "ETH")
    talk.wait(TIMING.gather_s + 1)
    assert talk.ups()[-1] == ("ETH",)
    assert talk.asked_for("l2Book", "ETH") == 1
    assert talk.downs() == []


def test_a_dropped_market_is_left_at_the_venue_and_nothing_more_is_told_of_it() -> None:
    talk = connected("BTC", "ETH")
    talk.session.follow(*talk.roster.want(["BTC"]), talk.wall_ms)
    talk.wait(0.5)
    left = [text for text in talk.sent if '"unsubscribe"' in text]
    assert [('"trades"' in text, '"ETH"' in text) for text in left] == [(True, True), (False, True)]
    told = len(talk.told)
    talk.trade("ETH", "late")
    for _ in range(int(TIMING.book_stale_s) + 3):
        talk.book("BTC")
        talk.mids()
        talk.wait(1)
    assert all(isinstance(signal, Batch) for signal in talk.told[told:])
    coins = {
        event.coin
        for signal in talk.told[told:]
        if isinstance(signal, Batch)
        for event in signal.events
        if isinstance(event, (Trade, Book))
    }
    assert coins == {"BTC"}
    talk.session.follow(*talk.roster.want(["BTC", "ETH"]), talk.wall_ms)
    talk.wait(0.5)
    talk.ack("trades", "ETH")
    talk.wait(TIMING.gather_s + 1)
    assert talk.ups()[-1] == ("ETH",)


def test_a_market_that_is_dropped_before_it_was_answered_for_holds_nobody_up() -> None:
    talk = connected("BTC")
    talk.session.follow(*talk.roster.want(["BTC", "ETH", "SOL"]), talk.wall_ms)
    talk.wait(0.5)
    talk.session.follow(*talk.roster.want(["BTC", "SOL"]), talk.wall_ms)
    talk.wait(0.5)
    talk.ack("trades", "ETH")  # too late
    talk.ack("trades", "SOL")
    talk.wait(TIMING.gather_s + 1)
    assert talk.ups()[-1] == ("SOL",)
    assert talk.downs() == []
