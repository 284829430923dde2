"""The client: one object, live events and history."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import httpx
import msgspec
import pyarrow as pa
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidState, InvalidStatus, InvalidURI
from websockets.frames import CloseCode

from artery.client import frames, indicators
from artery.client.frames import Event, Gap, Tracker
from artery.client.names import Since, channel, moment, series, starts, types_of
from artery.client.symbols import changes, symbols_of
from artery.client.tables import Kind, cut_short, incomplete, shaped
from artery.client.tries import Busy, Tries
from artery.errors import BadInput, NotAllowed, TooMuch, Unavailable
from artery.model.channels import Channel
from artery.model.events import Candle, Trade
from artery.model.periods import Period
from artery.model.symbols import Symbol

if TYPE_CHECKING:
    from artery.client.relay import Progress, Relay

ROWS_PER_PAGE = 5_000
ROWS_MAX = 1_000_000
FRAME_MAX_BYTES = 16 * 1024 * 1024
WAIT_S = 30.0
COME_BACK_MAX = 4499  # close codes above it say: do not come back


class Artery:
    """One gateway or several (all on one log) and a key; use it as `async with Artery(url, key) as artery:`."""

    def __init__(
        self,
        url: str | Sequence[str],
        key: str,
        relay: tuple[str, str] | None = None,
        relay_key: str | Path = "",
        lake: str | Path = "",
    ) -> None:
        """`relay` is (where requests go, where to subscribe), if not the usual ports of this machine; `relay_key` is
        the file of the key pair that a relay on other machines asks for. `lake` is the data folder of the venue
        (`data/sim`), where this program can read it: fetched history is then read from there, at its snapshot."""
        urls = [url] if isinstance(url, str) else list(url)
        if not urls:
            raise BadInput("a client needs at least one gateway's address: write http://HOST:PORT")
        if not key.isascii() or not key.isprintable() or key != key.strip() or not key:
            raise NotAllowed("that is not a key: `artery keys create` makes one, and data/sim/key holds the local one")
        self._bases = [_base(each) for each in urls]
        self._headers = {"Authorization": f"Bearer {key}"}
        self._relay = relay
        self._relay_key = relay_key
        self._lake = lake
        self._http = httpx.AsyncClient(headers=self._headers, timeout=WAIT_S, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def stream(
        self, market: str, types: str | Sequence[str] = (), since: Since | None = None
    ) -> AsyncIterator[Event | Gap]:
        """Events of a market, in order, for ever: from `since` on, then live.

        `types` are of `TRADE`, `BOOK_TOPN`, `CANDLE:5m` (any period there is) and `MIDS`; none of them means all that
        the channel carries, with candles of a minute.

        It reconnects by itself, to any of its gateways, and goes on behind what it has seen of each series; what
        nobody can give it any more comes as a `Gap`.
        """
        wanted, types = channel(market), types_of(types)
        tracker = Tracker(starts(since, series(wanted, types), _now_ms()))
        tries = Tries(self._bases)
        while True:
            try:
                socket = await self._connect(tries.base)
                tries.connected()
                try:
                    await socket.send(tracker.ask(wanted, types), text=True)
                    while True:
                        frame = msgspec.json.decode(await socket.recv())
                        if frames.passes(frame):
                            raise Busy(frames.error_of(frame))
                        tries.let_in()
                        if tracker.more(frame):  # a long past comes in several replays
                            await socket.send(tracker.ask(wanted, types), text=True)
                            continue
                        for item in tracker.take(frame):
                            yield item
                finally:
                    _leave(socket)
            except ConnectionClosed as closed:
                _refuse_if_final(closed)
            except Busy as busy:
                tries.busy(busy.error)
            except InvalidStatus as error:
                tries.refused(error.response)
            except (OSError, InvalidHandshake, InvalidURI, TimeoutError):
                tries.unanswered()
            await asyncio.sleep(tries.next())

    async def history(
        self,
        market: str,
        period: str = "1m",
        since: str | int | datetime = "1d",
        until: str | int | datetime | None = None,
        *,
        to: Kind = "arrow",
        fetch: bool = False,
        progress: Callable[["Progress"], None] = lambda _progress: None,
    ) -> Any:
        """Candles, oldest first, fetched page by page: an Arrow table, or a DataFrame of pandas or polars.

        Of more than a million the oldest come, with a warning that says from where to ask again.

        With `fetch`, what the lake lacks is brought from the venue before, through the relay; with the client's `lake`
        it is then read at the snapshot that the outcome names. A warning says if only a part came.
        """
        if fetch:
            async with self._relayed() as relay:
                outcome = await relay.fetch(market, period, since, until, progress=progress)
            if outcome.status == outcome.PARTIAL:
                incomplete(outcome.error)
            if self._lake and outcome.snapshot_id:
                from artery.client.snapshots import candles_of  # late, because of its driver

                return shaped(await asyncio.to_thread(candles_of, self._lake, outcome), to, time="start")
        query = {"interval": str(Period.parse(period))}
        return shaped(await self._rows(channel(market), query, since, until), to, time="start")

    async def trades(
        self,
        market: str,
        since: str | int | datetime = "10m",
        until: str | int | datetime | None = None,
        *,
        to: Kind = "arrow",
    ) -> Any:
        """Trades, oldest first, fetched page by page: an Arrow table, or a DataFrame of pandas or polars."""
        return shaped(await self._rows(channel(market), {"type": "trades"}, since, until), to, time="ts")

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

    async def ticks(self, market: str) -> AsyncIterator[Trade | Gap]:
        """A market's trades, live, through the relay; the market is followed while someone listens.

        What was lost on the way, seen by its number, is read from the gateway, in order; what is not to be had there
        either is a `Gap`.
        """
        from artery.client.healed import healed  # late, because of its driver

        async with self._relayed() as relay:
            async for item in healed(relay.ticks(market), self.trades):
                yield item

    async def candles(self, market: str, period: str = "1m") -> AsyncIterator[Candle | Gap]:
        """Every version of a market's candles, live, through the relay; a later one of the same start holds.

        Where some were lost on the way, the gateway is asked for that time; what it does not have either is a `Gap`.
        """
        from artery.client.healed_candles import healed_candles  # late, because of its driver

        async with self._relayed() as relay:
            read = partial(self.history, market, period)
            async for item in healed_candles(relay.candles(market, period), Period.parse(period), read):
                yield item

    def _relayed(self) -> "Relay":
        from artery.client.relay import CLIENTS, REQUESTS, Relay  # late, because of its driver

        requests, clients = self._relay or (REQUESTS, CLIENTS)
        return Relay(requests, clients, self._relay_key)

    async def markets(self) -> list[dict[str, Any]]:
        """What the gateway serves."""
        answer = await self._get("/v1/markets", {})
        return list(msgspec.json.decode(answer.content)["markets"])

    async def symbols(self) -> list[Symbol]:
        """The newest version of every market's metadata, as far as it is known."""
        return symbols_of(await self.markets())

    async def symbol_changes(self) -> AsyncIterator[Symbol]:
        """Every market's metadata, then each newer version of one as it comes, for ever."""
        async with self._relayed() as relay:
            async for symbol in changes(relay.metadata_updates(), self.symbols):
                yield symbol

    async def _rows(
        self, market: Channel, query: dict[str, str], since: str | int | datetime, until: str | int | datetime | None
    ) -> pa.Table:
        now_ms = _now_ms()
        asked: dict[str, Any] = {
            **query, "provider": market.provider, "market": market.market, "start": max(0, moment(since, now_ms)),
            "end": now_ms + 1 if until is None else moment(until, now_ms), "limit": ROWS_PER_PAGE, "format": "arrow",
        }  # fmt: skip
        pages: list[pa.Table] = []
        while True:
            answer = await self._get("/v1/history", asked)
            with pa.ipc.open_stream(answer.content) as reader:
                pages.append(reader.read_all())
            cursor = answer.headers.get("artery-next")
            rows = sum(page.num_rows for page in pages)
            if cursor and rows >= ROWS_MAX:
                cut_short(rows, cursor)
            if not cursor or rows >= ROWS_MAX:
                return pa.concat_tables(pages)
            asked["cursor"] = cursor

    async def _get(self, path: str, query: dict[str, Any]) -> httpx.Response:
        for number, base in enumerate(self._bases, 1):
            try:
                answer = await self._http.get(base + path, params=query)
            except httpx.HTTPError as error:
                if number < len(self._bases):
                    continue
                raise Unavailable(f"the gateway did not answer {path}: {error or type(error).__name__}") from error
            if answer.is_server_error and number < len(self._bases):
                continue  # this one is stopping, or its store is away
            if answer.status_code != httpx.codes.OK:
                raise _http_error(answer)
            return answer
        raise Unavailable(f"no gateway answered {path}")

    async def _body(self, path: str, query: dict[str, Any]) -> bytes:
        return (await self._get(path, query)).content

    async def _connect(self, base: str) -> ClientConnection:
        return await connect(
            base.replace("http", "ws", 1) + "/v1/stream",
            additional_headers=self._headers,
            max_size=FRAME_MAX_BYTES,
            compression=None,
            open_timeout=WAIT_S,
            proxy=None,
        )


