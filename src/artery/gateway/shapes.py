"""What HTTP answers look like: types that are encoded as they are, and described as they are."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from artery.gateway.keys import EXPIRY_MAX_S, USER_MAX, Key
from artery.gateway.rows import CandleRow, TradeRow

Printable = Annotated[str, Meta(min_length=1, max_length=USER_MAX, pattern=r"^[ -~]*$")]
ScopeName = Annotated[str, Meta(pattern=r"^(?:read|stream|alerts|events|admin)$")]
ExpirySeconds = Annotated[int, Meta(ge=0, le=EXPIRY_MAX_S)]


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Exactly these fields."""


class Problem(Shape, frozen=True):
    code: str
    message: str
    requestId: str  # noqa: N815 (the contract's own name)


class Error(Shape, frozen=True):
    """How every error looks."""

    error: Problem


class UdfError(Shape, frozen=True):
    """An error as a chart expects it, and as every other route says it."""

    s: str
    errmsg: str
    error: Problem


class Capabilities(Shape, frozen=True):
    trades: bool
    books: bool
    candles: list[str]


class Provider(Shape, frozen=True):
    provider: str
    exchange: str
    simulated: bool
    state: str
    capabilities: Capabilities


class Providers(Shape, frozen=True):
    providers: list[Provider]


class Market(Shape, frozen=True):
    provider: str
    coin: str
    channel: str
    ticker: str
    base: str
    quote: str
    tick_size: str
    size_step: str
    status: str
    version: int
    valid_from: int
    followed: bool
    simulated: bool
    last: str | None


class Markets(Shape, frozen=True):
    markets: list[Market]


class Gap(Shape, frozen=True):
    provider: str
    market: str
    from_ms: int
    to_ms: int
    cause: str
    epoch: int


class Gaps(Shape, frozen=True):
    gaps: list[Gap]


class CandlePage(Shape, frozen=True):
    """Candles, oldest first; `next` is the cursor of the page that follows."""

    provider: str
    market: str
    ticker: str
    interval: str
    candles: list[CandleRow]
    next: str | None


class TradePage(Shape, frozen=True):
    """Trades, oldest first; `next` is the cursor of the page that follows."""

    provider: str
    market: str
    ticker: str
    trades: list[TradeRow]
    next: str | None


class Proof(Shape, frozen=True):
    """A one-use start code, or a key."""

    start: str = ""
    key: str = ""


class Who(Shape, frozen=True):
    user: str
    scopes: list[str]


class Alive(Shape, frozen=True):
    alive: bool


class Ready(Shape, frozen=True):
    ready: bool


class KeyRow(Shape, frozen=True):
    """A key as it is listed: never its secret."""

    id: str
    user: str
    scopes: list[str]
    created_ms: int
    expires_ms: int | None
    revoked_ms: int | None

    @staticmethod
    def of(key: Key) -> "KeyRow":
        return KeyRow(key.id, key.user, list(key.scopes), key.created_ms, key.expires_ms, key.revoked_ms)


class Keys(Shape, frozen=True):
    keys: list[KeyRow]


class NewKey(Shape, frozen=True):
    """Whom a key is for, what it may do, and when it ends (in seconds from now; null: never)."""

    user: Printable
    scopes: Annotated[list[ScopeName], Meta(min_length=1, max_length=5)]
    expires_in_s: ExpirySeconds | None = None


class MadeKey(KeyRow, frozen=True):
    """A new key; `key` is its text, which is shown this once."""

    key: str


class Expiry(Shape, frozen=True):
    """When a key ends, in seconds from now (0: at once; null: never)."""

    expires_in_s: ExpirySeconds | None


class Letter(Shape, frozen=True):
    """An entry of the log that was given up: where it was, by whom, after how many tries and why."""

    id: str
    at_ms: int
    stream: str
    entry: str
    group: str
    error: str
    tries: str
    requeued: bool
    fields: dict[str, str]


class Letters(Shape, frozen=True):
    letters: list[Letter]
    next: str | None


class Requeue(Shape, frozen=True):
    """Where a letter's entry stands in its stream now."""

    id: str
    position: str


class UdfExchange(Shape, frozen=True):
    value: str
    name: str
    desc: str


class UdfType(Shape, frozen=True):
    name: str
    value: str


class UdfConfig(Shape, frozen=True):
    supports_search: bool
    supports_group_request: bool
    supports_marks: bool
    supports_timescale_marks: bool
    supports_time: bool
    supported_resolutions: list[str]
    exchanges: list[UdfExchange]
    symbols_types: list[UdfType]


class UdfSymbol(Shape, frozen=True):
    """A market as TradingView's `LibrarySymbolInfo`."""

    name: str
    ticker: str
    description: str
    type: str
    exchange: str
    listed_exchange: str
    session: str
    timezone: str
    format: str
    minmov: int
    pricescale: int
    has_intraday: bool
    has_seconds: bool
    has_daily: bool
    has_weekly_and_monthly: bool
    intraday_multipliers: list[str]
    seconds_multipliers: list[str]
    supported_resolutions: list[str]
    volume_precision: int
    data_status: str
    currency_code: str


class UdfFound(Shape, frozen=True):
    symbol: str
    full_name: str
    description: str
    exchange: str
    ticker: str
    type: str


class UdfBars(Shape, frozen=True):
    """Bars as columns; numbers are exact decimals, `t` is Unix seconds."""

    s: str
    t: list[int]
    o: list[float]
    h: list[float]
    l: list[float]  # noqa: E741 (the chart's own name)
    c: list[float]
    v: list[float]


class UdfNoData(Shape, frozen=True, omit_defaults=True):
    """Nothing in the stretch; `nextTime` is the newest bar before it, if there is one."""

    s: str
    nextTime: int | msgspec.UnsetType = msgspec.UNSET  # noqa: N815 (the chart's own name)


Anything = dict[str, Any]
