"""The hub hands each event to whoever wants it, once, in order, and says what is missing."""

import json
from typing import Any

from artery.gateway import hub as hub_module
from artery.gateway.frames import MARKET_TYPES, Batch
from artery.gateway.hub import Hub
from tests.gateway.made import BTC, ETH, MIDS, T0, book, candle, mark, message, mids, trade
from tests.gateway.test_sendqueue import read

TRADES = frozenset(("TRADE",))


class Client:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.wire = b""

    def deliver(self, batch: Batch) -> None:
        self.wire += batch.wire

    @property
    def seen(self) -> list[dict[str, Any]]:
        return read(self.wire)

    def kinds(self) -> list[tuple[str, str]]:
        return [(item["type"], item["series"]) for item in self.seen]


def test_every_session_gets_the_same_bytes() -> None:
    hub, clients = Hub(), [Client() for _ in range(3)]
    for client in clients:
        hub.join(client, BTC, TRADES)
    hub.accept([message(trade(1)), message(trade(2))])
    assert clients[0].wire == clients[1].wire == clients[2].wire
    first = clients[0].seen[0]
    assert list(first) == ["type", "channel", "series", "position", "data"]
    assert (first["position"], first["data"]["px"]) == (str(trade(1).position), "100")


def test_a_session_gets_only_the_types_and_channels_it_asked_for() -> None:
    hub, trader, watcher = Hub(), Client(), Client()
    hub.join(trader, BTC, TRADES)
    hub.join(watcher, BTC, frozenset(("BOOK_TOPN", "CANDLE:1m")))
    hub.accept([message(trade(1)), message(book(1)), message(trade(1, coin="ETH"))])
    hub.accept_candles([candle(0)])
    assert trader.kinds() == [("event", "TRADE")]
    assert watcher.kinds() == [("event", "BOOK_TOPN"), ("event", "CANDLE:1m")]


def test_who_has_left_gets_nothing_and_nothing_is_kept_of_it() -> None:
    hub, client = Hub(), Client()
    hub.join(client, BTC, TRADES)
    hub.leave(client, BTC, TRADES)
    hub.leave(client, BTC, TRADES)
    hub.leave(client, ETH, TRADES)
    hub.accept([message(trade(1))])
    assert client.wire == b""
    assert hub.subscribers(BTC) == 0
    assert not hub._groups


def test_repeats_and_a_former_leader_are_left_out() -> None:
    hub, client = Hub(), Client()
    hub.join(client, BTC, TRADES)
    hub.accept([message(trade(1, epoch=5)), message(trade(1, epoch=5)), message(trade(7, epoch=4))])
    assert len(client.seen) == 1


def test_a_hole_in_a_series_is_a_gap_before_what_follows() -> None:
    hub, client = Hub(), Client()
    hub.join(client, BTC, TRADES)
    hub.accept([message(trade(1)), message(trade(5))])
    _, gap, event = client.seen
    assert gap == {
        "type": "gap",
        "channel": BTC,
        "series": "TRADE",
        "from": str(trade(1).position),
        "to": f"1.4.{T0 + 50}",
        "from_ms": T0 + 10,
        "to_ms": T0 + 50,
        "reason": "upstream",
    }
    assert event["data"]["seq"] == "5"


def test_a_new_leader_without_a_word_is_a_gap_by_failover() -> None:
    hub, client = Hub(), Client()
    hub.join(client, BTC, TRADES)
    hub.accept([message(trade(3)), message(trade(1, epoch=2, ts=T0 + 99))])
    assert [item["type"] for item in client.seen] == ["event", "gap", "event"]
    assert client.seen[1]["reason"] == "failover"
    assert client.seen[1]["to"] == f"2.0.{T0 + 99}"


def test_a_mark_tells_every_watcher_of_the_provider_once() -> None:
    hub, client, other = Hub(), Client(), Client()
    hub.join(client, BTC, MARKET_TYPES)
    hub.join(other, "artery:stream:kalshi:BTC", TRADES)
    hub.accept([message(trade(3, epoch=1))])
    hub.note_epoch("sim", 1)
    hub.accept_mark(mark(2, T0, T0 + 500, last={"BTC|TRADE": "1.3.9"}))
    hub.accept([message(trade(1, epoch=2, ts=T0 + 600))])
    gaps = [item for item in client.seen if item["type"] == "gap"]
    assert [(gap["series"], gap["reason"]) for gap in gaps] == [
        ("BOOK_TOPN", "failover"),
        ("CANDLE:1m", "failover"),
        ("TRADE", "failover"),
    ]
    assert (gaps[2]["from"], gaps[2]["from_ms"], gaps[2]["to_ms"]) == ("1.3.9", T0, T0 + 500)
    assert client.kinds()[-1] == ("event", "TRADE")
    assert other.wire == b""


