"""The simulated venue's markets, and how it writes their prices and sizes."""

import msgspec


class Listing(msgspec.Struct, frozen=True):
    """One market: prices are counted in ticks of `10 ** -price_decimals`, sizes in lots of `10 ** -size_decimals`."""

    index: int
    coin: str
    price: float
    price_decimals: int
    size_decimals: int
    volatility: float  # of one minute's return
    share: float  # of all trades
    notional: float  # of a usual trade, in USD
    leverage_max: int

    def ticks(self, price: float) -> float:
        return price * 10.0**self.price_decimals

    def usual_lots(self, price: float) -> float:
        """The size of a usual trade at this price."""
        return self.notional / price * 10.0**self.size_decimals


# Prices stay within ±35 % of these for ever, so that the venue's rule of five significant figures keeps each tick.
LISTINGS = (
    Listing(0, "BTC", 92_000.0, 0, 5, 0.00045, 0.34, 6_000.0, 40),
    Listing(1, "ETH", 3_150.0, 1, 4, 0.00060, 0.24, 4_000.0, 25),
    Listing(2, "SOL", 165.0, 2, 2, 0.00070, 0.16, 2_500.0, 20),
    Listing(3, "HYPE", 38.0, 3, 2, 0.00090, 0.12, 1_800.0, 10),
    Listing(4, "DOGE", 0.21, 5, 0, 0.00090, 0.07, 900.0, 10),
    Listing(5, "XRP", 2.35, 4, 0, 0.00070, 0.07, 1_200.0, 20),
    Listing(6, "AVAX", 24.0, 3, 2, 0.00080, 0.04, 1_000.0, 10),  # the settings do not name it: followed on demand
)
BY_COIN = {listing.coin: listing for listing in LISTINGS}


def text(units: int, decimals: int) -> str:
    """A number of ticks or lots as the venue writes it: no trailing zeros, but at least one decimal."""
    if decimals == 0:
        return f"{units}.0"
    whole, part = divmod(units, 10**decimals)
    return f"{whole}.{str(part).rjust(decimals, '0').rstrip('0') or '0'}"
