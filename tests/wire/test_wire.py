"""The bytes on the wire are the ones that the protocol promises."""

import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artery.errors import BadEvent, BadInput
from artery.model.events import Candle
from artery.model.periods import Period
from artery.wire import envelope, history, topics
from artery.wire.artery_pb2 import OHLCBatch, OHLCRow

SOURCE = Path(envelope.__file__).parents[2]
CANDLE = Candle(
    provider="sim", coin="BTC", period=Period(60), start_ts=1_730_000_040_000, o=Decimal("43210.5"), h=Decimal(43280),
    l=Decimal(43190), c=Decimal(43250), v=Decimal("123.45"), n=17, closed=True, event_ts=1_730_000_100_123,
)  # fmt: skip


def test_the_bytes_of_an_ohlc_batch_do_not_change() -> None:
    batch = OHLCBatch(
        request_id="r1", client_id="c1", ticker="SIM:BTC", period_s=60, page=2, last=True,
        rows=[OHLCRow(start_ms=1_730_000_040_000, open="43210.5", high="43280", low="43190", close="43250",
                      volume="123.45", trades=17, closed=True)],
    )  # fmt: skip
    golden = (
        "0a02723112026331" "1a0753494d3a425443" "203c" "2802" "3001"
        "4a31" "08c0e0a6e0ac32" "120734333231302e35" "1a053433323830" "22053433313930" "2a053433323530"
        "32063132332e3435" "3811" "4001"
    )  # fmt: skip
    assert batch.SerializeToString(deterministic=True).hex() == golden
    assert envelope.pack(envelope.TypeId.OHLC_BATCH, b"x") == [b"\x01", b"\x0cx"]


def test_generated_code_is_up_to_date(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", f"-I{SOURCE}", f"--python_out={tmp_path}",
         str(SOURCE / "artery/wire/artery.proto")],
        check=True,
    )  # fmt: skip
    made = (tmp_path / "artery/wire/artery_pb2.py").read_text()
    assert made == (SOURCE / "artery/wire/artery_pb2.py").read_text()


def test_type_ids_are_the_documents_and_the_deprecated_ones_are_refused() -> None:
    assert {t.name: t.value for t in envelope.TypeId if t < 0x20}["HISTORY_READY"] == 0x12
    for deprecated in (0x02, 0x07, 0x08):
        with pytest.raises(BadInput, match="not known"):
            envelope.unpack([b"\x01", bytes([deprecated])])


@given(st.lists(st.binary(max_size=20), max_size=4))
def test_any_frames_give_a_message_or_bad_input(frames: list[bytes]) -> None:
    try:
        kind, payload = envelope.unpack(frames)
    except BadInput as error:
        assert str(error)
    else:
        assert envelope.pack(kind, payload) == frames


def test_one_ids_topic_is_never_the_beginning_of_anothers() -> None:
    assert topics.user("user-1") == "USER:user-1|"
    assert not topics.user("user-10").startswith(topics.user("user-1"))
    assert topics.ohlc("BINANCE:BTC/USDT", Period(60)) == "BINANCE:BTC/USDT|ohlc:60|"
    assert topics.tick("SIM:BTC") == "SIM:BTC|tick|"


def test_a_page_of_history_comes_back_as_the_same_candles() -> None:
    page = history.page("own:1", "sim", "BTC", Period(60), [CANDLE], number=0, last=True)
    fields = history.encode(page, event_ts=CANDLE.event_ts)
    assert all(isinstance(value, str) for value in fields.values())
    assert history.candles(history.decode(fields), event_ts=CANDLE.event_ts) == [CANDLE]


@pytest.mark.parametrize(
    "change", [{"body": "%%%"}, {"body": "AAAA"}, {"ver": "2"}, {"t": "TRADE"}], ids=["base64", "protobuf", "ver", "t"]
)
def test_a_page_that_cannot_be_read_is_a_bad_event(change: dict[str, str]) -> None:
    fields = history.encode(OHLCBatch(ticker="SIM:BTC", period_s=60), event_ts=1)
    with pytest.raises(BadEvent):
        history.decode(fields | change)
