"""Every message by its type id, to and from the two frames that carry it."""

from collections.abc import Sequence

from google.protobuf.message import DecodeError, Message

from artery.errors import BadInput
from artery.wire import artery_pb2 as pb
from artery.wire import envelope
from artery.wire.envelope import TypeId

MESSAGES: dict[TypeId, type[Message]] = {
    TypeId.DATA_REQUEST: pb.DataRequest,
    TypeId.INGESTOR_CONTROL: pb.IngestorControl,
    TypeId.TICK: pb.Tick,
    TypeId.OHLC: pb.OHLC,
    TypeId.MARKET: pb.Market,
    TypeId.CEP_TRIGGER_REQUEST: pb.CEPTriggerRequest,
    TypeId.CEP_TRIGGER_ACK: pb.CEPTriggerAck,
    TypeId.CEP_TRIGGER_EVENT: pb.CEPTriggerEvent,
    TypeId.OHLC_BATCH: pb.OHLCBatch,
    TypeId.SUBMIT_HISTORICAL_REQUEST: pb.SubmitHistoricalRequest,
    TypeId.SUBMIT_RESPONSE: pb.SubmitResponse,
    TypeId.HISTORY_READY: pb.HistoryReadyNotification,
    TypeId.SYMBOL_METADATA_UPDATED: pb.SymbolMetadataUpdated,
    TypeId.SUBSCRIPTION_CONFIRMED: pb.SubscriptionConfirmed,
    TypeId.STATUS_REQUEST: pb.StatusRequest,
    TypeId.STATUS_RESPONSE: pb.StatusResponse,
}
_IDS = {kind: type_id for type_id, kind in MESSAGES.items()}


def write(message: Message) -> list[bytes]:
    """The two frames of a message."""
    return envelope.pack(_IDS[type(message)], message.SerializeToString())


def publish(topic: str, message: Message) -> list[bytes]:
    """The three frames of a message that is published on a topic."""
    return [topic.encode(), *write(message)]


def read(frames: Sequence[bytes]) -> Message:
    """The message in exactly two frames, or `BadInput`; routing frames and topics are the caller's to take off."""
    type_id, payload = envelope.unpack(frames)
    kind = MESSAGES.get(type_id)
    if kind is None:
        raise BadInput(f"message type 0x{type_id:02X} has no place here")
    try:
        return kind.FromString(payload)
    except DecodeError:
        raise BadInput(f"the protobuf of message type 0x{type_id:02X} cannot be read") from None
