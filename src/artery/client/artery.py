"""The client: one object, live events and history."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
import msgspec
import pyarrow as pa
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidState, InvalidURI
from websockets.frames import CloseCode

from artery.client import frames, indicators
from artery.client.frames import Event, Gap, Tracker
from artery.client.names import channel, moment
from artery.errors import BadInput, NotAllowed, Unavailable
from artery.model.periods import Period

ROWS_PER_PAGE = 5_000
ROWS_MAX = 1_000_000
FRAME_MAX_BYTES = 16 * 1024 * 1024
WAIT_S = 30.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0
COME_BACK_MAX = 4499  # close codes above it say: do not come back


class Artery:
    """A gateway and a key; use it as `async with Artery(url, key) as artery:`."""

    def __init__(self, url: str, key: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise BadInput(f"{url!r:.80} is not a gateway's address: write http://HOST:PORT")
        if not key.isascii() or not key.isprintable() or key != key.strip() or not key:
            raise NotAllowed("that is not a key: `artery keys create` makes one, and data/sim/key holds the local one")
        self._ws_url = f"{'wss' if parts.scheme == 'https' else 'ws'}://{parts.netloc}/v1/stream"
        self._headers = {"Authorization": f"Bearer {key}"}
        self._http = httpx.AsyncClient(
            base_url=f"{parts.scheme}://{parts.netloc}", headers=self._headers, timeout=WAIT_S, trust_env=False
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def stream(
        self, market: str, types: Sequence[str] = (), since: str | int | datetime | None = None
    ) -> AsyncIterator[Event | Gap]:
        """Events of a market, for ever, in order. It reconnects by itself; what was missed comes as a `Gap`."""
        wanted, tracker = channel(market), Tracker()
        start = {"ms": moment(since, _now_ms())} if since is not None else None
        pause_s, connected = FIRST_PAUSE_S, False
        while True:
            try:
                socket = await self._connect()
                connected, pause_s = True, FIRST_PAUSE_S
                try:
                    await socket.send(frames.subscribe(wanted, types, tracker.since() or start), text=True)
                    while True:
                        for item in tracker.take(msgspec.json.decode(await socket.recv())):
                            yield item
                finally:
                    _leave(socket)
            except ConnectionClosed as closed:
                _refuse_if_final(closed)
            except (OSError, InvalidHandshake, InvalidURI, TimeoutError) as error:
                if not connected:
                    raise Unavailable(f"nothing answers at {self._ws_url}: start it with `artery up`") from error
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def history(
        self,
        market: str,
        period: str = "1m",
        since: str | int | datetime = "1d",
        until: str | int | datetime | None = None,
    ) -> pa.Table:
        """Candles as an Arrow table, oldest first, fetched page by page."""
        wanted, length = channel(market), Period.parse(period)
        now_ms = _now_ms()
        start_ms, end_ms = moment(since, now_ms), moment(until, now_ms) if until is not None else now_ms + 1
        pages: list[pa.Table] = []
        while start_ms < end_ms and sum(page.num_rows for page in pages) < ROWS_MAX:
            page = await self._page(wanted.provider, wanted.market, period, start_ms, end_ms)
            pages.append(page)
            if page.num_rows < ROWS_PER_PAGE:
                break
            start_ms = page.column("start")[-1].as_py() + length.ms
        return pa.concat_tables(pages) if pages else await self._page(wanted.provider, wanted.market, period, 0, 0)

    async def indicators(
        self,
        market: str,
        period: str = "1m",
        since: str | int | datetime = "1d",
        until: str | int | datetime | None = None,
    ) -> pa.Table:
        """The indicators of every candle as an Arrow table, oldest first."""
        now_ms = _now_ms()
        start_ms, end_ms = moment(since, now_ms), moment(until, now_ms) if until is not None else now_ms + 1
        return await indicators.past(self._body, channel(market), Period.parse(period), start_ms, end_ms)

    async def indicators_now(self, market: str, period: str = "1m") -> dict[str, Any]:
        """The indicators of the newest closed candle and of the open one, as the engine has them."""
        return await indicators.now(self._body, channel(market), Period.parse(period))

    async def markets(self) -> list[dict[str, Any]]:
        """What the gateway serves."""
        answer = await self._get("/v1/markets", {})
        return list(msgspec.json.decode(answer.content)["markets"])

    async def _page(self, provider: str, market: str, period: str, start_ms: int, end_ms: int) -> pa.Table:
        answer = await self._get(
            "/v1/history",
            {"provider": provider, "market": market, "interval": period, "start": start_ms, "end": end_ms,
             "limit": ROWS_PER_PAGE, "format": "arrow"},
        )  # fmt: skip
        with pa.ipc.open_stream(answer.content) as reader:
            return reader.read_all()

    async def _get(self, path: str, query: dict[str, Any]) -> httpx.Response:
        try:
            answer = await self._http.get(path, params=query)
        except httpx.HTTPError as error:
            raise Unavailable(f"the gateway did not answer {path}: {error or type(error).__name__}") from error
        if answer.status_code != httpx.codes.OK:
            raise _http_error(answer)
        return answer

    async def _body(self, path: str, query: dict[str, Any]) -> bytes:
        return (await self._get(path, query)).content

    async def _connect(self) -> ClientConnection:
        return await connect(
            self._ws_url,
            additional_headers=self._headers,
            max_size=FRAME_MAX_BYTES,
            compression=None,
            open_timeout=WAIT_S,
            proxy=None,
        )


def _leave(socket: ClientConnection) -> None:
    """Say goodbye and go, without a wait: a loop that is left with `break` is closed by the garbage collector."""
    with contextlib.suppress(InvalidState):
        socket.protocol.send_close(CloseCode.NORMAL_CLOSURE)
        socket.send_data()
    socket.transport.close()


def history(url: str, key: str, market: str, period: str = "1m", since: str | int | datetime = "1d") -> pa.Table:
    """The same as `Artery.history`, for programs and notebooks without `await`."""

    async def fetch() -> pa.Table:
        async with Artery(url, key) as artery:
            return await artery.history(market, period, since)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(fetch())
    return _in_a_thread(fetch)  # a notebook's own loop is running


def _in_a_thread(fetch: Callable[[], Coroutine[Any, Any, pa.Table]]) -> pa.Table:
    with ThreadPoolExecutor(1) as pool:
        table: pa.Table = pool.submit(lambda: asyncio.run(fetch())).result()
    return table


def _refuse_if_final(closed: ConnectionClosed) -> None:
    received = closed.rcvd
    if received and received.code > COME_BACK_MAX:
        raise NotAllowed(received.reason or f"the gateway closed the connection for good ({received.code})")


def _http_error(answer: httpx.Response) -> Exception:
    try:
        return frames.error_of(msgspec.json.decode(answer.content)["error"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return Unavailable(f"the gateway answered {answer.status_code} without a reason")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
