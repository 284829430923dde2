"""What a WebSocket client subscribes to: `artery:stream:{provider}:{marketKey}`."""

import re

import msgspec

from artery.errors import BadInput

PREFIX = "artery:stream:"
ALL_MIDS = "*"

MARKET, PROVIDER = r"[A-Za-z0-9._/@#+:-]{1,128}", r"[a-z0-9_]{1,40}"
_MARKET, _PROVIDER = re.compile(MARKET, re.ASCII), re.compile(PROVIDER, re.ASCII)


def check_market(market: str) -> str:
    """`market`, if it is one that a channel may carry."""
    if not _MARKET.fullmatch(market):
        raise BadInput(f"{market!r:.80} is not a market: use letters, digits and ._/@#+:- only, at most 128")
    return market


def check_provider(provider: str) -> str:
    """`provider`, if it is a name that a channel may carry."""
    if not _PROVIDER.fullmatch(provider):
        raise BadInput(f"{provider!r:.80} is not a provider: use small letters, digits and _ only, at most 40")
    return provider


class Channel(msgspec.Struct, frozen=True):
    """One provider's market, or `*` for all of its mid prices in one frame."""

    provider: str
    market: str

    @staticmethod
    def parse(text: str) -> "Channel":
        """Split at the first three colons, so that a market key may hold one."""
        parts = text.split(":", 3)
        if len(parts) != 4 or not text.startswith(PREFIX):
            raise BadInput(f"{text!r:.80} is not a channel: write artery:stream:PROVIDER:MARKET")
        market = parts[3] if parts[3] == ALL_MIDS else check_market(parts[3])
        return Channel(check_provider(parts[2]), market)

    def __str__(self) -> str:
        return f"{PREFIX}{self.provider}:{self.market}"
