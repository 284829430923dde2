"""Candles from micro-batches: whatever the order, the cuts and the crashes, they are the fold of the trades."""

import random
from collections.abc import Sequence
from decimal import Decimal

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from artery.model import codec, fold
from artery.model.events import Candle, Trade
from artery.model.periods import Period
from artery.pipeline.bars import batch_of
from artery.pipeline.candles import BEHIND, CandleBook
from artery.pipeline.folding import trade_bars
from artery.pipeline.minutes import Span
from artery.pipeline.parts import Batch, Partial, State

PERIODS = [Period(60), Period(300)]
BASE = 1_730_000_100_000
MINUTE = 60_000
DAY_MS = 86_400_000
DAY = BASE - BASE % DAY_MS


def trade(seq: int, ts: int, px: str = "10", sz: str = "1", coin: str = "BTC") -> Trade:
    return Trade(
        provider="sim",
        event_ts=ts,
        epoch=1,
        seq=seq,
        coin=coin,
        ts=ts,
        tid=str(seq),
        px=Decimal(px),
        sz=Decimal(sz),
        side="B",
    )


def partials(trades: Sequence[tuple[int, Trade]]) -> list[Partial]:
    """What Spark would hand over for these trades, each with its position on the bus."""
    result = []
    for period in PERIODS:
        for (provider, coin, start), bar in fold.bars([t for _, t in trades], period).items():
            inside = [at for at, t in trades if t.coin == coin and period.start(t.ts) == start]
            result.append(Partial((provider, coin, period.seconds, start), bar, str(max(inside))))
    return result


def venue(start: int, px: str, period: Period = PERIODS[0], n: int = 9) -> Candle:
    price = Decimal(px)
    return Candle(
        provider="sim",
        coin="BTC",
        period=period,
        start_ts=start,
        o=price,
        h=price,
        l=price,
        c=price,
        v=Decimal(100),
        n=n,
        closed=True,
        event_ts=0,
    )


def one(candles: Sequence[Candle], period_s: int = 60, start: int | None = None) -> Candle:
    found = [c for c in candles if c.period.seconds == period_s and start in (None, c.start_ts)]
    assert len(found) == 1, found
    return found[0]


def test_a_candle_is_open_until_the_clock_reaches_its_end() -> None:
    book = CandleBook(epoch=5)
    first = one(book.apply(Batch(partials([(1, trade(1, BASE + 5))]), {"sim": BASE + 59_999}), BASE))
    assert (first.closed, first.rev, first.up_to, first.epoch, first.seq) == (False, 0, "1", 5, 1)
    closed = one(book.apply(Batch(clocks={"sim": BASE + MINUTE}), BASE + MINUTE))
    assert (closed.closed, closed.rev, closed.seq, closed.c) == (True, 0, 2, Decimal(10))


def test_a_quiet_market_closes_without_a_further_trade_and_is_shown_once() -> None:
    book = CandleBook(1)
    book.apply(Batch(partials([(1, trade(1, BASE))])), BASE)
    assert one(book.apply(Batch(clocks={"sim": BASE + MINUTE}), BASE)).closed
    assert book.apply(Batch(clocks={"sim": BASE + MINUTE + 1}), BASE) == []


def test_another_providers_clock_closes_nothing() -> None:
    book = CandleBook(1)
    book.apply(Batch(partials([(1, trade(1, BASE))])), BASE)
    assert book.apply(Batch(clocks={"kalshi": BASE * 2}), BASE) == []


def test_a_late_trade_raises_the_revision_of_a_closed_candle() -> None:
    book = CandleBook(1)
    book.apply(Batch(partials([(1, trade(1, BASE + 10))]), {"sim": BASE + MINUTE}), BASE)
    late = one(book.apply(Batch(partials([(2, trade(2, BASE + 5, px="8"))])), BASE))
    assert (late.closed, late.rev, late.o, late.c, late.n) == (True, 1, Decimal(8), Decimal(10), 2)


