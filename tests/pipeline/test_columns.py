"""Trades decoded together, in columns, are what each of them is when it is decoded alone."""

from decimal import Decimal
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from artery.errors import BadEvent
from artery.model import codec
from artery.model.events import Trade
from artery.pipeline import columns, decode
from tests.pipeline.test_bars import BASE, entries, raw, trade

ODD = ["0", "-1", "1e3", "NaN", "", "1.5000", "99999999999999999999", "12 ", "١", "4102444800001", "9" * 30]


def alone(raws: list[decode.Raw]) -> tuple[list[Trade], list[str]]:
    """Each entry by itself, as the codec has it."""
    good, bad = [], []
    for one in raws:
        try:
            event = decode.event(one)
            if not isinstance(event, Trade):
                raise BadEvent("no trade")
            good.append(event)
        except BadEvent:
            bad.append(one[0])
    return good, bad


def together(raws: list[decode.Raw]) -> tuple[list[Trade], list[str]]:
    found = columns.trades_of(raws)
    assert found.positions == [position for position, _ in raws]
    rows: list[dict[str, Any]] = found.table.to_pylist()
    return [Trade(**{name: value for name, value in row.items() if name != "at"}) for row in rows], [
        one[0] for one, _ in found.bad
    ]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", *codec.encode(trade(1, BASE))]),
            st.one_of(st.sampled_from(ODD), st.text(max_size=5), st.none(), st.integers(0, 9)),
        ),
        max_size=6,
    )
)
def test_whatever_an_entry_holds_it_is_taken_as_the_codec_takes_it(changes: list[tuple[str, Any]]) -> None:
    raws = entries(trade(1, BASE), trade(2, BASE + 1, px="0.000000000000000001"))
    for number, (name, value) in enumerate(changes, 3):
        fields: dict[str, Any] = codec.encode(trade(number, BASE + number))
        if name and value is None:
            del fields[name]
        else:
            fields[name or "more"] = value
        raws.append((str(number), msgspec.json.encode(fields)))
    assert together(raws) == alone(raws)


def test_a_page_without_anything_odd_is_decoded_together() -> None:
    plain = entries(trade(1, BASE), trade(2, BASE, sz="12.5"))
    assert columns._plain(plain, 0) is not None
    assert columns._plain([*plain, ("3", b'{"t": "TRADE"}')], 0) is None


def test_many_pages_keep_their_order_and_only_the_odd_one_is_decoded_one_by_one() -> None:
    raws = entries(*[trade(seq, BASE + seq) for seq in range(1, 12_001)])
    raws[7_000] = raw(7_001, codec.encode(trade(7_001, BASE + 7_001)) | {"px": "NaN"})
    good, bad = together(raws)
    assert [one.seq for one in good] == [seq for seq in range(1, 12_001) if seq != 7_001]
    assert bad == ["7001"]


def test_a_line_that_is_no_object_is_bad_and_the_rest_is_kept() -> None:
    raws = [*entries(trade(1, BASE)), ("2", b"{not json"), ("3", b"{}\n{}"), ("4", b'{"t": "\xff"}')]
    raws.append(raw(5, codec.encode(trade(5, BASE, sz="2"))))
    good, bad = together(raws)
    assert ([one.tid for one in good], bad) == (["1", "5"], ["2", "3", "4"])
    assert good[1].sz == Decimal(2)
