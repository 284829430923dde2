"""Whether anyone is left on a topic, which only libzmq's own tree of subscriptions knows."""

from collections.abc import Collection, Iterator
from typing import Any

import zmq

from artery.wire.sockets import prepare

_ASK = "inproc://left"
_NEXT, _END = b"next", b"end"


class Left:
    """Asks the clients' XPUB by a peer of its own, which comes to a topic and leaves it in one message: set to VERBOSE,
    XPUB tells of that leaving only if nobody else is there. Belongs to the thread that XPUB belongs to."""

    def __init__(self, context: "zmq.Context[Any]", clients: Any) -> None:
        self._clients = clients
        self._clients.setsockopt(zmq.XPUB_VERBOSER, 1)
        self._clients.bind(_ASK)
        self._peer: Any = prepare(context.socket(zmq.XSUB))
        self._peer.connect(_ASK)

    def ask(self, topics: Collection[bytes]) -> Iterator[tuple[bytes, bool]]:
        """What XPUB has to hand over, frame by frame, and whether it is the answer that the topic has nobody left; a
        topic without an answer is held. Every frame of someone else's is a message, whatever XPUB says: for this
        moment it withholds leavings, which may be the end of one."""
        self._clients.setsockopt(zmq.XPUB_VERBOSER, 0)
        self._clients.setsockopt(zmq.XPUB_VERBOSE, 1)
        for topic in topics:
            self._peer.send_multipart([b"\1" + topic, b"\0" + topic, _NEXT])
        self._clients.getsockopt(zmq.EVENTS)  # has it read them
        self._clients.setsockopt(zmq.XPUB_VERBOSER, 1)
        self._peer.send(_END)
        asked: bytes | None = None
        while (frame := self._clients.recv(copy=False)).bytes != _END or not _is_inside(frame):
            if not _is_inside(frame):
                yield frame.bytes, False
            elif frame.bytes == _NEXT:
                asked = None
            elif frame.bytes[:1] == b"\1":
                asked = frame.bytes[1:]
            else:  # else it is libzmq's word about a connection that has ended
                yield frame.bytes, frame.bytes[1:] == asked

    def close(self) -> None:
        self._peer.close(linger=0)


def _is_inside(frame: Any) -> bool:
    """Whether it came from no connection."""
    try:
        frame.get("Peer-Address")
    except zmq.ZMQError:
        return True
    return False
