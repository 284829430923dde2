"""Which frames of a request lead back to its peer. Pure."""

from collections.abc import Sequence

from artery.errors import BadInput

FRAMES_MAX = 8
BYTES_MAX = 64 * 1024
ANSWERED_MAX = 2 * BYTES_MAX
"""A frame that is too large is still read and answered up to here; past it, libzmq ends the connection. It has no such
limit for a message of many frames, which it keeps until the last one is there."""


def split(frames: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """(what an answer has to begin with, the message) of what a ROUTER received.

    REQ sends `[id, "", …]`, REQ with correlation `[id, number, "", …]`, DEALER `[id, …]` or anything up to an empty
    frame: all of it is handed back as it came. `BadInput` if that alone is too much to be an answer's beginning.
    """
    end = 1
    for place, frame in enumerate(frames[1:], 1):
        if not frame:
            end = place + 1
            break
    routing, message = list(frames[:end]), list(frames[end:])
    if len(routing) > FRAMES_MAX or sum(map(len, routing)) > BYTES_MAX:
        raise BadInput(f"more than {FRAMES_MAX} frames or {BYTES_MAX} bytes before the message")
    return routing, message


def check_size(message: Sequence[bytes]) -> None:
    """Refuse what is larger than any request."""
    if len(message) > FRAMES_MAX or sum(map(len, message)) > BYTES_MAX:
        raise BadInput(f"a request has 2 frames and at most {BYTES_MAX} bytes")
