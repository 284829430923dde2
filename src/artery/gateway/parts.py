"""What the routes need of the rest of the gateway."""

from dataclasses import dataclass

from starlette.requests import Request

from artery.bus.base import Bus
from artery.errors import NotAllowed
from artery.gateway import metrics
from artery.gateway.access import Access, Credential
from artery.gateway.catalog import Catalog
from artery.gateway.door import credential
from artery.gateway.grants import Grant
from artery.gateway.history import History
from artery.gateway.rates import Rates
from artery.gateway.tails import Tails
from artery.store.base import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the routes need."""

    bus: Bus
    store: Store
    access: Access
    catalog: Catalog
    history: History
    tails: Tails
    provider: str
    workers: bool
    cookie_name: str
    per_key: Rates

    def shown(self, request: Request) -> Credential:
        """What a request shows: a key, or the page's cookie."""
        return credential(
            authorization=request.headers.get("authorization", ""),
            cookies=request.headers.get("cookie", ""),
            cookie_name=self.cookie_name,
        )

    async def grant(self, request: Request, address: str) -> Grant:
        """Who asks, or `NotAllowed`."""
        try:
            return await self.access.verify(self.shown(request), address)
        except NotAllowed:
            metrics.AUTH_FAILURES.labels("http").inc()
            raise
