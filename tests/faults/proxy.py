"""A TCP proxy that spoils connections on order: black hole, reset, latency, slicing, cut-off. Its dice have a seed."""

import asyncio
import random
import socket
import struct
from types import TracebackType

CHUNK = 64 * 1024


class Proxy:
    """Listens on a free loopback port and passes everything on to another one, until told otherwise."""

    def __init__(self, port: int, seed: int = 0) -> None:
        self._target = port
        self._random = random.Random(seed)
        self._passing = asyncio.Event()
        self._passing.set()
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self.port = 0
        self.latency_s = (0.0, 0.0)
        self.slice_bytes = 0
        """Pieces of at most this size; 0 leaves them whole."""
        self.cut_bytes = 0
        """Each connection is reset once this much has passed, in the midst of whatever it is; 0 never."""
        self.unheard = b""
        """A connection is reset when the server answers to what has these bytes in it: it is done, and not heard of."""
        self.kept_back = 0
        """How often that was so."""
        self.accepted = 0

    async def __aenter__(self) -> "Proxy":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.reset()
        await asyncio.gather(*(link.ended.wait() for link in list(self._links)))

    def black_hole(self) -> None:
        """Nothing passes either way; connections stay open, and new ones are accepted and left alone."""
        self._passing.clear()

    def reset(self) -> None:
        """Break every connection off."""
        for link in self._links:
            link.reset()

    def heal(self) -> None:
        """Pass everything on again; what a black hole held back arrives late."""
        self.latency_s, self.slice_bytes, self.cut_bytes, self.unheard = (0.0, 0.0), 0, 0, b""
        self._passing.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        link = _Link(self)
        self._links.add(link)
        try:
            await link.run(reader, writer)
        finally:
            self._links.discard(link)
            link.ended.set()

    async def spoil(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        """Pass some bytes on, as they are ordered to be."""
        await self._passing.wait()
        if self.latency_s[1]:
            await asyncio.sleep(self._random.uniform(*self.latency_s))
        while data:
            size = self._random.randint(1, self.slice_bytes) if self.slice_bytes else len(data)
            writer.write(data[:size])
            await writer.drain()
            data = data[size:]
            if data:
                await asyncio.sleep(0)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        await self._passing.wait()
        return await asyncio.open_connection("127.0.0.1", self._target)


class _Link:
    """One client's connection and the one made for it."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._writers: list[asyncio.StreamWriter] = []
        self._task = asyncio.current_task()
        self._passed = 0
        self._deaf = False
        self.ended = asyncio.Event()

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            far_reader, far_writer = await self._proxy.connect()
            self._writers.append(far_writer)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, far_writer, asked=True))
                group.create_task(self._pump(far_reader, writer, asked=False))
        except (OSError, BaseExceptionGroup, asyncio.CancelledError):
            self._break_off()
        finally:
            for each in self._writers:
                each.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, asked: bool) -> None:
        while data := await reader.read(CHUNK):
            if asked:
                self._deaf |= bool(self._proxy.unheard) and self._proxy.unheard in data
            elif self._deaf:
                self._proxy.kept_back += 1
                raise ConnectionResetError("not to be heard, as ordered")
            cut = self._proxy.cut_bytes
            if cut and self._passed + len(data) >= cut:
                writer.write(data[: cut - self._passed])
                raise ConnectionResetError("cut off as ordered")
            self._passed += len(data)
            await self._proxy.spoil(data, writer)
        if writer.can_write_eof():
            writer.write_eof()

    def reset(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _break_off(self) -> None:
        """Not a polite end: the other side gets a reset."""
        for writer in self._writers:
            own: socket.socket | None = writer.get_extra_info("socket")
            if own is not None and own.fileno() >= 0:
                own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
