"""Whether anyone is left on a topic, which only libzmq's own tree of subscriptions knows."""

import secrets
from collections.abc import Collection, Iterator
from typing import Any

import zmq

from artery.wire.sockets import prepare

_ASK = "inproc://left"


class Left:
    """Asks the clients' XPUB by a peer of its own, which comes to topics and leaves them in one message: set to
    VERBOSE, XPUB tells of such a leaving only if nobody else is there. Belongs to the thread that XPUB belongs to."""

    def __init__(self, context: "zmq.Context[Any]", clients: Any) -> None:
        self._clients = clients
        self._clients.setsockopt(zmq.XPUB_VERBOSER, 1)
        self._clients.bind(_ASK)
        self._peer: Any = prepare(context.socket(zmq.XSUB))
        self._peer.connect(_ASK)
        self._sign = b"left" + secrets.token_bytes(16)
        """Where what was asked begins and ends: of a frame itself libzmq cannot always say who sent it."""

    def ask(self, topics: Collection[bytes]) -> Iterator[tuple[bytes, bool]]:
        """What XPUB has to hand over, frame by frame, and whether it is the answer that the topic has nobody left; a
        topic without an answer is held. Every frame of someone else's is a message, whatever XPUB says: for this
        moment it withholds leavings, which may be the end of one."""
        self._clients.setsockopt(zmq.XPUB_VERBOSER, 0)
        self._clients.setsockopt(zmq.XPUB_VERBOSE, 1)
        asked = [kind + topic for topic in topics for kind in (b"\1", b"\0")]
        self._peer.send_multipart([self._sign, *asked, self._sign])
        self._clients.getsockopt(zmq.EVENTS)  # has it read them: one message, so nobody's frames are in between
        self._clients.setsockopt(zmq.XPUB_VERBOSER, 1)
        self._peer.send(self._sign)
        signs = 0
        while True:
            frame = self._clients.recv(zmq.NOBLOCK)  # all of it is there: nothing may hold up the proxy
            if frame == self._sign:
                signs += 1
                if signs == 3:
                    return
            elif signs != 1:
                yield frame, False
            elif frame[:1] == b"\0":
                yield frame, True

    def close(self) -> None:
        self._peer.close(linger=0)
