"""`python -m artery.pipeline.archive`: keep Spark's classes ready, so that it starts in half the time.

Runs the pipeline once on a small bus in a temporary folder and has Java write down every class it used. An archive
is good for one Java and one set of jars; where it does not fit, Java starts as usual.
"""

import asyncio
import tempfile
import time
from decimal import Decimal
from typing import Any

from artery.bus.base import Bus
from artery.bus.open import open_bus
from artery.errors import CannotStart
from artery.model import codec
from artery.model.events import Book, Candle, Clock, Mark, Trade
from artery.model.periods import Period
from artery.pipeline import java
from artery.pipeline.running import Running
from artery.pipeline.session import Spark, archive_file
from artery.settings import Settings
from artery.store.open import open_store
from artery.wire import history

WAIT_S = 180.0
_ONE = Decimal(1)


def make_archive(settings: Settings) -> bool:
    """Make the archive, if there is none for this Java and these jars; whether there was something to do."""
    target = archive_file(settings, java.find_java())
    if target.exists():
        return False
    for old in target.parent.glob("classes-*.jsa"):
        old.unlink()
    fresh = target.with_suffix(".new")
    with tempfile.TemporaryDirectory(prefix="artery-") as folder:
        small = settings.with_(data={"dir": folder}, pipeline={"store_s": 1.0, "slow_store_s": 0.0})
        small.folder.mkdir(parents=True)
        spark = Spark(small, archive_to=fresh)
        try:
            asyncio.run(_run_once(small, spark))
        finally:
            spark.stop(WAIT_S)
    if not fresh.exists():
        raise CannotStart("Java wrote no archive of its classes; Artery runs without it, only slower to start")
    fresh.rename(target)
    return True


async def _run_once(settings: Settings, spark: Spark) -> None:
    """Both queries, until each has done what it does every time."""
    bus, store = open_bus(settings.bus_url(), settings.bus.base), open_store(settings.store_url())
    running = Running(settings, spark, bus, store, epoch=1)
    deadline = time.monotonic() + WAIT_S
    try:
        await running.start()
        for minute in range(3):
            before = running.batches()
            await _market(bus, minute)
            while any(now <= then for now, then in zip(running.batches(), before, strict=True)):
                await running.check()
                if time.monotonic() > deadline:
                    raise CannotStart(f"Spark did not run within {WAIT_S:.0f} s")
                await asyncio.sleep(0.1)
    finally:
        await running.stop()
        await bus.close()
        await store.close()


async def _market(bus: Bus, minute: int) -> None:
    """A minute of a small market, with everything that can come."""
    now = int(time.time() * 1_000) // 60_000 * 60_000 + minute * 60_000
    head: dict[str, Any] = {"provider": "sim", "event_ts": now, "epoch": 1, "seq": minute + 1, "coin": "BTC"}
    trade = Trade(**head, ts=now, tid=str(minute), px=_ONE, sz=_ONE, side="B")
    book = Book(**head, ts=now, bids=((_ONE, _ONE),), asks=((_ONE, _ONE),))
    past: dict[str, Any] = {"period": Period(60), "start_ts": now - 120_000, "closed": True, "n": 1}
    candle = Candle(**head, **past, o=_ONE, h=_ONE, l=_ONE, c=_ONE, v=_ONE)
    page = history.page("own:first", "sim", "BTC", Period(60), [candle], number=1, last=True)
    await bus.append("trade", [codec.encode(trade)])
    await bus.append("book", [codec.encode(book)])
    await bus.append("history", [history.encode(page, event_ts=now)])
    mark = Mark(provider="sim", epoch=1, ts=now, from_ms=now - 1, to_ms=now, cause="start", up_to="1")
    await bus.append("feed", [codec.encode(mark), codec.encode(Clock(provider="sim", epoch=1, ts=now, up_to="1"))])


if __name__ == "__main__":
    print("Java's classes are kept ready" if make_archive(Settings()) else "Java's classes were ready already")