def _base(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise BadInput(f"{url!r:.80} is not a gateway's address: write http://HOST:PORT")
    return f"{parts.scheme}://{parts.netloc}"


def _leave(socket: ClientConnection) -> None:
    """Say goodbye and go, without a wait: a loop that is left with `break` is closed by the garbage collector."""
    with contextlib.suppress(InvalidState):
        socket.protocol.send_close(CloseCode.NORMAL_CLOSURE)
        socket.send_data()
    socket.transport.close()


def history(
    url: str | Sequence[str],
    key: str,
    market: str,
    period: str = "1m",
    since: str | int | datetime = "1d",
    until: str | int | datetime | None = None,
    *,
    to: Kind = "arrow",
) -> Any:
    """The same as `Artery.history`, for programs and notebooks without `await`."""

    async def fetch() -> Any:
        async with Artery(url, key) as artery:
            return await artery.history(market, period, since, until, to=to)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(fetch())
    return _in_a_thread(fetch)  # a notebook's own loop is running


def _in_a_thread(fetch: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(fetch())).result()


def _refuse_if_final(closed: ConnectionClosed) -> None:
    received = closed.rcvd
    if received and received.code > COME_BACK_MAX:
        raise NotAllowed(received.reason or f"the gateway closed the connection for good ({received.code})")


def _http_error(answer: httpx.Response) -> Exception:
    try:
        error = frames.error_of(msgspec.json.decode(answer.content)["error"])
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return Unavailable(f"the gateway answered {answer.status_code} without a reason")
    told = answer.headers.get("Retry-After", "")
    if isinstance(error, TooMuch) and told.isdecimal():
        error.wait_s = float(told)
    return error


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
