"""A market's metadata, one version after the other, to and from the string fields that bus and store keep."""

from collections.abc import Mapping
from decimal import Decimal

import msgspec

from artery.errors import BadEvent, BadInput
from artery.model.channels import check_market, check_provider
from artery.model.codec import LATEST_MS, VERSION
from artery.model.decimals import canonical, positive
from artery.model.tickers import ticker

OPEN, DELISTED = "open", "delisted"
PREFIX = "artery:market:"
"""How the store's keys of the newest versions begin."""
TEXT_MAX = 128


class Symbol(msgspec.Struct, frozen=True):
    """One version of a market's metadata. Versions of a market count from 1 without a gap; a new one is made only
    when something has changed, and holds since `valid_from` (Unix ms)."""

    provider: str
    coin: str
    base: str
    quote: str
    tick_size: Decimal
    size_step: Decimal
    status: str = OPEN
    version: int = 1
    valid_from: int = 0

    @property
    def ticker(self) -> str:
        return ticker(self.provider, self.coin)

    def says_the_same(self, other: "Symbol") -> bool:
        """Whether only the version differs, if anything."""
        return msgspec.structs.replace(other, version=self.version, valid_from=self.valid_from) == self


def key(provider: str, coin: str) -> str:
    """Where the store keeps a market's newest version."""
    return f"{PREFIX}{provider}:{coin}"


def encode(symbol: Symbol) -> dict[str, str]:
    """The symbol as an entry of `md_stream:symbol`, and as the store's value."""
    return {
        "ver": VERSION,
        "t": "SYMBOL",
        "provider": symbol.provider,
        "coin": symbol.coin,
        "ticker": symbol.ticker,
        "base": symbol.base,
        "quote": symbol.quote,
        "tick_size": canonical(symbol.tick_size),
        "size_step": canonical(symbol.size_step),
        "status": symbol.status,
        "version": str(symbol.version),
        "valid_from": str(symbol.valid_from),
        "eventTs": str(symbol.valid_from),
    }


def decode(fields: Mapping[str, str]) -> Symbol:
    """The symbol in these fields, or `BadEvent`."""
    if fields.get("ver") != VERSION or fields.get("t") != "SYMBOL":
        raise BadEvent(f"not a symbol: ver {fields.get('ver')!r:.10}, t {fields.get('t')!r:.20}")
    try:
        return Symbol(
            provider=check_provider(fields["provider"]),
            coin=check_market(fields["coin"]),
            base=_short(fields["base"], "base"),
            quote=_short(fields["quote"], "quote"),
            tick_size=positive(fields["tick_size"], what="tick_size"),
            size_step=positive(fields["size_step"], what="size_step"),
            status=_short(fields["status"], "status"),
            version=_whole(fields["version"], "version", 1, 2**31),
            valid_from=_whole(fields["valid_from"], "valid_from", 0, LATEST_MS),
        )
    except BadEvent:
        raise
    except KeyError as error:
        raise BadEvent(f"SYMBOL: field {error.args[0]!r} is missing") from error
    except BadInput as error:
        raise BadEvent(f"SYMBOL: {error}") from error


def read(value: bytes | None) -> Symbol | None:
    """The symbol in a value of the store; one that cannot be read counts as absent."""
    try:
        return decode(msgspec.json.decode(value, type=dict[str, str])) if value else None
    except (msgspec.DecodeError, BadEvent):
        return None


def write(symbol: Symbol) -> bytes:
    """The symbol as a value of the store."""
    return msgspec.json.encode(encode(symbol))


def _short(text: str, what: str) -> str:
    if len(text) > TEXT_MAX:
        raise BadEvent(f"SYMBOL: {what} is longer than {TEXT_MAX} letters")
    return text


def _whole(text: str, what: str, low: int, high: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and low <= int(text) <= high):
        raise BadEvent(f"SYMBOL: {what} must be a whole number from {low} to {high}, not {text!r:.40}")
    return int(text)