def test_a_venues_candle_that_differs_wins_with_a_higher_revision() -> None:
    book = CandleBook(1)
    book.apply(Batch(partials([(1, trade(1, BASE))]), {"sim": BASE + MINUTE}), BASE)
    corrected = one(book.apply(Batch(venue=[venue(BASE, "99")]), BASE))
    assert (corrected.closed, corrected.rev, corrected.c, corrected.n) == (True, 1, Decimal(99), 9)


def test_a_venues_candle_in_the_same_batch_still_counts_as_a_correction() -> None:
    book = CandleBook(1)
    batch = Batch(partials([(1, trade(1, BASE))]), {"sim": BASE + MINUTE}, [venue(BASE, "99")])
    assert one(book.apply(batch, BASE)).rev == 1


def test_a_venues_candle_that_is_equal_changes_nothing() -> None:
    book = CandleBook(1)
    book.apply(Batch(partials([(1, trade(1, BASE, sz="100"))]), {"sim": BASE + MINUTE}), BASE)
    assert book.apply(Batch(venue=[venue(BASE, "10.00", n=1)]), BASE) == []


def test_a_trade_does_not_override_the_venues_word() -> None:
    book = CandleBook(1)
    book.apply(Batch(partials([(1, trade(1, BASE))]), {"sim": BASE + MINUTE}, [venue(BASE, "99")]), BASE)
    late = book.apply(Batch(partials([(2, trade(2, BASE + 1, px="1"))])), BASE + 9_000)
    assert [candle.period.seconds for candle in late] == [300]


def test_a_candle_of_which_we_saw_no_trade_comes_from_the_venue() -> None:
    book = CandleBook(1)
    given = one(book.apply(Batch(clocks={"sim": BASE + MINUTE}, venue=[venue(BASE, "99")]), BASE))
    assert (given.rev, given.closed, given.up_to) == (0, True, "")


def test_a_venues_open_or_long_past_candle_is_left_alone() -> None:
    book = CandleBook(1)
    past = venue(BASE - 2 * 3_600_000, "99")
    unfinished = msgspec.structs.replace(venue(BASE, "99"), closed=False)
    assert book.apply(Batch(clocks={"sim": BASE + MINUTE}, venue=[past, unfinished]), BASE) == []


def test_long_periods_are_shown_every_five_seconds_and_at_their_end() -> None:
    book = CandleBook(1)
    shown = []
    for second in range(20):
        batch = Batch(partials([(second + 1, trade(second + 1, BASE + second * 1_000))]))
        shown += [c.n for c in book.apply(batch, BASE + second * 1_000) if c.period.seconds == 300]
    assert shown == [1, 6, 11, 16]
    assert one(book.apply(Batch(clocks={"sim": BASE + 300_000}), BASE + 19_000), 300).n == 20


def test_what_was_held_back_is_shown_when_its_time_comes_without_a_further_trade() -> None:
    book = CandleBook(1)
    book.apply(Batch(partials([(1, trade(1, BASE))])), BASE)
    book.apply(Batch(partials([(2, trade(2, BASE + 1))])), BASE + 100)
    assert one(book.apply(Batch(), BASE + 5_000), 300).n == 2


