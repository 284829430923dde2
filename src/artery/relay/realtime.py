"""A client's request for live data (0x01, REALTIME_TICKS): demand that is held for it while it is asked for again."""

from collections.abc import Awaitable, Callable, Iterable
from urllib.parse import quote

import msgspec

from artery.errors import BadInput
from artery.model.channels import Channel
from artery.model.periods import DERIVED, Period
from artery.model.tickers import parse_ticker
from artery.relay.asking import check_id
from artery.relay.work import Control, WorkQueue
from artery.settings import Settings
from artery.store import demand
from artery.store.base import Store
from artery.wire import topics
from artery.wire.artery_pb2 import DataRequest, SubmitResponse

TTL_S = 60.0
"""A request that is not sent again within so long lapses."""
HOLDER = "request."


class Realtime:
    """Keeps nothing but what is in the store, so any relay can take a request's next word."""

    def __init__(self, settings: Settings, store: Store, work: WorkQueue, control: Control) -> None:
        self._settings = settings
        self._store = store
        self._work = work
        self._control = control

    async def follow(self, asked: DataRequest, exchange: str, claim: Callable[[], Awaitable[None]]) -> SubmitResponse:
        """Have the market followed; the same request again renews it. `claim` is called before anything is kept, and
        refuses what is someone else's."""
        mine = demand.key(holder(asked.request_id), Channel(*parse_ticker(asked.ticker)))
        held = await self._store.get(mine) is not None
        if not held:
            await self._check_new(asked.request_id)
            if not await self._work.has_ingestor(exchange):
                error = f"no ingestor of {exchange} is connected; nothing was kept, ask again later"
                return SubmitResponse(request_id=asked.request_id, status=SubmitResponse.NO_INGESTOR, error=error)
        await claim()
        await self._store.put(mine, msgspec.json.encode({"client_id": asked.client_id}), TTL_S)
        if not held:
            self._work.wake(exchange, asked)
            await self.say()
        status = SubmitResponse.DUPLICATE if held else SubmitResponse.ACCEPTED
        return SubmitResponse(request_id=asked.request_id, status=status, notification_topic=topic_of(asked))

    async def holds(self, request_id: str) -> bool:
        return bool(await self._held(request_id))

    async def cancel(self, request_id: str) -> None:
        """The request wants nothing any more."""
        for name in await self._held(request_id):
            await self._store.delete(name)
        self._control.cancel(request_id)
        await self.say()

    async def say(self) -> None:
        """Tell the ingestors which markets are wanted now, whoever wants them."""
        found = await demand.demanded(self._store)
        wanted: dict[str, list[str]] = {}
        for market in sorted(found, key=str):
            wanted.setdefault(market.provider, []).append(market.market)
        self._control.configure(msgspec.json.encode({"markets": wanted}).decode())

    async def _held(self, request_id: str) -> list[str]:
        return [name for name, _ in await self._store.scan(f"{demand.PREFIX}{holder(request_id)}:", 10)]

    async def _check_new(self, request_id: str) -> None:
        if await self._held(request_id):
            raise BadInput(f"request_id {request_id} was used for another market: take a new one")
        most = self._settings.relay.demand_max
        if len(await self._store.scan(demand.PREFIX + HOLDER, most)) >= most:
            raise BadInput(f"{most} requests for live data are held already: cancel one, or raise ART_RELAY_DEMAND_MAX")


def check(asked: DataRequest, periods: Iterable[Period] = DERIVED) -> DataRequest:
    """The request, if it can be served where candles of these periods are made."""
    check_id(asked.request_id, "request_id")
    if asked.client_id:
        check_id(asked.client_id, "client_id")
    known = [period.seconds for period in periods]
    for period_s in asked.realtime.ohlc_period_s:
        if period_s not in known:
            raise BadInput(f"there are no live candles of {period_s} s: ask for some of {known}")
    return asked


def holder(request_id: str) -> str:
    """Who holds a request's demand; a holder's name has no colon."""
    return HOLDER + quote(request_id, safe="")


def topic_of(asked: DataRequest) -> str:
    """Where what was asked for is published: the first of its topics."""
    wanted = asked.realtime
    if wanted.include_ticks or not wanted.include_ohlc:
        return topics.tick(asked.ticker)
    return topics.ohlc(asked.ticker, Period(wanted.ohlc_period_s[0] if wanted.ohlc_period_s else 60))
