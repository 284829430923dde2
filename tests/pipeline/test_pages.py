"""Pages of history decoded as a whole, in columns, are what their rows are when each is decoded alone."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from artery.errors import BadEvent
from artery.pipeline import decode, pages
from artery.wire import history
from artery.wire.artery_pb2 import OHLCBatch, OHLCRow
from artery.wire.requests import OWN

MINUTE_MS = 60_000
BASE = 1_730_000_040_000
ODD = [
    "0",
    "-1",
    "1e3",
    "1e-3",
    "NaN",
    "",
    "1.5000",
    "99999999999999999999",
    "12 ",
    "١",
    "9" * 30,
    "2.000000000000000001",
]
WHOLE = [-MINUTE_MS, 0, 1, BASE + 1, 4_102_444_800_000, 2**62]


def page(number: int, *, rows: int = 3, first: int = 0, request_id: str = "r", last: bool = False) -> OHLCBatch:
    made = [
        OHLCRow(
            start_ms=BASE + (first + at) * MINUTE_MS, open="1.5", high="2", low="0.5", close=f"1.{number}",
            volume="3.25", trades=at, closed=True,
        )
        for at in range(rows)
    ]  # fmt: skip
    return OHLCBatch(request_id=request_id, ticker="SIM:BTC", period_s=60, page=number, last=last, rows=made)


def entry(batch: OHLCBatch) -> decode.Raw:
    return str(batch.page + 1), msgspec.json.encode(history.encode(batch, event_ts=BASE + batch.page))


def alone(raws: list[decode.Raw]) -> tuple[list[dict[str, Any]], list[str]]:
    """Row by row, as the codec has it; of two of the same key the later one."""
    good: dict[tuple[Any, ...], dict[str, Any]] = {}
    bad = []
    for raw in raws:
        try:
            for candle in decode.candles(*decode.page(raw)):
                good[candle.key] = pages.row_of(candle, "history")
        except BadEvent:
            bad.append(raw[0])
    return sorted(good.values(), key=_place), bad


def together(raws: list[decode.Raw]) -> tuple[list[dict[str, Any]], list[str]]:
    found = pages.pages_of(raws)
    return sorted(found.table.to_pylist(), key=_place), [raw[0] for raw, _ in found.bad]


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["ticker"], row["period_s"], row["start"]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["open", "high", "low", "close", "volume"]), st.sampled_from(ODD)),
            st.tuples(st.just("start_ms"), st.sampled_from(WHOLE)),
            st.tuples(st.just("closed"), st.booleans()),
            st.tuples(st.just("ticker"), st.sampled_from(["", "SIM", "SIM:", "SIM:ETH", "nobody:x", "EXTERNAL:A"])),
            st.tuples(st.just("period_s"), st.sampled_from([-60, 0, 1, 7, 60, 300, 2**31 - 1])),
        ),
        max_size=5,
    )
)
def test_whatever_a_page_holds_it_is_taken_as_the_codec_takes_it(changes: list[tuple[str, Any]]) -> None:
    made = [page(0), page(1, first=2)]
    for number, (name, value) in enumerate(changes, 2):
        changed = page(number, first=number)
        setattr(changed if name in ("ticker", "period_s") else changed.rows[number % 3], name, value)
        made.append(changed)
    raws = [entry(batch) for batch in made]
    assert together(raws) == alone(raws)


def test_pages_as_we_write_them_need_no_second_look() -> None:
    assert pages._plain(page(0), BASE) is not None


def test_the_last_page_of_a_clients_request_is_told_and_our_own_is_not() -> None:
    theirs, ours = page(0, rows=0, last=True), page(1, rows=1, last=True, request_id=f"{OWN}past")
    found = pages.pages_of([entry(theirs), entry(ours), entry(page(2))])
    assert [last.page for last in found.closing] == [0]


def test_what_is_no_page_is_bad_and_the_rest_is_kept() -> None:
    found = pages.pages_of([("1", b"{}"), ("2", b"not JSON"), entry(page(2))])
    assert [raw[0] for raw, _ in found.bad] == ["1", "2"]
    assert found.table.num_rows == 3
