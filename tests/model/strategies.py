"""Events as Hypothesis makes them."""

from decimal import Decimal

from hypothesis import strategies as st

from artery.model.events import Book, Candle, Clock, Mark, Mids, Trade
from artery.model.periods import Period

times = st.integers(0, 4_102_444_800_000)
whole = st.integers(1, 10**15)
coins = st.from_regex(r"[A-Za-z0-9._/@#+:-]{1,12}", fullmatch=True)
providers = st.from_regex(r"[a-z0-9_]{1,12}", fullmatch=True)
above_zero = st.decimals("0.000000000000000001", "99999999999999999999", places=18, allow_nan=False)
not_negative = st.decimals(0, "99999999999999999999", places=18, allow_nan=False)
levels = st.lists(st.tuples(above_zero, not_negative), max_size=5).map(tuple)
periods = st.sampled_from(["1s", "5s", "1m", "90s", "15m", "4h", "1d"]).map(Period.parse)
head = {"provider": providers, "event_ts": times, "epoch": whole, "seq": whole}

trades = st.builds(
    Trade,
    **head,
    coin=coins,
    ts=times,
    tid=st.text("0123456789abcdef", min_size=1, max_size=20),
    px=above_zero,
    sz=above_zero,
    side=st.sampled_from(["B", "S"]),
)
books = st.builds(Book, **head, coin=coins, ts=times, bids=levels, asks=levels, depth=st.integers(1, 20))
mids = st.builds(Mids, **head, mids=st.dictionaries(coins, not_negative, max_size=5))
clocks = st.builds(Clock, provider=providers, epoch=whole, ts=times, up_to=st.just("12"))
marks = st.builds(
    Mark,
    provider=providers,
    epoch=whole,
    ts=times,
    from_ms=times,
    to_ms=times,
    cause=st.sampled_from(["start", "failover", "stall"]),
    coin=st.one_of(st.just(""), coins),
    up_to=st.just("3"),
    last=st.dictionaries(coins, st.just("1.2.3"), max_size=3),
)


@st.composite
def candle(draw: st.DrawFn) -> Candle:
    period = draw(periods)
    low, one, two, high = sorted(draw(st.lists(above_zero, min_size=4, max_size=4)))
    return Candle(
        **{name: draw(strategy) for name, strategy in head.items()},
        coin=draw(coins),
        period=period,
        start_ts=period.start(draw(times)),
        o=one,
        h=high,
        l=low,
        c=two,
        v=draw(not_negative),
        n=draw(st.integers(0, 10**9)),
        closed=draw(st.booleans()),
        rev=draw(st.integers(0, 9)),
        up_to=draw(st.sampled_from(["", "17", "1730000000000-3"])),
    )


def small_trade(second: int, tid: int, px: int, sz: int, coin: str = "BTC", seq: int = 0) -> Trade:
    """A trade whose name decides its place, as a leader's stamp does."""
    ts = 1_730_000_000_000 + second * 100
    return Trade(
        provider="sim", event_ts=ts, epoch=1, seq=seq or tid + 1, coin=coin, ts=ts, tid=str(tid),
        px=Decimal(px), sz=Decimal(sz), side="B",
    )  # fmt: skip