def test_a_book_that_is_behind_shows_open_candles_every_five_seconds_and_closed_ones_at_once() -> None:
    book = CandleBook(1, periods=PERIODS)

    def catch_up(second: int, clock_ms: int) -> list[tuple[int, bool, int]]:
        made = partials([(second + 1, trade(second + 1, BASE + second * 1_000))])
        large = [msgspec.structs.replace(one, bar=msgspec.structs.replace(one.bar, n=BEHIND)) for one in made]
        shown = book.apply(Batch(large, {"sim": clock_ms}), BASE + second * 1_000)
        return [(candle.period.seconds, candle.closed, candle.n // BEHIND) for candle in shown]

    assert catch_up(0, BASE) == [(60, False, 1), (300, False, 1)]
    assert catch_up(2, BASE) == []
    assert catch_up(4, BASE + MINUTE) == [(60, True, 3)]
    assert catch_up(7, BASE + MINUTE) == [(60, True, 4), (300, False, 4)]
    caught_up = book.apply(Batch(partials([(9, trade(9, BASE + 2 * MINUTE))])), BASE + 13_000)
    assert [(candle.period.seconds, candle.n) for candle in caught_up] == [(60, 1), (300, 4 * BEHIND + 1)]


def test_a_trade_for_a_forgotten_candle_is_counted_not_shown() -> None:
    book = CandleBook(1)
    book.apply(Batch(partials([(1, trade(1, BASE))]), {"sim": BASE + 2 * 3_600_000}), BASE)
    assert len(book) == 0
    assert book.apply(Batch(partials([(2, trade(2, BASE + 1))])), BASE) == []
    assert book.stale == 2  # once in each of the two periods


def test_event_time_never_goes_back_even_if_the_clock_does() -> None:
    book = CandleBook(1)
    book.apply(Batch(partials([(1, trade(1, BASE))])), BASE + 1_000)
    assert one(book.apply(Batch(partials([(2, trade(2, BASE + 1))])), BASE - 3_600_000)).event_ts == BASE + 1_000


def test_volumes_keep_every_digit() -> None:
    book = CandleBook(1)
    sizes = ["12345678901234567.1", "0.000000000000000001"]
    batch = Batch(partials([(i, trade(i, BASE + i, sz=size)) for i, size in enumerate(sizes, 1)]))
    assert one(book.apply(batch, BASE)).v == Decimal("12345678901234567.100000000000000001")


def test_a_closed_candle_is_not_opened_by_a_book_that_catches_up() -> None:
    book = CandleBook(1)
    first = [(1, trade(1, BASE))]
    empty = book.state()
    on_bus = book.apply(Batch(partials(first)), BASE) + book.apply(Batch(clocks={"sim": BASE + MINUTE}), BASE)
    again = CandleBook(2)
    again.restore(empty, on_bus)
    assert [c for c in again.apply(Batch(partials(first)), BASE) if c.period.seconds == 60] == []
    assert again.apply(Batch(clocks={"sim": BASE + MINUTE}), BASE) == []


def minute(start: int, px: str, v: str = "5", n: int = 5) -> Candle:
    return msgspec.structs.replace(venue(start, px), v=Decimal(v), n=n)


UNWATCHED = Span("sim", "", BASE - MINUTE, BASE + MINUTE + 30_000)


def test_an_open_candle_begins_with_the_venues_minutes_that_nobody_watched() -> None:
    book = CandleBook(1)
    own = [(1, trade(1, BASE + MINUTE + 40_000, px="10")), (2, trade(2, BASE + 2 * MINUTE, px="12"))]
    book.apply(Batch(partials(own), {"sim": BASE + 2 * MINUTE}, unwatched=[UNWATCHED]), BASE)
    theirs = [minute(BASE, "7", n=3), minute(BASE + MINUTE, "9", v="4", n=4)]
    shown = one(book.apply(Batch(venue=theirs), BASE + 6_000), 300)
    assert (shown.o, shown.h, shown.l, shown.c) == (Decimal(7), Decimal(12), Decimal(7), Decimal(12))
    assert (shown.v, shown.n) == (Decimal(5 + 4 + 1), 3 + 4 + 1)  # the trade in the second minute is in the venue's
    assert book.apply(Batch(venue=theirs), BASE + 12_000) == []


def test_a_venues_minute_that_was_watched_adds_nothing_to_the_longer_candle() -> None:
    book = CandleBook(1)
    book.apply(Batch(partials([(1, trade(1, BASE))]), {"sim": BASE + MINUTE}), BASE)
    shown = book.apply(Batch(venue=[minute(BASE, "99")]), BASE + 6_000)
    assert [candle.period.seconds for candle in shown] == [60]


def test_an_old_minute_counts_only_if_nobody_watched_any_of_it() -> None:
    book = CandleBook(1)
    now = BASE + 10 * 3_600_000
    spans = [Span("sim", "BTC", BASE - 1, BASE + MINUTE), Span("sim", "BTC", BASE + MINUTE, BASE + 90_000)]
    theirs = [minute(BASE, "7"), minute(BASE + MINUTE, "8")]
    shown = book.apply(Batch(clocks={"sim": now}, venue=theirs, unwatched=spans), now)
    assert [(candle.period.seconds, candle.o, candle.c) for candle in shown] == [(86_400, Decimal(7), Decimal(7))]


def test_what_is_known_of_unwatched_minutes_survives_a_restart() -> None:
    book = CandleBook(1)
    before = book.apply(Batch(clocks={"sim": BASE + MINUTE}, venue=[minute(BASE, "7")], unwatched=[UNWATCHED]), BASE)
    again = CandleBook(2)
    again.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(book.state()), type=State), [])
    assert {candle.period.seconds for candle in before} == {60, 300, 900, 3_600, 14_400, 86_400}
    assert again.apply(Batch(venue=[minute(BASE, "7")]), BASE + 9_000) == []


