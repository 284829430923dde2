"""The processes of the gateway's benchmark: the load generator, ours, Fastify, nats-server; each ended by its pid."""

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from bench.gateway_server import event
from tests.servers import free_port

HERE = Path(__file__).parent
WAIT_S = 60.0
STEP = 100
"""Events a client gets between two words of the load generator."""


class Program:
    """A process that takes lines and says lines."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        await self._process.stdin.drain()

    async def hear(self, word: str) -> list[str]:
        """The rest of the next line that begins with this word."""
        assert self._process.stdout is not None
        async with asyncio.timeout(WAIT_S):
            while line := (await self._process.stdout.readline()).decode().split():
                if line[0] == word:
                    return line[1:]
        raise SystemExit(f"the run broke: a process ended before it said {word}")

    async def end(self) -> None:
        if self._process.returncode is None:
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), 15)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def program(*words: str | Path) -> AsyncIterator[Program]:
    """A process, ended with the block."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*map(str, words), stdin=pipe, stdout=pipe, limit=2**20)
    running = Program(process)
    try:
        yield running
    finally:
        await running.end()


class Target:
    """A server under test, whoever publishes to it, and how its clients speak.

    The publisher may be `window` events ahead of the clients: enough to keep everybody busy, too few to fill a queue.
    """

    def __init__(
        self,
        name: str,
        server: Program,
        publisher: Program,
        port: int,
        *,
        key: str = "-",
        kind: str = "frames",
        window: int = 800,
    ) -> None:
        self.name = name
        self.server = server
        self.publisher = publisher
        self.port = port
        self.key = key
        self.kind = kind
        self.window = window


class Parts:
    """Where the benchmark's files are, and what was compiled."""

    def __init__(self, folder: Path, load: Path, stack: AsyncExitStack) -> None:
        self.folder = folder
        self._load = load
        self._stack = stack

    async def start(self, *words: str | Path) -> Program:
        return await self._stack.enter_async_context(program(*words))

    async def ours(
        self, name: str, *, live_url: str = "", markets: int = 6, past: int = 0, past_markets: int = 0
    ) -> Target:
        """Our gateway; with a Redis, its publisher is a process of its own."""
        options = ["--live-url", live_url, "--markets", str(markets)]
        before = ["--past", str(past), "--past-markets", str(past_markets)]
        command = [sys.executable, "-m", "bench.gateway_server"]
        server = await self.start(*command, "serve", "--folder", self.folder / name, *options, *before)
        port, key = await server.hear("ready")
        publisher = server
        if live_url:
            publisher = await self.start(*command, "publish", *options)
            await publisher.hear("ready")
        return Target(name, server, publisher, int(port), key=key)

    async def fastify(self) -> Target | None:
        """Fastify with its WebSocket plug-in; its packages are fetched once."""
        peers = HERE / "peers"
        if shutil.which("node") is None or shutil.which("npm") is None:
            return left_out("Node is not here, so Fastify")
        if not (peers / "node_modules" / "fastify").exists():
            fetch = await asyncio.create_subprocess_exec("npm", "ci", "--silent", cwd=peers)
            if await fetch.wait():
                return left_out("Fastify's packages could not be fetched, so it")
        server = await self.start("node", peers / "fastify.js", event("M000", 1, 0).decode())
        (port,) = await server.hear("ready")
        return Target("fastify", server, server, int(port), window=200)

    async def nats(self) -> Target | None:
        """nats-server with its WebSocket listener, and a publisher in C."""
        found = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin:/usr/local/sbin")
        if found is None:
            return left_out("nats-server is not here (on Debian: apt-get install nats-server), so it")
        port, ws_port = free_port(), free_port()
        config = self.folder / "nats.conf"
        config.write_text(
            f'listen: "127.0.0.1:{port}"\nmax_payload: 1MB\nlogfile: "{self.folder}/nats.log"\n'
            f'websocket {{ listen: "127.0.0.1:{ws_port}", no_tls: true }}\n'
        )
        server = await self.start(found, "-c", config)
        await answers(ws_port)
        one = self.written("event", [event("M000", 1, 0).decode()])
        publisher = await self.start(self._load, "publish", str(port), "events", one)
        await publisher.hear("open")
        return Target("nats", server, publisher, ws_port, kind="nats")

    def written(self, name: str, lines: Sequence[str]) -> Path:
        path = self.folder / f"{name}.txt"
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    @asynccontextmanager
    async def clients(
        self, target: Target, count: int, first: Path, second: Path | None = None
    ) -> AsyncIterator[Program]:
        """So many clients, each of which has been answered."""
        path = "/" if target.kind == "nats" else "/v1/stream"
        words = [str(target.port), str(count), target.kind, path, target.key, str(STEP * count)]
        async with program(self._load, "clients", *words, first, *([second] if second else [])) as load:
            await load.hear("open")
            yield load


async def counted(load: Program) -> int:
    await load.say("count")
    return int((await load.hear("counted"))[0])


async def arrived(load: Program, wanted: int, every_s: float = 0.02) -> None:
    """Wait until every delivery has arrived; one too many or too few is an error."""
    deadline = time.monotonic() + 30
    while (got := await counted(load)) != wanted:
        if got > wanted or time.monotonic() > deadline:
            raise SystemExit(f"the run broke: {got} of {wanted} deliveries")
        await asyncio.sleep(every_s)


def left_out(words: str) -> None:
    print(f"{words} is left out", file=sys.stderr)


def request(kind: str, channels: Sequence[object]) -> str:
    return json.dumps({"type": kind, "id": "1", "channels": channels}, separators=(",", ":"))


def trades_of(markets: Sequence[int]) -> list[object]:
    return [{"channel": f"artery:stream:sim:M{number:03d}", "types": ["TRADE"]} for number in markets]


def compiled(folder: Path) -> Path | None:
    """The load generator, or nothing where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return left_out("a C compiler is not here, so the gateway's load generator")
    made = folder / "load"
    subprocess.run([compiler, "-O2", "-o", made, HERE / "load.c"], check=True)
    return made


async def answers(port: int) -> None:
    """Wait until somebody listens there."""
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return
