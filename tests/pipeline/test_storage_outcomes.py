"""Clients' requests in the lake: one outcome each, announced after the commit, whatever dies in between."""

import pytest

from artery import crash
from artery.lake.catalog import open_catalog
from artery.lake.reads import newest_commit, positions_of
from artery.lake.tables import OHLC
from artery.model.periods import Period
from artery.pipeline.outcomes import Outcomes, status_of
from artery.pipeline.storage import StoreQuery
from artery.store.base import Store
from artery.wire import history, requests
from artery.wire.artery_pb2 import DataRequest, HistoryReadyNotification, OHLCBatch
from tests.pipeline.conftest import House, Log
from tests.pipeline.test_bars import BASE
from tests.pipeline.test_storage import MINUTE, ZERO, Stored, own, rows_of

Ready = HistoryReadyNotification


class Death(BaseException):
    """The driver died here."""


class Requested(Stored):
    """The store query with its outcomes."""

    def __init__(
        self, spark: House, log: Log, store: Store, start: dict[str, str] = ZERO, *, files: bool = False
    ) -> None:
        super().__init__(spark, log, start, files=files)
        self.outcomes = Outcomes(log.bus, store, log.calls)
        self.query = StoreQuery(start, log.bus, log.calls, outcomes=self.outcomes)


def asked(coin: str, minutes: int = 3) -> DataRequest:
    return DataRequest(
        request_id=f"r-{coin}",
        client_id="c1",
        ticker=f"SIM:{coin}",
        historical=DataRequest.Historical(start_ms=BASE, end_ms=BASE + minutes * MINUTE, period_s=60),
    )


def note(log: Log, store: Store, request: DataRequest) -> None:
    record = requests.Record(requests.text(request), "storing")
    log.do(lambda: store.put(requests.key(request.request_id), requests.write_record(record)))


def send(log: Log, request: DataRequest, minutes: int = 3, error: str = "") -> None:
    """A request's pages, one candle each, and its last."""
    coin = request.ticker.partition(":")[2]
    for number in range(minutes):
        candle = own(coin, "11", closed=True, start=BASE + number * MINUTE)
        page = history.page(request.request_id, "sim", coin, Period(60), [candle], number=number, last=False)
        log.append("history", history.encode(page, event_ts=BASE))
    last = history.closing(request, number=minutes, rows_total=minutes, error=error)
    log.append("history", history.encode(last, event_ts=BASE))


def announced(log: Log) -> list[Ready]:
    return [requests.decode_outcome(fields) for fields in log.fields("notify")]


def record_of(log: Log, store: Store, request: DataRequest) -> requests.Record:
    found = requests.read_record(log.do(lambda: store.get(requests.key(request.request_id))))
    assert found is not None
    return found


def test_a_request_is_announced_once_its_rows_can_be_read_at_the_snapshot(spark: House, log: Log, store: Store) -> None:
    request = asked("READY")
    note(log, store, request)
    send(log, request)
    Requested(spark, log, store).run()
    (outcome,) = announced(log)
    assert (outcome.request_id, outcome.client_id, outcome.status, outcome.rows) == ("r-READY", "c1", Ready.READY, 3)
    table = open_catalog(spark.settings.folder).load_table(OHLC.full_name)
    at_that_time = table.scan(snapshot_id=outcome.snapshot_id, row_filter="ticker = 'SIM:READY'").to_arrow()
    assert at_that_time.num_rows == 3
    (row,) = rows_of(spark, "requests", "SIM:READY")
    assert (row["status"], row["rows"], row["pages"], row["snapshot_id"]) == ("READY", 3, 4, outcome.snapshot_id)
    record = record_of(log, store, request)
    assert (record.state, record.notification) == ("done", outcome)


def test_no_rows_an_error_and_an_error_after_some_rows_are_told_apart(spark: House, log: Log, store: Store) -> None:
    for coin, minutes, error in (("EMPTY", 0, ""), ("ERROR", 0, "refused"), ("PART", 2, "away"), ("ALL", 3, "")):
        send(log, asked(coin), minutes, error)
    Requested(spark, log, store).run()
    assert [(one.ticker, one.status, one.rows, one.error) for one in announced(log)] == [
        ("SIM:EMPTY", Ready.EMPTY, 0, ""),
        ("SIM:ERROR", Ready.ERROR, 0, "refused"),
        ("SIM:PART", Ready.PARTIAL, 2, "away"),
        ("SIM:ALL", Ready.READY, 3, ""),
    ]


