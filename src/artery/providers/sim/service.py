"""The simulated venue as a service."""

from collections.abc import Callable

from artery.errors import CannotStart
from artery.providers.sim.floor import Pace
from artery.providers.sim.market import SimMarket
from artery.providers.sim.server import SimServer
from artery.settings import Settings


async def run_sim(settings: Settings, *, ready: Callable[[int], None]) -> None:
    """Serve until cancelled; `ready` is told the port once clients can connect."""
    market = SimMarket(settings.sim.seed, settings.sim.trades_per_s, candles_kept=settings.sim.candles_kept)
    server = SimServer(market, pace=Pace(book_ms=max(20, round(1_000 / max(settings.sim.books_per_s, 0.001)))))
    try:
        port = await server.start(settings.sim.port)
    except OSError as error:
        raise CannotStart(
            f"port {settings.sim.port} of the simulated venue cannot be used ({error.strerror}): "
            "stop what uses it, or set ART_SIM_PORT to another one"
        ) from error
    try:
        ready(port)
        await server.wait()
    finally:
        await server.stop()