# -- any order, any cut, any crash ------------------------------------------------------------------------------------

prices = st.decimals("0.01", "99999", places=2)
log_entries = st.lists(
    st.one_of(
        st.tuples(st.just("trade"), st.integers(0, 11 * MINUTE), prices, st.sampled_from(["BTC", "ETH"])),
        st.tuples(st.just("clock"), st.integers(0, 11 * MINUTE)),
    ),
    max_size=60,
)
FATES = ("goes on", "saves", "dies before the append", "dies after the append")
cuts = st.lists(st.tuples(st.integers(1, 12), st.sampled_from(FATES)), max_size=60)


class Driver:
    """The pipeline's loop over a log: fold, append, sometimes save; what it saves outlives it, as the bus does."""

    def __init__(self, log: Sequence[tuple[str, ...] | Trade]) -> None:
        self.log = log
        self.bus: list[Candle] = []
        self.saved: tuple[int, int, bytes] | None = None
        self.epoch = 0
        self.now_ms = BASE
        self.start()

    def start(self) -> None:
        self.epoch += 1
        self.at = 0
        self.book = CandleBook(self.epoch)
        if self.saved is None:
            self.book.restore(self.book.state(), self.bus)
            return
        self.at, shown, state = self.saved
        self.book.restore(msgspec.msgpack.decode(state, type=State), self.bus[shown:])

    def step(self, size: int, fate: str) -> None:
        part = list(enumerate(self.log, 1))[self.at : self.at + size]
        trades = [(at, entry) for at, entry in part if isinstance(entry, Trade)]
        clocks = [int(entry[1]) for _, entry in part if not isinstance(entry, Trade)]
        self.now_ms += 700
        candles = self.book.apply(Batch(partials(trades), {"sim": max(clocks)} if clocks else {}), self.now_ms)
        if fate == "dies before the append":
            return self.start()
        self.bus += candles
        if fate == "dies after the append":
            return self.start()
        self.at += len(part)
        if fate == "saves":
            self.saved = (self.at, len(self.bus), msgspec.msgpack.encode(self.book.state()))
        return None


