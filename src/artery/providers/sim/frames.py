"""What the simulated venue writes on the wire, byte for byte in Hyperliquid's form."""

import hashlib
from functools import lru_cache
from typing import Any

import msgspec

from artery.providers.sim.book import DEPTH, FAST_DEPTH, Side, SimBook
from artery.providers.sim.candles import Candles
from artery.providers.sim.listing import LISTINGS, Listing, text
from artery.providers.sim.prints import Prints

GREETING = b"Websocket connection established."
PONG = b'{"channel":"pong"}'

_USERS = tuple("0x" + hashlib.sha256(f"user {number}".encode()).hexdigest()[:40] for number in range(64))
_HASH_HEAD = "0x" + hashlib.sha256(b"block").hexdigest()[:48]
_price_text = lru_cache(maxsize=65_536)(text)


def trades(listing: Listing, prints: Prints) -> str:
    """The array of trades that a `trades` frame and `recentTrades` hold."""
    head = f'{{"coin":"{listing.coin}","side":"'
    price, size = listing.price_decimals, listing.size_decimals
    rows = [
        f'{head}{"B" if buy else "A"}","px":"{_price_text(px, price)}","sz":"{text(sz, size)}","time":{time},'
        f'"hash":"{_HASH_HEAD}{tid:016x}","tid":{tid},"users":["{_USERS[tid & 63]}","{_USERS[tid >> 6 & 63]}"]}}'
        for time, px, sz, buy, tid in zip(*(column.tolist() for column in prints), strict=True)
    ]
    return f"[{','.join(rows)}]"


def l2_book(listing: Listing, book: SimBook, time_ms: int, *, fast: bool = False) -> str:
    """A whole book: 20 levels a side, or 5 and a flag when it is the fast one."""
    depth = FAST_DEPTH if fast else DEPTH
    levels = ",".join(_side(listing, side, depth) for side in book)
    flag = ',"fast":true' if fast else ""
    return f'{{"coin":"{listing.coin}","time":{time_ms},"levels":[{levels}]{flag}}}'


def all_mids(mid_halves: dict[str, int]) -> str:
    """Mid prices of all markets; they may lie on half a tick."""
    rows = (f'"{listing.coin}":"{_half(mid_halves[listing.coin], listing.price_decimals)}"' for listing in LISTINGS)
    return f"{{{','.join(rows)}}}"


def candle_rows(listing: Listing, interval: str, candles: Candles) -> list[str]:
    """Each candle as the venue writes it."""
    price, size = listing.price_decimals, listing.size_decimals
    columns = (candles.starts, candles.ends, *candles.rows)
    return [
        f'{{"t":{start},"T":{end},"s":"{listing.coin}","i":"{interval}","o":"{_price_text(o, price)}",'
        f'"c":"{_price_text(c, price)}","h":"{_price_text(h, price)}","l":"{_price_text(low, price)}",'
        f'"v":"{text(v, size)}","n":{n}}}'
        for start, end, o, h, low, c, v, n in zip(*(column.tolist() for column in columns), strict=True)
    ]


def meta(delisted: str = "") -> str:
    """The markets that there are."""
    universe = [
        {
            "szDecimals": listing.size_decimals,
            "name": listing.coin,
            "maxLeverage": listing.leverage_max,
            "marginTableId": listing.leverage_max,
            **({"isDelisted": True} if listing.coin == delisted else {}),
        }
        for listing in LISTINGS
    ]
    tables = [
        [
            leverage,
            {"description": "", "marginTiers": [{"lowerBound": "0.0", "maxLeverage": leverage}]},
        ]
        for leverage in sorted({listing.leverage_max for listing in LISTINGS})
    ]
    return encoded({"universe": universe, "marginTables": tables, "collateralToken": 0})


def message(channel: str, data: str) -> bytes:
    """A frame's text: a channel and its data, which is JSON already."""
    return f'{{"channel":"{channel}","data":{data}}}'.encode()


def acknowledgement(method: str, subscription: dict[str, Any]) -> bytes:
    """The echo of a subscription, with defaults filled in."""
    return message("subscriptionResponse", encoded({"method": method, "subscription": subscription}))


def error(words: str) -> bytes:
    return message("error", encoded(words))


def encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def websocket_frame(payload: bytes) -> bytes:
    """A text frame as a server sends it: made once, the same bytes for every client."""
    size = len(payload)
    if size < 126:
        return bytes((0x81, size)) + payload
    if size < 65_536:
        return b"\x81\x7e" + size.to_bytes(2, "big") + payload
    return b"\x81\x7f" + size.to_bytes(8, "big") + payload


def _side(listing: Listing, side: Side, depth: int) -> str:
    price, size = listing.price_decimals, listing.size_decimals
    rows = zip(side.px[:depth].tolist(), side.sz[:depth].tolist(), side.n[:depth].tolist(), strict=True)
    levels = (f'{{"px":"{_price_text(px, price)}","sz":"{text(sz, size)}","n":{n}}}' for px, sz, n in rows)
    return f"[{','.join(levels)}]"


def _half(halves: int, decimals: int) -> str:
    return text(halves * 5, decimals + 1)
