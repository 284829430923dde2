"""`[version]` `[type id][protobuf]`: the two frames of every message, after any routing frames."""

from collections.abc import Sequence
from enum import IntEnum

from artery.errors import BadInput

VERSION = b"\x01"
FRAME_MAX = 4 * 1024 * 1024


class TypeId(IntEnum):
    """What a message is. 0x02, 0x07 and 0x08 are deprecated and refused."""

    DATA_REQUEST = 0x01
    INGESTOR_CONTROL = 0x03
    TICK = 0x04
    OHLC = 0x05
    MARKET = 0x06
    CEP_TRIGGER_REQUEST = 0x09
    CEP_TRIGGER_ACK = 0x0A
    CEP_TRIGGER_EVENT = 0x0B
    OHLC_BATCH = 0x0C
    SUBMIT_HISTORICAL_REQUEST = 0x10
    SUBMIT_RESPONSE = 0x11
    HISTORY_READY = 0x12
    SYMBOL_METADATA_UPDATED = 0x13
    SUBSCRIPTION_CONFIRMED = 0x14
    STATUS_REQUEST = 0x15
    STATUS_RESPONSE = 0x16
    USER_EVENT = 0x20
    EVENT_ACK = 0x21
    CONTAINER_HELLO = 0x22


def pack(type_id: TypeId, payload: bytes) -> list[bytes]:
    """The two frames of a message."""
    return [VERSION, bytes([type_id]) + payload]


def unpack(frames: Sequence[bytes]) -> tuple[TypeId, bytes]:
    """Type and protobuf of exactly two frames; routing frames are the caller's to take off."""
    if len(frames) != 2:
        raise BadInput(f"a message has 2 frames, not {len(frames)}")
    version, body = frames
    if version != VERSION:
        raise BadInput(f"protocol version {version[:8].hex() or 'none'} is not known; this speaks 01")
    if not body or len(body) > FRAME_MAX:
        raise BadInput(f"a message frame has 1 to {FRAME_MAX} bytes, not {len(body)}")
    try:
        return TypeId(body[0]), body[1:]
    except ValueError:
        raise BadInput(f"message type 0x{body[0]:02X} is not known") from None
