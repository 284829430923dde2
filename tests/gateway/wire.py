"""A gateway's connection without a socket: bytes in, bytes out; and streams of bytes that no good client sends."""

import asyncio
import json
import random
import struct
from base64 import b64encode
from typing import Any, cast

from uvicorn.server import ServerState

from artery.gateway.heads import BoundedHttp
from tests.gateway.made import BTC, ETH, MIDS
from tests.gateway.running import Running

TEXT, BINARY, CONTINUATION, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10


class Memory(asyncio.Transport):
    """A transport that keeps what is written; a client that reads all of it at once."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.written = bytearray()
        self._closed = False
        self._protocol: Any = None

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast(asyncio.BaseProtocol, self._protocol)

    def write(self, data: Any) -> None:
        if not self._closed:
            self.written += data

    def write_eof(self) -> None:
        self.close()

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return self._closed

    def pause_reading(self) -> None:
        """Bytes come when the test feeds them."""

    def resume_reading(self) -> None:
        """Bytes come when the test feeds them."""

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            asyncio.get_running_loop().call_soon(self._lost)

    def abort(self) -> None:
        self.close()

    def _lost(self) -> None:
        self._protocol.connection_lost(None)

    def feed(self, data: bytes) -> None:
        if not self._closed:
            self._protocol.data_received(data)


class Port:
    """Where a running gateway's connections come in, as its server makes them."""

    def __init__(self, running: Running) -> None:
        self._config = running.gateway._config()
        self._config.load()
        self._state = ServerState()

    def opened(self) -> Memory:
        """A connection before its first byte."""
        transport = Memory()
        protocol = BoundedHttp(self._config, self._state, {}, asyncio.get_running_loop())
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        return transport


def handshake(key: str, *, path: str = "/v1/stream", extra: str = "") -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {b64encode(bytes(16)).decode()}\r\nSec-WebSocket-Version: 13\r\n"
        f"Authorization: Bearer {key}\r\n{extra}\r\n"
    ).encode()


def frame(payload: bytes, opcode: int = TEXT, *, fin: bool = True, mask: bytes = b"\x00\x00\x00\x00") -> bytes:
    """A client's frame."""
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", opcode | (0x80 if fin else 0), 0x80 | size)
    elif size < 65_536:
        head = struct.pack("!BBH", opcode | (0x80 if fin else 0), 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", opcode | (0x80 if fin else 0), 0x80 | 127, size)
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload)) if any(mask) else payload
    return head + mask + masked


def frames_of(wire: bytes) -> list[tuple[int, bytes]]:
    """The server's frames, each whole and unmasked."""
    found = []
    while wire:
        assert wire[0] & 0x70 == 0
        size, at = wire[1], 2
        assert size < 128, "a server masks nothing"
        if size == 126:
            size, at = int.from_bytes(wire[2:4], "big"), 4
        elif size == 127:
            size, at = int.from_bytes(wire[2:10], "big"), 10
        assert len(wire) >= at + size, "a frame was cut"
        found.append((wire[0] & 15, bytes(wire[at : at + size])))
        wire = wire[at + size :]
    return found


class Hostile:
    """Streams of bytes by chance; the same seed gives the same streams."""

    def __init__(self, seed: int, key: str) -> None:
        self._chance = random.Random(seed)
        self._key = key

    def stream(self) -> list[bytes]:
        """What one client sends, in the pieces in which it arrives."""
        whole = self._hello() + b"".join(self._frame() for _ in range(self._chance.randrange(1, 12)))
        if self._chance.random() < 0.2:
            whole = self._bent(whole)
        cuts = sorted(self._chance.randrange(len(whole) + 1) for _ in range(self._chance.choice((0, 0, 1, 3, 8))))
        return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]

    def _hello(self) -> bytes:
        chance = self._chance.random()
        if chance < 0.9:
            return handshake(self._key)
        if chance < 0.94:
            return handshake("wrong")
        if chance < 0.97:
            return self._bent(handshake(self._key))
        return self._chance.randbytes(self._chance.randrange(1, 300))

    def _frame(self) -> bytes:
        pick = self._chance.random()
        if pick < 0.5:
            return frame(self._request(), mask=self._chance.randbytes(4))
        if pick < 0.6:
            return frame(self._bent(self._request()), mask=self._chance.randbytes(4))
        if pick < 0.7:
            request = self._request()
            cut = self._chance.randrange(len(request) + 1)
            return frame(request[:cut], fin=False) + frame(request[cut:], CONTINUATION)
        if pick < 0.8:
            return frame(self._chance.randbytes(self._chance.randrange(126)), self._chance.choice((PING, PONG)))
        if pick < 0.86:
            return frame(self._chance.randbytes(self._chance.randrange(400)), self._chance.randrange(16))
        if pick < 0.9:
            return frame(self._chance.choice((b"", b"\x03\xe8bye", b"\x0f\xa0", b"\x00", b"\x03\xe8\xff")), CLOSE)
        if pick < 0.93:
            return frame(b"x" * self._chance.choice((65_535, 65_536, 65_537, 200_000)))
        return self._chance.randbytes(self._chance.randrange(1, 60))

    def _bent(self, data: bytes) -> bytes:
        """With some bytes changed, left out or put in."""
        bent = bytearray(data)
        for _ in range(self._chance.randrange(1, 5)):
            at = self._chance.randrange(len(bent) + 1)
            bent[at : at + self._chance.randrange(3)] = self._chance.randbytes(self._chance.randrange(3))
        return bytes(bent)

    def _request(self) -> bytes:
        chance = self._chance
        kind = chance.choice(("subscribe", "subscribe", "unsubscribe", "ping", "ack", "", 5, None))
        asked: dict[str, Any] = {"type": kind, "id": self._value()}
        if chance.random() < 0.8:
            asked["channels"] = [self._channel() for _ in range(chance.randrange(4))]
        return json.dumps(asked).encode()

    def _channel(self) -> Any:
        chance = self._chance
        name = chance.choice((BTC, ETH, MIDS, "artery:stream:sim:NOPE", "artery:stream:", "*", "\ud83d", 7))
        if chance.random() < 0.5:
            return name
        wanted: dict[str, Any] = {"channel": name}
        if chance.random() < 0.6:
            wanted["types"] = [chance.choice(("TRADE", "BOOK_TOPN", "CANDLE:1m", "CANDLE:0s", "MIDS", "x", 1))]
        if chance.random() < 0.4:
            wanted["since"] = chance.choice(
                (
                    {"ms": 0},
                    {"ms": -1},
                    {"ms": 2**60},
                    {"positions": {"TRADE": "1.1.1"}},
                    {"positions": {"x": 1}},
                    {},
                    5,
                )
            )
        return wanted

    def _value(self) -> Any:
        return self._chance.choice(("1", 1, None, "x" * 500, 1.5, [], {}, -(2**70), "\x00"))
