"""A subscriber that speaks ZMTP by hand, and may be as rude as it likes."""

import socket
from collections.abc import Sequence
from contextlib import suppress

_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + b"\x00" + bytes(31)
_COMMAND, _MORE, _LONG = 4, 1, 2
WAIT_S = 30.0


class RawSubscriber:
    """Blocks, so the relay must be somewhere else, or have time later."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("tcp://").rpartition(":")
        self._socket = socket.create_connection((host, int(port)), WAIT_S)
        self._socket.sendall(_GREETING + frame(b"\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB", _COMMAND))
        self._read(len(_GREETING))
        _, size = self._read(2)
        self._read(size)  # its READY: what is sent before that waits there until more comes

    def send(self, *messages: Sequence[bytes]) -> None:
        """Messages of any number of frames."""
        made = bytearray()
        for message in messages:
            *before, last = message
            made += b"".join(frame(part, _MORE) for part in before) + frame(last)
        self._send(bytes(made))

    def command(self, topic: bytes) -> None:
        """A subscription as newer peers send it."""
        self._send(frame(b"\x09SUBSCRIBE" + topic, _COMMAND))

    def leave(self) -> None:
        """Go, and return once the other side has noticed."""
        with suppress(OSError):  # cut by the other side
            self._socket.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            while self._socket.recv(65_536):
                continue
        self._socket.close()

    def _read(self, size: int) -> bytes:
        read = b""
        while len(read) < size:
            part = self._socket.recv(size - len(read))
            assert part, "the other side has gone"
            read += part
        return read

    def _send(self, made: bytes) -> None:
        with suppress(ConnectionError):
            self._socket.sendall(made)


def frame(body: bytes, flags: int = 0) -> bytes:
    """One frame of ZMTP 3."""
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return bytes([flags | _LONG]) + len(body).to_bytes(8) + body
