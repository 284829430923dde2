"""Every message type has the bytes that it always had, and comes back as it went."""

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from artery.errors import BadEvent, BadInput
from artery.wire import messages, requests
from artery.wire.artery_pb2 import DataRequest, HistoryReadyNotification
from artery.wire.envelope import TypeId
from tests.wire.samples import OUTCOME, SAMPLES

GOLDEN = {
    "DataRequest": "010a02723110011a0753494d3a425443220c08e0d40310c0a907183c20052a09080110011a033cac0232026331",
    "IngestorControl": "03080112027231180322027b7d",
    "Tick": "040a0753494d3a42544310e1d4031a027431220734333231302e352a03302e3532014238094002",
    "OHLC": "050a0753494d3a425443103c18e0d4032201312a01343203302e353a01324202313048035001580160096802",
    "Market": "060a0753494d3a425443120373696d1a0342544322034254432a04555344433203302e35"
    "3a05302e30303142046f70656e4804",
    "CEPTriggerRequest": "090a026131120263311a027531220753494d3a4254432a097072696365203e2031"
    "3002381e40e0d403",
    "CEPTriggerAck": "0a0a02613110011a046e6f6e652006",
    "CEPTriggerEvent": "0b0a026131120753494d3a42544318e0d403220a0a0570726963651201322801",
    "OHLCBatch": "0c0a027231120263311a0753494d3a425443203c28023001380142046e6f6e654a3108c0e0a6e0ac32"
    "120734333231302e351a053433323830220534333139302a05343332353032063132332e3435"
    "3811400150e0d40358c0a9076001",
    "SubmitHistoricalRequest": "100a027231120263311a0753494d3a42544320e0d40328c0a907303c3805",
    "SubmitResponse": "110a02723110011a0c524553504f4e53453a63317c22046e6f6e65",
    "HistoryReadyNotification": "120a027231120263311a0753494d3a425443203c28c0e0a6e0ac3230a0b5aae0ac32"
    "38014001480752046e6f6e65",
    "SymbolMetadataUpdated": "130807120373696d18062004",
    "SubscriptionConfirmed": "140a0c524553504f4e53453a63317c10e0d403",
    "StatusRequest": "150a027231",
    "StatusResponse": "160a027231100518e80720012801322d0a027231120263311a0753494d3a425443203c28c0e0a6e0ac32"
    "30a0b5aae0ac3238014001480752046e6f6e653a046e6f6e65",
}  # fmt: skip


def name(message: Message) -> str:
    return type(message).__name__


@pytest.mark.parametrize("message", SAMPLES, ids=name)
def test_the_bytes_of_every_message_type_do_not_change(message: Message) -> None:
    version, body = messages.write(message)
    assert (version, body.hex()) == (b"\x01", GOLDEN[name(message)])
    assert messages.read([version, body]) == message


def test_every_type_has_a_sample_with_every_field_set() -> None:
    assert {type(message) for message in SAMPLES} == set(messages.MESSAGES.values())
    for message in SAMPLES:
        assert {field.name for field, _ in message.ListFields()} == {one.name for one in message.DESCRIPTOR.fields}


def test_type_ids_are_the_documents() -> None:
    ids = {kind.DESCRIPTOR.name: int(type_id) for type_id, kind in messages.MESSAGES.items()}
    assert ids == {
        "DataRequest": 0x01, "IngestorControl": 0x03, "Tick": 0x04, "OHLC": 0x05, "Market": 0x06,
        "CEPTriggerRequest": 0x09, "CEPTriggerAck": 0x0A, "CEPTriggerEvent": 0x0B, "OHLCBatch": 0x0C,
        "SubmitHistoricalRequest": 0x10, "SubmitResponse": 0x11, "HistoryReadyNotification": 0x12,
        "SymbolMetadataUpdated": 0x13, "SubscriptionConfirmed": 0x14, "StatusRequest": 0x15, "StatusResponse": 0x16,
    }  # fmt: skip


@given(st.sampled_from(list(messages.MESSAGES)), st.binary(max_size=60))
def test_any_payload_is_a_message_or_bad_input(type_id: TypeId, payload: bytes) -> None:
    try:
        message = messages.read([b"\x01", bytes([type_id]) + payload])
    except BadInput as error:
        assert "cannot be read" in str(error)
    else:
        assert isinstance(message, messages.MESSAGES[type_id])


def test_an_empty_answer_never_reads_as_success() -> None:
    response, ready = messages.read([b"\x01", b"\x11"]), messages.read([b"\x01", b"\x12"])
    assert response.status == response.STATUS_UNSPECIFIED  # type: ignore[attr-defined]
    assert ready.status == ready.STATUS_UNSPECIFIED  # type: ignore[attr-defined]


def test_a_request_and_its_outcome_come_back_from_the_bus() -> None:
    asked = DataRequest(request_id="r1", ticker="SIM:BTC")
    assert requests.decode(requests.encode(asked, event_ts=1)) == asked
    fields = requests.encode_outcome(OUTCOME, event_ts=1)
    assert requests.decode_outcome(fields) == OUTCOME
    assert fields["id"] == "history:r1"
    assert all(isinstance(value, str) for value in fields.values())


@pytest.mark.parametrize("change", [{"body": "%%%"}, {"body": "AAAA"}, {"ver": "2"}, {"t": "TRADE"}])
def test_an_entry_that_cannot_be_read_is_a_bad_event(change: dict[str, str]) -> None:
    with pytest.raises(BadEvent):
        requests.decode(requests.encode(DataRequest(request_id="r1"), event_ts=1) | change)
    with pytest.raises(BadEvent):
        requests.decode_outcome(requests.encode_outcome(HistoryReadyNotification(), event_ts=1) | change)


def test_a_record_keeps_the_request_and_its_outcome() -> None:
    asked = DataRequest(request_id="r1", ticker="SIM:BTC")
    record = requests.Record(requests.text(asked), "done", outcome=requests.text(OUTCOME))
    found = requests.read_record(requests.write_record(record))
    assert found == record
    assert (found.request, found.notification) == (asked, OUTCOME)
    assert requests.read_record(b"{") is None
    assert requests.read_record(None) is None


def test_an_outcome_is_announced_to_the_client_and_to_the_request() -> None:
    assert requests.topics_of("r1", "c1") == ("RESPONSE:c1|", "HISTORY_READY:r1|")
    assert requests.topics_of("r1", "") == ("HISTORY_READY:r1|",)
