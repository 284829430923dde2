"""The simulated order book: it always fits the last trade, and changes with it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from artery.providers.sim.listing import Listing
from artery.providers.sim.market import SimMarket
from artery.providers.sim.minutes import Ints

DEPTH = 20
FAST_DEPTH = 5

_STEPS = np.arange(40)  # ticks searched for 20 levels; about one in eight is empty
_SIZE_CHANGES_MS = 4_000

Hashes = NDArray[np.uint64]


class Side(NamedTuple):
    """One side, best first: ticks, lots, number of orders."""

    px: Ints
    sz: Ints
    n: Ints


class SimBook(NamedTuple):
    bids: Side
    asks: Side


def book(market: SimMarket, listing: Listing, at_ms: int, trades_up_to_ms: int) -> SimBook:
    """The book at a moment, after the trades up to `trades_up_to_ms`: a buyer's last trade is the best ask."""
    best_ask, tid = _best_ask(market, listing, trades_up_to_ms)
    lots = listing.usual_lots(best_ask / listing.ticks(1.0))
    return SimBook(
        _side(listing, best_ask - 1 - _STEPS, 0, at_ms, tid, lots),
        _side(listing, best_ask + _STEPS, 1, at_ms, tid, lots),
    )


def mid_halves(market: SimMarket, listing: Listing, trades_up_to_ms: int) -> int:
    """The mid price in half ticks: the spread is always one tick."""
    return 2 * _best_ask(market, listing, trades_up_to_ms)[0] - 1


def _best_ask(market: SimMarket, listing: Listing, trades_up_to_ms: int) -> tuple[int, int]:
    """The best ask after the last trade, and that trade's id."""
    last = market.recent(listing, trades_up_to_ms, 1)
    if not len(last):
        return market.fair_ticks(listing, trades_up_to_ms) + 1, 0
    return int(last.px[0]) + (0 if last.buy[0] else 1), int(last.tid[0])


def _side(listing: Listing, px: Ints, side: int, at_ms: int, tid: int, lots: float) -> Side:
    price_hash = _mixed(px.astype(np.uint64) * np.uint64(16) + np.uint64(listing.index * 2 + side))
    there = price_hash % np.uint64(8) != 0
    there[0] = True
    chosen = np.flatnonzero(there)[:DEPTH]
    px, price_hash = px[chosen], price_hash[chosen]
    # Each level changes at a moment of its own, the best one with every trade.
    moment = (np.uint64(at_ms) + price_hash % np.uint64(_SIZE_CHANGES_MS)) // np.uint64(_SIZE_CHANGES_MS)
    moment[0] = tid
    luck = _mixed(price_hash ^ _mixed(moment))
    share = (luck >> np.uint64(40)).astype(np.float64) / 2.0**24
    depth = np.arange(len(px))
    sz = 1 + np.floor(lots * (1.5 + 0.35 * depth) * (0.2 + 2.4 * share**2)).astype(np.int64)
    return Side(px, sz, 1 + (luck % (np.uint64(3) + depth.astype(np.uint64))).astype(np.int64))


def _mixed(values: Hashes) -> Hashes:
    """SplitMix64's finish: near values become unlike ones."""
    values = (values + np.uint64(0x9E37_79B9_7F4A_7C15)) * np.uint64(0xBF58_476D_1CE4_E5B9)
    values ^= values >> np.uint64(27)
    mixed: Hashes = values * np.uint64(0x94D0_49BB_1331_11EB)
    return mixed ^ (mixed >> np.uint64(31))
