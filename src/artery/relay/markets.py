"""Which tickers someone knows: those of the settings, and those that ingest has found at its venue."""

from artery.errors import BadInput
from artery.model import symbols
from artery.model.tickers import parse_ticker
from artery.settings import Settings
from artery.store.base import Store


async def check_ticker(settings: Settings, store: Store, ticker: str) -> str:
    """The ticker's exchange; `BadInput` if nobody knows the ticker."""
    provider, coin = parse_ticker(ticker)
    ours = provider == settings.ingest.provider and coin in settings.ingest.markets
    if not ours and symbols.read(await store.get(symbols.key(provider, coin))) is None:
        raise BadInput(f"nobody here knows {ticker!r:.80}: /v1/markets lists what there is")
    return ticker.partition(":")[0]
