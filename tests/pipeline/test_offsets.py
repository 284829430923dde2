"""How far a batch reaches: never past what the feed vouches for, never more than its limit."""

import pytest

from artery.errors import PositionLost
from artery.model import codec
from artery.model.events import Clock, Mark
from artery.pipeline.offsets import BOOKS_MAX, Turns, capped, distance, first_readable, plan_fast, plan_store, span
from artery.pipeline.source import Options, RowsReader
from tests.pipeline.logs import ListReader

START = {"trade": "0", "feed": "0", "history": "0"}
STORE = dict.fromkeys(("trade", "book", "candle", "feed", "history", "symbol"), "0")


def numbered(count: int, fields: dict[str, str] | None = None) -> list[tuple[str, dict[str, str]]]:
    return [(str(at), fields or {"x": "1"}) for at in range(1, count + 1)]


def clock(up_to: str) -> dict[str, str]:
    return codec.encode(Clock(provider="sim", epoch=1, ts=1, up_to=up_to))


def test_a_batch_reaches_the_heads_when_there_is_little_to_read() -> None:
    reader = ListReader({"trade": numbered(5), "feed": [("1", clock("5"))], "history": numbered(2)})
    assert plan_fast(reader, START, 100) == {"trade": "5", "feed": "1", "history": "2"}


def test_an_idle_bus_gives_the_same_offsets_again() -> None:
    reader = ListReader({"trade": numbered(5)})
    reached = plan_fast(reader, START, 100)
    assert plan_fast(reader, reached, 100) == reached == {"trade": "5", "feed": "0", "history": "0"}


def test_trades_are_capped_and_no_feed_entry_runs_ahead_of_them() -> None:
    feed = [("1", clock("3")), ("2", clock("7")), ("3", clock("10"))]
    reader = ListReader({"trade": numbered(10), "feed": feed})
    first = plan_fast(reader, START, 7)
    assert first == {"trade": "7", "feed": "2", "history": "0"}
    assert plan_fast(reader, first, 7) == {"trade": "10", "feed": "3", "history": "0"}


def test_a_mark_holds_back_as_a_clock_does() -> None:
    mark = Mark(provider="sim", epoch=1, ts=1, from_ms=0, to_ms=1, cause="start", up_to="9")
    reader = ListReader({"trade": numbered(10), "feed": [("1", codec.encode(mark))]})
    assert plan_fast(reader, START, 8)["feed"] == "0"


def test_a_feed_entry_that_cannot_be_read_holds_nothing_back() -> None:
    reader = ListReader({"trade": numbered(10), "feed": [("1", {"bad": "entry"}), ("2", clock("9"))]})
    assert plan_fast(reader, START, 5)["feed"] == "1"


def test_the_feed_is_looked_at_before_the_trades() -> None:
    order: list[str] = []

    class Watched(ListReader):
        def head(self, stream: str) -> str:
            order.append(stream)
            return super().head(stream)

    plan_fast(Watched({"trade": numbered(1)}), START, 10)
    assert order.index("feed") < order.index("trade")


def test_positions_that_do_not_count_entries_are_capped_by_reading() -> None:
    entries = [(f"1730000000000-{at}", {"x": "1"}) for at in range(20)]
    reader = ListReader({"trade": entries})
    assert capped(reader, "trade", "0", "1730000000000-19", 5) == "1730000000000-4"


def test_a_log_that_was_replaced_is_reported_not_waited_for() -> None:
    with pytest.raises(PositionLost):
        capped(ListReader({"trade": numbered(3)}), "trade", "50", "3", 10)


def test_streams_wait_for_their_turn_but_a_venues_history_does_not() -> None:
    reader = ListReader({"trade": numbered(5), "book": numbered(3), "candle": numbered(4), "history": numbered(1)})
    assert plan_store(reader, STORE, 100, ()) == STORE | {"history": "1"}
    assert plan_store(reader, STORE, 100, ("trade",)) == STORE | {"trade": "5", "history": "1"}
    everything = plan_store(reader, STORE, 100, ("trade", "book", "candle", "feed"))
    assert everything == STORE | {"trade": "5", "book": "3", "candle": "4", "history": "1"}


def test_history_comes_first_but_does_not_hold_the_others_up_for_long() -> None:
    pages = numbered(1_500)
    reader = ListReader({"trade": numbered(5), "history": pages})
    source = RowsReader(Options("", "", STORE))
    at, taken = dict(STORE), []
    for _ in range(5):
        end = source._plan(reader, at)
        taken.append((end["trade"], end["history"]))
        at = end
    assert taken == [("0", "200"), ("0", "400"), ("0", "600"), ("5", "800"), ("5", "1000")]


def test_trades_have_their_turn_every_few_seconds_and_the_others_with_every_third() -> None:
    turns = Turns(10.0, 30.0)
    assert [len(turns.due(now)) for now in (0, 1, 9, 10, 20, 29, 30, 31, 41)] == [5, 0, 0, 2, 2, 0, 5, 0, 2]


def test_reading_goes_on_from_where_a_trimmed_log_begins() -> None:
    reader = ListReader({"trade": numbered(9)}, first="4")
    assert first_readable(reader, "trade", "2") == "4"
    assert first_readable(reader, "trade", "6") == "6"


def test_a_span_is_read_page_by_page_up_to_its_end() -> None:
    reader = ListReader({"trade": numbered(12_500)})
    assert [at for at, _ in span(reader, "trade", "1", "12400")] == [str(at) for at in range(2, 12_401)]
    assert reader.reads == 3


@pytest.mark.parametrize(
    ("after", "head", "count"),
    [("0", "7", 7), ("3", "7", 4), ("7", "7", 0), ("9", "7", 0), ("5-3", "5-9", None), ("5-9", "5-9", 0)],
)
def test_the_distance_of_two_positions_is_counted_where_they_tell(after: str, head: str, count: int | None) -> None:
    reader = ListReader({"trade": [(head, {"x": "1"})]})
    assert distance(reader, after, head) == count


def test_books_reach_the_lake_few_at_a_time_because_each_is_large() -> None:
    reader = ListReader({"trade": numbered(3 * BOOKS_MAX), "book": numbered(3 * BOOKS_MAX)})
    end = plan_store(reader, STORE, 400_000, ("trade", "book"))
    assert (end["trade"], end["book"]) == (str(3 * BOOKS_MAX), str(BOOKS_MAX))
    assert plan_store(reader, STORE, 40, ("book",))["book"] == "10"
