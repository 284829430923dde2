"""Holes and what fills them: `gaps` says when a venue's candles came, and from where."""

from datetime import UTC, datetime

from artery.model.events import Mark
from artery.model.periods import Period
from artery.pipeline.repairs import Repair, repair_of, repaired
from artery.wire import history
from tests.pipeline.conftest import House, Log
from tests.pipeline.test_bars import BASE
from tests.pipeline.test_storage import MINUTE, Stored, encoded, own

START = BASE - BASE % MINUTE
FETCHED = START + 9 * MINUTE


def when(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1_000, UTC)


def repair(provider: str, coin: str, start: int, end: int, at: int = FETCHED) -> dict[str, str]:
    """The page of a repair that ends with it, as ingest appends it."""
    name = f"own:repair:{provider}:{coin}:1m:{start}:{end}"
    made = history.page(
        name, provider, coin, Period(60), [own(coin, "11", closed=True, start=start)], number=0, last=True
    )
    return history.encode(made, event_ts=at)


def hole(provider: str, coin: str, from_ms: int, to_ms: int) -> Mark:
    return Mark(provider=provider, epoch=1, ts=to_ms, from_ms=from_ms, to_ms=to_ms, cause="stop", coin=coin)


def gaps(spark: House, provider: str) -> dict[tuple[str, int], tuple[datetime | None, str | None]]:
    found = [row for row in spark.lake.scan("gaps").to_pylist() if row["provider"] == provider]
    keys = [(row["market"], round(row["from"].timestamp() * 1_000)) for row in found]
    assert len(keys) == len(set(keys))
    return {key: (row["repaired_at"], row["repaired_from"]) for key, row in zip(keys, found, strict=True)}


def test_a_gap_says_when_the_venues_candles_filled_it(spark: House, log: Log) -> None:
    store = Stored(spark, log)
    log.append("feed", *encoded(hole("filled", "A", START + 5, START + 90_000), hole("filled", "B", START, START + 9)))
    store.run()
    assert gaps(spark, "filled") == {("A", START + 5): (None, None), ("B", START): (None, None)}
    log.append("history", repair("filled", "A", START, START + 2 * MINUTE))
    store.run()
    assert gaps(spark, "filled") == {("A", START + 5): (when(FETCHED), "history"), ("B", START): (None, None)}
    assert spark.lake.positions()["history"] == "1"


def test_a_gap_that_comes_to_the_lake_after_its_repair_says_so_too(spark: House, log: Log) -> None:
    store = Stored(spark, log)
    log.append("history", repair("before", "A", START, START + MINUTE))
    store.run()
    log.append("feed", *encoded(hole("before", "A", START, START + 9)))
    store.run()
    assert gaps(spark, "before") == {("A", START): (when(FETCHED), "history")}


def test_a_gap_is_filled_by_what_covers_it_and_one_of_all_markets_by_the_newest() -> None:
    row = {"provider": "sim", "market": "", "from": when(START), "to": when(START + 9), "repaired_at": None}
    repairs = [Repair("sim", coin, 60, START, START + MINUTE, FETCHED + at) for at, coin in enumerate("AB")]
    assert [one["repaired_at"] for one in repaired([row], repairs)] == [when(FETCHED + 1)]
    assert repaired([row | {"repaired_at": when(FETCHED + 1)}], repairs) == []
    assert repaired([row | {"market": "C"}, row | {"provider": "other"}], repairs) == []
    assert repaired([row | {"to": when(START + MINUTE + 1)}], repairs) == []


def test_only_the_last_page_of_a_repair_ends_one() -> None:
    page = history.decode(repair("sim", "A", START, START + MINUTE))
    assert repair_of(page, 7) == Repair("sim", "A", 60, START, START + MINUTE, 7)
    for name in ("own:first:sim:A:1m", "own:repair:sim:A", f"own:repair:sim:A:1m:0:{10**17}", "someone"):
        other = type(page)(request_id=name, ticker="SIM:A", period_s=60, last=True)
        assert repair_of(other, 7) is None
    assert repair_of(type(page)(request_id=page.request_id, ticker="?", last=True), 7) is None
    page.last = False
    assert repair_of(page, 7) is None