def test_a_mark_of_one_market_and_epoch_is_upstream_and_for_that_market_only() -> None:
    hub, btc, eth = Hub(), Client(), Client()
    hub.join(btc, BTC, TRADES)
    hub.join(eth, ETH, TRADES)
    hub.note_epoch("sim", 2)
    hub.accept_mark(mark(2, T0, T0 + 500, coin="ETH"))
    assert [item["reason"] for item in eth.seen] == ["upstream"]
    assert btc.wire == b""


def test_a_mark_of_what_a_trim_lost_says_so() -> None:
    hub, client = Hub(), Client()
    hub.join(client, BTC, TRADES)
    hub.note_epoch("sim", 2)
    hub.accept_mark(mark(2, T0, T0 + 500, coin="BTC", cause="trimmed"))
    assert [item["reason"] for item in client.seen] == ["trimmed"]


def test_a_mark_without_a_hole_is_not_told() -> None:
    hub, client = Hub(), Client()
    hub.join(client, BTC, TRADES)
    hub.accept_mark(mark(2, T0, T0))
    assert client.wire == b""


def test_who_comes_gets_the_newest_snapshots_and_positions() -> None:
    hub = Hub()
    hub.accept([message(book(1)), message(book(2)), message(trade(4)), message(mids(T0))])
    hub.accept_candles([candle(1, seq=2, closed=False), candle(0, seq=3)])
    found = [json.loads(frame.wire[frame.wire.index(b"{") :]) for frame in hub.snapshots(BTC, MARKET_TYPES)]
    assert [(item["series"], item["data"]["seq"]) for item in found] == [("BOOK_TOPN", "2"), ("CANDLE:1m", "2")]
    assert all(frame.snapshot for frame in hub.snapshots(BTC, MARKET_TYPES))
    assert hub.positions(BTC, MARKET_TYPES)["TRADE"] == str(trade(4).position)
    assert len(hub.snapshots(MIDS, frozenset(("MIDS",)))) == 1
    assert hub.positions(MIDS, frozenset(("MIDS",))) == {}


def test_the_past_fills_snapshots_but_reaches_nobody() -> None:
    hub, client = Hub(), Client()
    hub.join(client, BTC, MARKET_TYPES)
    hub.accept_candles([candle(0)], live=False)
    assert client.wire == b""
    assert hub.newest(BTC, "CANDLE:1m") is not None


def test_memory_of_series_is_bounded() -> None:
    hub = Hub()
    for n in range(hub_module.SERIES_MAX + 10):
        hub.remember(message(trade(1, coin=f"C{n}")))
    assert hub.newest("artery:stream:sim:C0", "TRADE") is None
    assert hub.newest(f"artery:stream:sim:C{hub_module.SERIES_MAX}", "TRADE") is not None


def test_a_sink_that_leaves_while_it_is_served_harms_nobody() -> None:
    hub, last = Hub(), Client()

    class Leaver(Client):
        def deliver(self, batch: Batch) -> None:
            hub.leave(self, BTC, TRADES)

    hub.join(Leaver(), BTC, TRADES)
    hub.join(last, BTC, TRADES)
    hub.accept([message(trade(1))])
    assert len(last.seen) == 1
    assert hub.subscribers(BTC) == 1


def test_sessions_with_the_same_channels_share_one_joined_buffer() -> None:
    hub = Hub()

    class Keeper(Client):
        batches: list[Batch]

        def deliver(self, batch: Batch) -> None:
            self.batches = [*getattr(self, "batches", []), batch]

    both, same, one = Keeper(), Keeper(), Keeper()
    for sink, channels in ((both, (BTC, ETH)), (same, (BTC, ETH)), (one, (ETH,))):
        for channel in channels:
            hub.join(sink, channel, TRADES)
    hub.accept([message(event) for event in (trade(1), trade(1, coin="ETH"), trade(2), book(1), trade(2, coin="ETH"))])
    assert len(both.batches) == len(one.batches) == 1
    assert both.batches[0] is same.batches[0]
    seen = [(item["channel"], item["data"]["seq"]) for item in read(both.batches[0].wire)]
    assert sorted(seen) == [(BTC, "1"), (BTC, "2"), (ETH, "1"), (ETH, "2")]
    assert seen.index((BTC, "1")) < seen.index((BTC, "2"))
    assert seen.index((ETH, "1")) < seen.index((ETH, "2"))
    assert [item["channel"] for item in read(one.batches[0].wire)] == [ETH, ETH]
    assert both.batches[0].wire == b"".join(frame.wire for frame in both.batches[0].frames)