@settings(max_examples=300, deadline=None)
@given(log_entries, cuts)
def test_every_trade_counts_once_whatever_the_cuts_and_the_crashes(
    entries: list[tuple[str, int, Decimal, str]], steps: list[tuple[int, str]]
) -> None:
    log = [
        trade(at, BASE + entry[1], px=str(entry[2]), coin=entry[3]) if entry[0] == "trade" else ("c", BASE + entry[1])
        for at, entry in enumerate(entries)
    ]
    driver = Driver(log)
    for size, fate in steps:
        driver.step(size, fate)
    while driver.at < len(log):
        driver.step(7, "goes on")
    driver.now_ms += 10_000
    driver.step(1, "goes on")

    trades = [entry for entry in log if isinstance(entry, Trade)]
    clock = max((entry[1] for entry in log if not isinstance(entry, Trade)), default=0)
    newest: dict[tuple[str, str, int, int], Candle] = {}
    for candle in driver.bus:
        old = newest.get(candle.key)
        if old is not None and old.closed:
            assert candle.closed, "a closed candle was opened"
            assert candle.rev > old.rev, "a closed candle changed without a higher revision"
        assert old is None or candle.version > old.version
        newest[candle.key] = candle
    for period in PERIODS:
        for (provider, coin, start), bar in fold.bars(trades, period).items():
            candle = newest.pop((provider, coin, period.seconds, start))
            assert (candle.o, candle.h, candle.l, candle.c) == (bar.o, bar.h, bar.l, bar.c)
            assert (candle.v, candle.n) == (bar.v, bar.n)
            assert candle.closed == (start + period.ms <= clock)
    assert newest == {}


@settings(max_examples=50, deadline=None)
@given(log_entries, cuts)
def test_positions_of_a_series_follow_each_other(
    entries: list[tuple[str, int, Decimal, str]], steps: list[tuple[int, str]]
) -> None:
    driver = Driver([trade(at, BASE + entry[1]) for at, entry in enumerate(entries)])
    for size, fate in steps:
        driver.step(size, fate)
    last: dict[tuple[str, str, int], int] = {}
    for candle in driver.bus:
        series = (candle.coin, str(candle.period), candle.epoch)
        assert candle.seq == last.get(series, 0) + 1
        last[series] = candle.seq


def day_of_markets(number: int, first_seq: int) -> list[list[tuple[str, bytes]]]:
    """A day of twenty markets in batches of ten minutes: some trades come late by up to a day, some are foreign."""
    dice, batches, seq = random.Random(number), [], first_seq
    for part in range(144):
        log = []
        for _ in range(10):
            seq += 1
            for coin in range(20):
                came_ms = DAY + number * DAY_MS + part * 600_000 + dice.randrange(600_000)
                late_ms = dice.choice([0] * 8 + [600_000, 7_200_000, DAY_MS])
                one = msgspec.structs.replace(
                    trade(seq, came_ms, px=str(dice.randrange(1, 10**6)), coin=f"C{coin}"), ts=came_ms - late_ms
                )
                if dice.random() < 0.05:
                    one = msgspec.structs.replace(one, provider="external", epoch=0)
                log.append((str(seq), msgspec.json.encode(codec.encode(one))))
        batches.append(log)
    return batches


def test_the_book_of_twenty_markets_is_no_larger_after_a_second_day() -> None:
    book, sizes = CandleBook(1), []
    for number in range(2):
        most = 0
        for part, log in enumerate(day_of_markets(number, number * 1_440)):
            batch = batch_of(trade_bars(log))[0]
            clock_ms = DAY + number * DAY_MS + (part + 1) * 600_000
            book.apply(msgspec.structs.replace(batch, clocks={"sim": clock_ms}), clock_ms)
            book.settle(book.owed(str(10**9)), str(10**9))
            most = max(most, len(book))
        assert most < 20 * 120, "an hour of minutes, and two of every longer length"
        sizes.append((most, len(msgspec.msgpack.encode(book.state()))))
    assert sizes[1][0] < sizes[0][0] * 1.1
    assert sizes[1][1] < sizes[0][1] * 1.1
    assert sizes[1][1] < 20 * 60_000, "bytes"
    assert book.stale > 1_000


