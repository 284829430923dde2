"""Faults that a test can switch on: `POST /faults` with any of these.

    {"drop": true}                  close every socket now, without a close frame
    {"stall_s": 20}                 stay connected and send nothing; afterwards everything arrives late
    {"garbage": 3}                  send this many frames that are no good to every client
    {"huge_frame_bytes": 10000000}  send one frame of this size to every client
    {"refuse_s": 5}                 take no new socket, and answer `/info` with 503
    {"mute_coin": "ETH"}            say nothing on this market's own streams, no acknowledgement either; null
                                    ends it, and what was held back then arrives late
    {"delist": "XRP"}               say of this market that it is delisted, though it goes on; null ends it

`stall_s` and `refuse_s` of 0 end them at once.
"""

from typing import Annotated

import msgspec

from artery.errors import BadInput

_Seconds = Annotated[float, msgspec.Meta(ge=0, le=3_600)]

GARBAGE = (
    b"{this is not JSON",
    b'{"channel":"l2Book","data":{"coin":"BTC","time":"soon","levels":"none"}}',
    b"\xff\xfe\x00 not UTF-8",
    b"[1,2,3]",
    b'{"channel":"weather","data":{"sky":"blue"}}',
    b'{"channel":"allMids","data":{"mids":[1]}}',
    b"",
    b'{"channel":"subscriptionResponse","data":{"method":"subscribe","subscription":"?"}}',
)


class Order(msgspec.Struct, forbid_unknown_fields=True):
    """What one `POST /faults` asks for."""

    drop: bool = False
    stall_s: _Seconds | None = None
    garbage: Annotated[int, msgspec.Meta(ge=0, le=1_000)] = 0
    huge_frame_bytes: Annotated[int, msgspec.Meta(ge=0, le=64 * 1024 * 1024)] = 0
    refuse_s: _Seconds | None = None
    mute_coin: str | msgspec.UnsetType | None = msgspec.UNSET
    delist: str | msgspec.UnsetType | None = msgspec.UNSET


def read_order(body: bytes) -> Order:
    """The order in this JSON, or `BadInput`."""
    try:
        return msgspec.json.decode(body, type=Order)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"not an order for faults: {error}") from error


def garbage(count: int) -> list[bytes]:
    """This many bad frames, of all kinds in turn."""
    return [GARBAGE[number % len(GARBAGE)] for number in range(count)]


def huge_frame(size: int) -> bytes:
    """A frame of exactly this many bytes that is JSON, and no message."""
    head, tail = b'{"channel":"blob","data":"', b'"}'
    return head + b"x" * (size - len(head) - len(tail)) + tail
