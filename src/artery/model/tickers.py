"""One mapping between tickers (`HYPERLIQUID:BTC`) and (provider, market)."""

from artery.errors import BadInput
from artery.model.channels import check_market

_EXCHANGES = {
    "hyperliquid_perp": "HYPERLIQUID",
    "hyperliquid_spot": "HYPERLIQUID",
    "polymarket": "POLYMARKET",
    "kalshi": "KALSHI",
    "sim": "SIM",
    "external": "EXTERNAL",
}
_PROVIDERS = {"POLYMARKET": "polymarket", "KALSHI": "kalshi", "SIM": "sim", "EXTERNAL": "external"}


def ticker(provider: str, market: str) -> str:
    """(`sim`, `BTC`) → `SIM:BTC`; a provider that is not named here is a ccxt id."""
    return f"{_EXCHANGES.get(provider, provider.upper())}:{market}"


def parse_ticker(text: str) -> tuple[str, str]:
    """`SIM:BTC` → (`sim`, `BTC`), split at the first colon."""
    exchange, colon, market = text.partition(":")
    if not colon or not exchange or not exchange.isascii() or exchange != exchange.upper():
        raise BadInput(f"{text!r:.80} is not a ticker: write EXCHANGE:SYMBOL, as in SIM:BTC")
    check_market(market)
    if exchange == "HYPERLIQUID":
        return ("hyperliquid_spot" if market.startswith("@") or "/" in market else "hyperliquid_perp"), market
    return _PROVIDERS.get(exchange, exchange.lower()), market
