"""The venue that the settings name."""

from artery.errors import BadSetting
from artery.providers.base import Venue
from artery.providers.hyperliquid_venue import REST_URL, WS_URL, HyperliquidVenue
from artery.settings import Settings


def open_venue(settings: Settings) -> Venue:
    """The venue, not connected yet."""
    provider, given = settings.ingest.provider, settings.venue
    if provider == "sim":
        host = f"127.0.0.1:{settings.sim.port}"
        return HyperliquidVenue(
            "sim",
            given.ws_url or f"ws://{host}/ws",
            given.rest_url or f"http://{host}/info",
            fast_books=given.fast_books,
            weight_per_min=0,
        )
    if provider == "hyperliquid_perp":
        return HyperliquidVenue(
            provider, given.ws_url or WS_URL, given.rest_url or REST_URL, fast_books=given.fast_books
        )
    raise BadSetting(f"ART_INGEST_PROVIDER must be sim or hyperliquid_perp, not {provider!r:.40}")
