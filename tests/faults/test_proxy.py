"""The proxy does to connections what it is told, and the same with the same seed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress

import pytest

from tests.faults.proxy import Proxy

WAIT_S = 30.0


@asynccontextmanager
async def echo() -> AsyncIterator[int]:
    """A server that says again what it hears; its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@asynccontextmanager
async def talking(seed: int = 1) -> AsyncIterator[tuple[Proxy, asyncio.StreamReader, asyncio.StreamWriter]]:
    async with echo() as port, Proxy(port, seed) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        try:
            async with asyncio.timeout(WAIT_S):
                yield proxy, reader, writer
        finally:
            writer.close()


async def hears(reader: asyncio.StreamReader, wanted: bytes) -> None:
    assert await reader.readexactly(len(wanted)) == wanted


async def is_silent(call: Awaitable[bytes]) -> bool:
    try:
        async with asyncio.timeout(0.1):
            await call
    except TimeoutError:
        return True
    return False


async def test_without_orders_everything_passes() -> None:
    async with talking() as (_, reader, writer):
        words = bytes(range(256)) * 4_000
        writer.write(words)
        await hears(reader, words)


async def test_a_black_hole_keeps_the_socket_and_what_it_held_arrives_late() -> None:
    async with talking() as (proxy, reader, writer):
        writer.write(b"one")
        await hears(reader, b"one")
        proxy.black_hole()
        writer.write(b"two")
        assert await is_silent(reader.read(1))
        proxy.heal()
        await hears(reader, b"two")


async def test_an_answer_that_must_not_be_heard_is_given_and_kept_back() -> None:
    async with talking() as (proxy, reader, writer):
        proxy.unheard = b"two"
        writer.write(b"one")
        await hears(reader, b"one")
        writer.write(b"one and two")
        with suppress(ConnectionError):
            assert await reader.read(1) == b""
        assert proxy.kept_back == 1


async def test_a_new_connection_into_a_black_hole_is_accepted_and_left_alone() -> None:
    async with echo() as port, Proxy(port) as proxy:
        proxy.black_hole()
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"hello")
        assert await is_silent(reader.read(1))
        proxy.heal()
        await hears(reader, b"hello")
        writer.close()


async def test_a_reset_breaks_connections_and_new_ones_work() -> None:
    async with talking() as (proxy, reader, writer):
        writer.write(b"one")
        await hears(reader, b"one")
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)
        again, writer_again = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer_again.write(b"two")
        await hears(again, b"two")
        writer_again.close()
        assert proxy.accepted == 2


async def test_latency_is_a_wait_and_loses_nothing() -> None:
    async with talking() as (proxy, reader, writer):
        proxy.latency_s = (0.1, 0.1)
        began = asyncio.get_running_loop().time()
        writer.write(b"slow")
        await hears(reader, b"slow")
        assert asyncio.get_running_loop().time() - began >= 0.2  # there and back


async def test_slices_are_small_and_add_up_to_the_whole() -> None:
    async with talking() as (proxy, reader, writer):
        proxy.slice_bytes = 3
        words = b"".join(b"%d," % n for n in range(500))
        writer.write(words)
        await hears(reader, words)


async def test_a_cut_off_comes_in_the_midst_of_the_words() -> None:
    async with talking() as (proxy, reader, writer):
        proxy.cut_bytes = 1_500
        writer.write(b"x" * 1_000)  # there: 1,000; back: cut at 500
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)) as error:
            await reader.readexactly(1_000)
        if isinstance(error.value, asyncio.IncompleteReadError):
            assert len(error.value.partial) <= 500


async def test_the_same_seed_gives_the_same_slices() -> None:
    async def cuts(seed: int) -> list[int]:
        sizes: list[int] = []

        class Writer:
            def write(self, data: bytes) -> None:
                sizes.append(len(data))

            async def drain(self) -> None: ...

        proxy = Proxy(0, seed)
        proxy.slice_bytes = 50
        await proxy.spoil(b"x" * 1_000, Writer())  # type: ignore[arg-type]
        return sizes

    assert await cuts(5) == await cuts(5)
    assert await cuts(5) != await cuts(6)
    assert sum(await cuts(5)) == 1_000
