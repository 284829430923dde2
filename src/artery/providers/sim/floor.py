"""The simulated venue's floor: who listens to what, and what is due to be said. No sockets, no clock of its own."""

from typing import Protocol

import msgspec

from artery.providers.sim import answers, frames
from artery.providers.sim.book import book, mid_halves
from artery.providers.sim.candles import open_candle
from artery.providers.sim.faults import Order, garbage, huge_frame
from artery.providers.sim.listing import BY_COIN, LISTINGS
from artery.providers.sim.market import SimMarket
from artery.providers.sim.subscriptions import Key, Refused, Unreadable, read

HISTORY_TRADES = 30
FRAME_TRADES = 1_000
BACKLOG_TRADES = 200_000
HELD_MAX = 10_000
FAST_BOOK_MS = 500
CANDLE_MS = 500


class Listener(Protocol):
    """One connected client, as the floor sees it."""

    subscriptions: set[Key]

    def say(self, frame: bytes) -> None:
        """Queue a whole WebSocket frame."""
        ...

    def refuse(self) -> None:
        """Close the socket in a moment, without a word."""
        ...

    def abort(self) -> None:
        """Close the socket now, without a word."""
        ...


class Pace(msgspec.Struct, frozen=True):
    """How often things are said."""

    book_ms: int = 500
    mids_ms: int = 1_000