def test_rows_that_were_there_before_count(spark: House, log: Log, store: Store) -> None:
    query = Requested(spark, log, store)
    send(log, asked("BEFORE", 5), 5)
    query.run()
    again = asked("BEFORE", 4)
    again.request_id = "second"
    log.append("history", history.encode(history.closing(again, number=0, rows_total=0), event_ts=BASE))
    query.run()
    assert [(one.request_id, one.status, one.rows) for one in announced(log)] == [
        ("r-BEFORE", Ready.READY, 5),
        ("second", Ready.READY, 4),
    ]


def test_the_same_last_page_twice_is_one_outcome(spark: House, log: Log, store: Store) -> None:
    query = Requested(spark, log, store)
    send(log, asked("SAME"))
    send(log, asked("SAME"))
    query.run()
    send(log, asked("SAME"), error="late")
    query.run()
    assert [one.status for one in announced(log)] == [Ready.READY]
    assert len(rows_of(spark, "requests", "SIM:SAME")) == 1


def test_pages_that_ingest_fetched_for_itself_are_announced_to_nobody(spark: House, log: Log, store: Store) -> None:
    candle = own("OWN", "11", closed=True)
    page = history.page("own:repair:sim:OWN:1m:0:1", "sim", "OWN", Period(60), [candle], number=0, last=True)
    log.append("history", history.encode(page, event_ts=BASE))
    Requested(spark, log, store).run()
    assert announced(log) == []
    assert len(rows_of(spark, "ohlc", "SIM:OWN")) == 1


def named(spark: House, table: str) -> str:
    """How far in the history stream the newest commit of a table has come, by its own word."""
    found = open_catalog(spark.settings.folder).load_table(f"market.{table}")
    return positions_of(newest_commit(found, "store"))["history"]


@pytest.mark.parametrize(("where", "kept_as"), [("finishing", "rows"), ("finishing", "files"), ("outcomes", "rows")])
def test_a_driver_that_dies_before_the_announcement_is_followed_by_one_that_makes_it(
    spark: House, log: Log, store: Store, where: str, kept_as: str
) -> None:
    def die() -> None:
        raise Death

    coin, files = f"DIES{where}{kept_as}".upper(), kept_as == "files"
    request = asked(coin)
    note(log, store, request)
    send(log, request)
    first = Requested(spark, log, store, files=files)
    crash.arm(f"pipeline.{where}", die)
    try:
        with pytest.raises(Death):
            first.run()
    finally:
        crash.arm("")
    assert len(rows_of(spark, "ohlc", f"SIM:{coin}")) == 3, "the candles were committed before"
    assert announced(log) == []
    assert named(spark, "ohlc") == "0", "the candles' commit does not vouch for pages whose outcome is not there"
    reached = "0" if where == "finishing" else named(spark, "requests")
    assert reached == ("0" if where == "finishing" else "4")
    second = Requested(spark, log, store, ZERO | {"history": reached}, files=files)
    second.outcomes.take_up(spark.session)
    second.run()
    assert [(one.status, one.rows) for one in announced(log)] == [(Ready.READY, 3)]
    assert len(rows_of(spark, "ohlc", f"SIM:{coin}")) == 3
    assert len(rows_of(spark, "requests", f"SIM:{coin}")) == 1
    assert record_of(log, store, request).state == "done"


def test_a_status_is_what_the_last_page_and_the_lake_say() -> None:
    fine, failed = OHLCBatch(), OHLCBatch(status=OHLCBatch.ERROR)
    assert (status_of(fine, 1), status_of(fine, 0), status_of(failed, 9)) == (Ready.READY, Ready.EMPTY, Ready.ERROR)
    failed.rows_total = 1
    assert status_of(failed, 9) == Ready.PARTIAL
