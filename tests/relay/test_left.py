"""Asking libzmq who is left: the answer is its own word, whatever others send in that moment."""

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
import zmq

from artery.relay.left import Left
from artery.wire.sockets import QUEUE_MAX, prepare
from tests.relay.conftest import WAIT_S
from tests.relay.raw import frame

_OLD_GREETING = b"\xff" + bytes(8) + b"\x7f\x01\x02" + frame(b"")
"""Of ZMTP 2.0, as libzmq 3 spoke it: what such a peer sends comes without a word about its connection."""


@pytest.fixture
def xpub() -> Iterator[tuple[Left, Any, str]]:
    """A socket that clients connect to, whoever asks it, and where it is."""
    context: zmq.Context[Any] = zmq.Context()
    clients = prepare(context.socket(zmq.XPUB))
    left = Left(context, clients)
    port = clients.bind_to_random_port("tcp://127.0.0.1")
    try:
        yield left, clients, f"127.0.0.1:{port}"
    finally:
        left.close()
        clients.close(linger=0)
        context.term()


def test_what_a_peer_of_an_old_protocol_sends_is_passed_on_and_is_no_answer(xpub: tuple[Left, Any, str]) -> None:
    left, _, where = xpub
    host, _, port = where.rpartition(":")
    sent = [b"\1mine", b"\0mine", b"\1held", b"next", b"end"]
    with socket.create_connection((host, int(port)), WAIT_S) as peer:
        peer.sendall(_OLD_GREETING + b"".join(map(frame, sent)))
        passed: list[bytes] = []
        deadline = time.monotonic() + WAIT_S
        while len(passed) < len(sent):
            assert time.monotonic() < deadline, passed
            passed += [body for body, nobody in left.ask([b"free", b"held"]) if not nobody]
        assert passed == sent
        assert list(left.ask([b"free", b"held"])) == [(b"\0free", True)], "the peer that came meanwhile is there"


def test_however_often_it_is_asked_every_question_is_answered(xpub: tuple[Left, Any, str]) -> None:
    """More often than messages fit into the way from the one who asks to the socket."""
    left, clients, _ = xpub
    for _ in range(2 * QUEUE_MAX + 1_000):
        assert list(left.ask([b"free"])) == [(b"\0free", True)]
    assert not clients.poll(0), "nothing of it is left to be passed on"


def test_many_are_asked_about_in_one_go(xpub: tuple[Left, Any, str]) -> None:
    left, _, _ = xpub
    topics = [b"SIM:%d|tick|" % number for number in range(5_000)]
    assert list(left.ask(topics)) == [(b"\0" + topic, True) for topic in topics]