class Floor:
    """Everything that happens at the venue; the caller brings messages and the time."""

    def __init__(self, market: SimMarket, pace: Pace) -> None:
        self.market = market
        self.listeners: set[Listener] = set()
        self.stalled_until_ms = 0
        self.muted = ""
        self._pace = {"": pace.book_ms, "fast": FAST_BOOK_MS}
        self._mids_ms = pace.mids_ms
        self._said_up_to: dict[str, int] = {}  # by coin: trades up to this moment have been said
        self._next_trade: dict[str, int] = {}
        self._due = {"": 0, "fast": 0, "mids": 0, "candle": 0}
        self._last_candle: dict[Key, str] = {}
        self._held: list[tuple[Listener, bytes]] = []

    def pulse(self, now_ms: int) -> None:
        """Say everything that is due at `now_ms`."""
        if now_ms < self.stalled_until_ms or not self.listeners:
            return
        held, self._held = self._held, []
        for listener, message in held:
            self.hear(listener, message, now_ms)
        wanted = self._wanted()
        self._say_trades(wanted, now_ms)
        for variant, every_ms in self._pace.items():
            if self._is_due(variant, every_ms, now_ms):
                self._say_books(wanted, variant, now_ms)
        if self._is_due("mids", self._mids_ms, now_ms) and ("allMids", "", "") in wanted:
            self._tell(("allMids", "", ""), self._frame(("allMids", "", ""), now_ms))
        if self._is_due("candle", CANDLE_MS, now_ms):
            self._say_candles(wanted, now_ms)

    def next_ms(self, now_ms: int) -> int:
        """When the next thing is due, at the latest in a tenth of a second."""
        if now_ms < self.stalled_until_ms:
            return min(self.stalled_until_ms, now_ms + 100)
        if not self.listeners:
            return now_ms + 100
        trades = (due for coin, due in self._next_trade.items() if coin != self.muted)
        return min([now_ms + 100, *trades, *self._due.values()])

    def hear(self, listener: Listener, message: bytes, now_ms: int) -> None:
        """Answer one message of a client."""
        if now_ms < self.stalled_until_ms:
            self._hold(listener, message)
            return
        try:
            request = msgspec.json.decode(message)
            method = request["method"]
        except (msgspec.DecodeError, UnicodeDecodeError, TypeError, KeyError):
            self._complain(listener, message)
            return
        if method == "ping":
            listener.say(frames.websocket_frame(frames.PONG))
        elif method == "post":
            self._post(listener, request, message, now_ms)
        elif method in ("subscribe", "unsubscribe"):
            self._subscribe(listener, method, request.get("subscription"), message, now_ms)
        else:
            self._complain(listener, message)

    def leave(self, listener: Listener) -> None:
        self.listeners.discard(listener)
        self._held = [entry for entry in self._held if entry[0] is not listener]

    def disturb(self, order: Order, now_ms: int) -> None:
        """Carry out an order for faults; refusing connections is the server's part."""
        if order.stall_s is not None:
            self.stalled_until_ms = now_ms + int(order.stall_s * 1_000)
        if order.mute_coin is not msgspec.UNSET:
            self.muted = order.mute_coin or ""
        if order.delist is not msgspec.UNSET:
            self.market.delisted = order.delist or ""
        bad = garbage(order.garbage) + ([huge_frame(order.huge_frame_bytes)] if order.huge_frame_bytes else [])
        for payload in bad:
            self._tell_all(frames.websocket_frame(payload))
        if order.drop:
            self.drop_all()

    def drop_all(self) -> None:
        for listener in list(self.listeners):
            listener.abort()
            self.leave(listener)

    def _subscribe(self, listener: Listener, method: str, subscription: object, message: bytes, now_ms: int) -> None:
        try:
            key, echo = read(subscription)
        except Refused:
            listener.refuse()
            return
        except Unreadable:
            self._complain(listener, message)
            return
        if key[1] and key[1] == self.muted:
            self._hold(listener, message)
            return
        if (key in listener.subscriptions) == (method == "subscribe"):
            listener.say(frames.websocket_frame(frames.error(f"Already {method}d: {frames.encoded(echo)}")))
            return
        listener.say(frames.websocket_frame(frames.acknowledgement(method, echo)))
        if method == "unsubscribe":
            listener.subscriptions.discard(key)
            return
        if key[0] == "trades" and not any(key in other.subscriptions for other in self.listeners):
            self._said_up_to[key[1]] = now_ms
            self._next_trade[key[1]] = self.market.next_ms(BY_COIN[key[1]], now_ms)
        listener.subscriptions.add(key)
        listener.say(self._frame(key, now_ms))

    def _post(self, listener: Listener, request: dict[str, object], message: bytes, now_ms: int) -> None:
        inner, number = request.get("request"), request.get("id")
        if not isinstance(inner, dict) or not isinstance(number, int) or inner.get("type") != "info":
            self._complain(listener, message)
            return
        payload = inner.get("payload")
        status, body = answers.info(self.market, msgspec.json.encode(payload), now_ms)
        kind = payload.get("type") if isinstance(payload, dict) else None
        if status == 200:
            data = f'{{"type":"info","payload":{{"type":{frames.encoded(kind)},"data":{body.decode()}}}}}'
        else:
            data = f'{{"type":"error","payload":{frames.encoded(body.decode())}}}'
        listener.say(frames.websocket_frame(frames.message("post", f'{{"id":{number},"response":{data}}}')))

    def _say_trades(self, wanted: set[Key], now_ms: int) -> None:
        self._next_trade = {coin: due for coin, due in self._next_trade.items() if ("trades", coin, "") in wanted}
        for coin, due in list(self._next_trade.items()):
            if due > now_ms or coin == self.muted:
                continue
            listing, after_ms = BY_COIN[coin], self._said_up_to[coin]
            if (now_ms - after_ms) / 1_000 * self.market.trades_per_s * listing.share > BACKLOG_TRADES:
                # The clock jumped, or a fault lasted too long: clients must see a break, not a flood.
                self.drop_all()
                return
            prints = self.market.trades(listing, after_ms, now_ms)
            for start in range(0, len(prints), FRAME_TRADES):
                rows = frames.trades(listing, prints.slice(start, start + FRAME_TRADES))
                self._tell(("trades", coin, ""), frames.websocket_frame(frames.message("trades", rows)))
            self._said_up_to[coin] = now_ms
            self._next_trade[coin] = self.market.next_ms(listing, now_ms)

    def _say_books(self, wanted: set[Key], variant: str, now_ms: int) -> None:
        for key in wanted:
            if key[0] == "l2Book" and key[2] == variant and key[1] != self.muted:
                self._tell(key, self._frame(key, now_ms))

    def _say_candles(self, wanted: set[Key], now_ms: int) -> None:
        for key in wanted:
            if key[0] == "candle" and key[1] != self.muted:
                row = self._candle(key, now_ms)
                if self._last_candle.get(key) != row:
                    self._last_candle[key] = row
                    self._tell(key, frames.websocket_frame(frames.message("candle", row)))

    def _frame(self, key: Key, now_ms: int) -> bytes:
        """The first frame after an acknowledgement; for books and mids also every later one."""
        kind, coin, variant = key
        if kind == "trades":
            newest = self.market.recent(BY_COIN[coin], self._said_up_to[coin], HISTORY_TRADES)
            data = frames.trades(BY_COIN[coin], newest)
        elif kind == "l2Book":
            whole = book(self.market, BY_COIN[coin], now_ms, self._said_ms(coin, now_ms))
            data = frames.l2_book(BY_COIN[coin], whole, now_ms, fast=variant == "fast")
        elif kind == "candle":
            data = self._candle(key, now_ms)
        else:
            mids = {each.coin: mid_halves(self.market, each, self._said_ms(each.coin, now_ms)) for each in LISTINGS}
            data = f'{{"mids":{frames.all_mids(mids)}}}'
        return frames.websocket_frame(frames.message(kind, data))

    def _said_ms(self, coin: str, now_ms: int) -> int:
        """Books and mids fit the trades that were said, if they are being said."""
        return self._said_up_to[coin] if coin in self._next_trade else now_ms

    def _candle(self, key: Key, now_ms: int) -> str:
        listing = BY_COIN[key[1]]
        return frames.candle_rows(listing, key[2], open_candle(self.market, listing, key[2], now_ms))[0]

    def _wanted(self) -> set[Key]:
        return set().union(*(listener.subscriptions for listener in self.listeners))

    def _is_due(self, name: str, every_ms: int, now_ms: int) -> bool:
        """Whether it is time, on a clock that all markets share."""
        if now_ms < self._due[name]:
            return False
        self._due[name] = now_ms - now_ms % every_ms + every_ms
        return True

    def _tell(self, key: Key, frame: bytes) -> None:
        for listener in self.listeners:
            if key in listener.subscriptions:
                listener.say(frame)

    def _tell_all(self, frame: bytes) -> None:
        for listener in self.listeners:
            listener.say(frame)

    def _hold(self, listener: Listener, message: bytes) -> None:
        if len(self._held) < HELD_MAX:
            self._held.append((listener, message))

    def _complain(self, listener: Listener, message: bytes) -> None:
        words = message[:200].decode(errors="replace")
        listener.say(frames.websocket_frame(frames.error(f"Error parsing JSON into valid websocket request: {words}")))
