"""Connections to one Redis server: a bounded set of them, each call with a time limit."""

import asyncio
import hashlib
import select
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
from hiredis import pack_command
from redis import exceptions
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection

from artery.errors import TooMuch, Unavailable
from artery.store.redis_server import CALL_S, Server, is_full, server_of

CONNECTIONS_MAX = 8
WAITERS_MAX = 64
"""Calls that wait at the server for something to happen, each on a connection of its own."""

Command: TypeAlias = tuple[Any, ...]


class Script:
    """A Lua script that the server knows by its hash after the first use."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


# A server that is full refuses to queue even reads, but runs a script that begins with none of its writes.
TOGETHER = Script("""
local replies = {}
for i, command in ipairs(cjson.decode(ARGV[1])) do replies[i] = redis.pcall(unpack(command)) end
return replies
""")


def together(commands: Sequence[Command]) -> bytes:
    """Commands as that script takes them."""
    return msgspec.json.encode([[str(part) for part in command] for command in commands])


class Wire:
    """One connection. Whoever is interrupted on it must `drop` it, as replies may still be on their way."""

    def __init__(self, server: Server, *, text: bool) -> None:
        kind = UnixDomainSocketConnection if server.unix else SSLConnection if server.tls else Connection
        self._server = server
        # No time limits and no retries of the driver's own: a call is sent once, and its limit is ours.
        self._connection: Any = kind(
            **server.options,
            protocol=2,
            decode_responses=text,
            encoding_errors="replace" if text else "strict",
            driver_info=None,
            socket_timeout=None,
            socket_connect_timeout=None,
        )
        self._transport: asyncio.WriteTransport | None = None
        self._unread = select.poll()

    async def connect(self, *, check: bool) -> None:
        """Connect and say who we are; with `check`, also ask who the server is."""
        try:
            await self._connection.connect()
            self._keep_transport()
            self._unread.register(self._connection._writer.get_extra_info("socket").fileno(), select.POLLIN)
            if check:
                await self.send([("INFO", "server")])
                info = await self.reply()
                self._server.check(info if isinstance(info, str) else info.decode("utf-8", "replace"))
        except BaseException:
            self._keep_transport()
            await self.drop()
            raise

    def _keep_transport(self) -> None:
        writer = self._connection._writer  # the driver forgets it before it is closed
        if writer is not None:
            self._transport = writer.transport

    async def send(self, commands: Sequence[Command]) -> None:
        try:
            packed = b"".join([pack_command(command) for command in commands])
        except (TypeError, ValueError):  # the driver's own way is slower, and knows more
            packed = b"".join(self._connection.pack_commands(commands))
        await self._connection.send_packed_command(packed, check_health=False)

    async def reply(self) -> Any:
        """The next reply; one that says that a command failed is raised as `ResponseError`."""
        return await self._connection.read_response(disconnect_on_error=False)

    async def stale(self) -> bool:
        """Whether the server has closed it, or said something unasked, even if the loop has not seen it yet."""
        try:
            return bool(self._unread.poll(0)) or bool(await self._connection.can_read())
        except (exceptions.RedisError, OSError):
            return True

    async def drop(self) -> None:
        """Close it at once, whatever is on its way; never waits."""
        if self._transport is not None:
            self._transport.abort()
        await self._connection.disconnect(nowait=True)


class Link:
    """Calls to one server. A failed or cancelled call drops its connection; the next one connects anew.

    `text` says whether replies are text (what is not UTF-8 is replaced) or bytes.
    """

    def __init__(self, url: str, setting: str, *, text: bool = False) -> None:
        self.server = server_of(url, setting)
        self._text = text
        self._room = asyncio.Semaphore(CONNECTIONS_MAX)
        self._waiters = asyncio.Semaphore(WAITERS_MAX)
        self._idle: list[Wire] = []
        self._checked = False
        self._closed = False

    async def call(self, *command: Any) -> Any:
        """The reply of one command."""
        return self.answer((await self.calls([command]))[0])

    async def calls(self, commands: Sequence[Command]) -> list[Any]:
        """The replies of commands sent together; those that failed have an exception in their place."""
        return await self._exchange(commands, self._room, CALL_S)

    async def atomic(self, commands: Sequence[Command]) -> list[Any]:
        """The same, but no other client's command comes between them."""
        replies = await self.calls([("MULTI",), *commands, ("EXEC",)])
        refused = [reply for reply in replies[1:-1] if isinstance(reply, Exception)]
        if refused and is_full(refused[0]):
            replies, refused = [await self.run(TOGETHER, (), (together(commands),))], []
        done: list[Any] = self.answer(refused[0] if refused else replies[-1])
        return done

    async def run(self, script: Script, keys: Sequence[str], args: Sequence[Any]) -> Any:
        """A script's reply, or the exception that it made."""
        rest = (len(keys), *keys, *args)
        reply = (await self.calls([("EVALSHA", script.sha, *rest)]))[0]
        if isinstance(reply, exceptions.NoScriptError):  # a new server: nothing was done
            reply = (await self.calls([("EVAL", script.text, *rest)]))[0]
        return reply

    async def wait(self, wait_ms: int, *command: Any) -> Any:
        """The reply of a command that may wait at the server for `wait_ms`, or the exception that it made."""
        if self._waiters.locked():
            raise TooMuch(f"{WAITERS_MAX} calls wait at {self.server.name} already: wait with fewer at once")
        return (await self._exchange([command], self._waiters, wait_ms / 1_000 + CALL_S - 0.5))[0]

    def answer(self, reply: Any) -> Any:
        """The reply, unless it is an exception."""
        if isinstance(reply, Exception):
            raise self.server.translate(reply) from reply
        return reply

    async def open(self) -> Wire:
        """A connection for the caller alone, who drops it."""
        if self._closed:
            raise Unavailable(f"the connection to {self.server.name} has been closed here: open it again")
        wire = Wire(self.server, text=self._text)
        try:
            async with asyncio.timeout(CALL_S):
                await wire.connect(check=not self._checked)
        except (exceptions.RedisError, OSError) as error:
            raise self.server.translate(error) from error
        self._checked = True
        return wire

    async def close(self) -> None:
        """Close what is idle now and what is in use when it is done; safe to call again."""
        self._closed = True
        await self._drop_idle()
        await asyncio.sleep(0)  # so that what was dropped is closed before the loop ends

    async def _exchange(self, commands: Sequence[Command], room: asyncio.Semaphore, limit_s: float) -> list[Any]:
        try:
            async with asyncio.timeout(limit_s), room:
                return await self._talk(await self._take(), commands)
        except TimeoutError:
            raise self.server.silent() from None
        except (exceptions.RedisError, OSError) as error:
            await self._drop_idle()  # they have most likely met the same end
            raise self.server.translate(error) from error

    async def _take(self) -> Wire:
        while self._idle:
            wire = self._idle.pop()
            if not await wire.stale():
                return wire
            await wire.drop()
        return await self.open()

    async def _talk(self, wire: Wire, commands: Sequence[Command]) -> list[Any]:
        replies: list[Any] = []
        try:
            await wire.send(commands)
            for _ in commands:
                try:
                    replies.append(await wire.reply())
                except exceptions.ResponseError as error:
                    replies.append(error)
        except BaseException:
            await wire.drop()
            raise
        if self._closed or len(self._idle) >= CONNECTIONS_MAX:
            await wire.drop()
        else:
            self._idle.append(wire)
        return replies

    async def _drop_idle(self) -> None:
        idle, self._idle = self._idle, []
        for wire in idle:
            await wire.drop()
