"""One message of every type, with every field set."""

from google.protobuf.message import Message

from artery.wire import artery_pb2 as pb

OUTCOME = pb.HistoryReadyNotification(
    request_id="r1", client_id="c1", ticker="SIM:BTC", period_s=60, start_ms=1_730_000_040_000,
    end_ms=1_730_000_100_000, status=pb.HistoryReadyNotification.READY, rows=1, snapshot_id=7, error="none",
)  # fmt: skip
ROW = pb.OHLCRow(
    start_ms=1_730_000_040_000, open="43210.5", high="43280", low="43190", close="43250", volume="123.45", trades=17,
    closed=True,
)  # fmt: skip

SAMPLES: tuple[Message, ...] = (
    pb.DataRequest(
        request_id="r1", type=pb.DataRequest.HISTORICAL_OHLC, ticker="SIM:BTC", client_id="c1",
        historical=pb.DataRequest.Historical(start_ms=60_000, end_ms=120_000, period_s=60, limit=5),
        realtime=pb.DataRequest.Realtime(include_ticks=True, include_ohlc=True, ohlc_period_s=[60, 300]),
    ),
    pb.IngestorControl(action=pb.IngestorControl.CANCEL, request_id="r1", generation=3, config="{}"),
    pb.Tick(ticker="SIM:BTC", ts_ms=60_001, trade_id="t1", price="43210.5", size="0.5", side="B", epoch=9, seq=2),
    pb.OHLC(
        ticker="SIM:BTC", period_s=60, start_ms=60_000, open="1", high="4", low="0.5", close="2", volume="10",
        trades=3, closed=True, rev=1, epoch=9, seq=2,
    ),
    pb.Market(
        ticker="SIM:BTC", provider="sim", market="BTC", base="BTC", quote="USDC", tick_size="0.5", size_step="0.001",
        status="open", version=4,
    ),
    pb.CEPTriggerRequest(
        trigger_id="a1", client_id="c1", user_id="u1", ticker="SIM:BTC", rule="price > 1",
        priority=pb.CEPTriggerRequest.CRITICAL, cooldown_s=30, expires_ms=60_000,
    ),
    pb.CEPTriggerAck(trigger_id="a1", accepted=True, error="none", position=6),
    pb.CEPTriggerEvent(trigger_id="a1", ticker="SIM:BTC", at_ms=60_000, values={"price": "2"}, seq=1),
    pb.OHLCBatch(
        request_id="r1", client_id="c1", ticker="SIM:BTC", period_s=60, page=2, last=True, status=pb.OHLCBatch.ERROR,
        error="none", rows=[ROW], start_ms=60_000, end_ms=120_000, rows_total=1,
    ),
    pb.SubmitHistoricalRequest(
        request_id="r1", client_id="c1", ticker="SIM:BTC", start_ms=60_000, end_ms=120_000, period_s=60, limit=5,
    ),
    pb.SubmitResponse(
        request_id="r1", status=pb.SubmitResponse.ACCEPTED, notification_topic="RESPONSE:c1|", error="none",
    ),
    OUTCOME,
    pb.SymbolMetadataUpdated(snapshot_id=7, provider="sim", count=6, version=4),
    pb.SubscriptionConfirmed(topic="RESPONSE:c1|", at_ms=60_000),
    pb.StatusRequest(request_id="r1"),
    pb.StatusResponse(
        request_id="r1", state=pb.StatusResponse.DONE, progress=1_000, rows=1, pages=1, outcome=OUTCOME, error="none",
    ),
)  # fmt: skip