def test_of_too_many_candles_the_oldest_closed_are_let_go_and_never_shown_in_part() -> None:
    book = CandleBook(1, periods=[Period(60)], held_max=3)

    def at(number: int, seq: int) -> list[Candle]:
        ts = BASE - BASE % MINUTE + number * MINUTE
        part = Partial(("sim", "BTC", 60, ts), fold.bar(trade(seq, ts)), str(seq))
        return book.apply(Batch([part], {"sim": ts + MINUTE}), ts)

    for number in range(6):
        at(number, number + 1)
    assert len(book) == 3
    again = CandleBook(2, periods=[Period(60)], held_max=3)
    again.restore(book.state(), [])
    for held in (book, again):
        late = Partial(("sim", "BTC", 60, BASE - BASE % MINUTE), fold.bar(trade(9, BASE - BASE % MINUTE + 1)), "9")
        assert held.apply(Batch([late]), BASE) == []
        assert held.stale == 1
        assert held.owed("8") == [], "the lake may not have the trade yet"
        assert held.owed("9") == [late.key], "the lake is asked to fold the candle anew"
        held.settle([late.key], "9")
        assert held.owed("9") == []


def test_a_candle_that_was_left_to_the_lake_waits_until_the_lake_has_all_that_is_in_it() -> None:
    book, start = CandleBook(1, periods=[Period(60)]), BASE - BASE % MINUTE
    key = ("sim", "BTC", 60, start)

    def part(seq: int, at: str) -> Partial:
        return Partial(key, fold.bar(trade(seq, start + seq)), at)

    book.apply(Batch([part(1, "10")]), start)
    book.apply(Batch(doubtful=[part(2, "20")]), start)
    book.apply(Batch([part(3, "30")], {"sim": start + MINUTE}), start)
    assert book.owed("25") == [], "what came after the doubtful one would be missing"
    assert book.owed("30") == [key]


def test_what_was_announced_in_vain_is_announced_again() -> None:
    book, start = CandleBook(1, periods=[Period(60)]), BASE - BASE % MINUTE
    mended = msgspec.structs.replace(venue(start, "11"), rev=1)
    told = book.told([mended])
    first = book.announce([mended])
    assert (len(first), book.announce([mended])) == (1, []), "once it is on the bus, that is all"
    book.untell(told)
    (again,) = book.announce([mended])
    assert (again.rev, again.c) == (first[0].rev, first[0].c)


def test_open_candles_are_held_however_many_there_are() -> None:
    book = CandleBook(1, periods=[Period(60)], held_max=3)
    parts = [Partial(("sim", f"C{n}", 60, BASE), fold.bar(trade(n, BASE, coin=f"C{n}")), str(n)) for n in range(1, 9)]
    book.apply(Batch(parts, {"sim": BASE}), BASE)
    assert len(book) == 8
    closed = book.apply(Batch(clocks={"sim": BASE + MINUTE}), BASE + MINUTE)
    assert [candle.closed for candle in closed] == [True] * 8
    assert len(book) <= 3


def test_a_provider_that_has_ended_keeps_nobody_from_forgetting() -> None:
    book = CandleBook(1, periods=[Period(60)])
    book.apply(Batch(clocks={"ended": BASE}), BASE)
    for hour in range(4):
        ts = BASE + hour * 3_600_000
        book.apply(Batch([Partial(("sim", "BTC", 60, ts), fold.bar(trade(hour + 1, ts)), "1")], {"sim": ts}), ts)
    assert len(book) <= 2


def test_without_minute_candles_only_minutes_that_nobody_watched_at_all_are_filled_in() -> None:
    book = CandleBook(1, periods=[Period(90), Period(300)])
    theirs = [minute(BASE, "7"), minute(BASE + MINUTE, "9")]
    shown = book.apply(Batch(clocks={"sim": BASE}, venue=theirs, unwatched=[UNWATCHED]), BASE)
    assert [(c.period.seconds, c.start_ts, c.o, c.c) for c in shown if c.period.seconds > 60] == [
        (300, BASE, Decimal(7), Decimal(7))
    ]
