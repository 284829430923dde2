"""What is not well is said, in words that help."""

from typing import Any

import msgspec
from prometheus_client import generate_latest

from artery.gateway.lake_state import LakeState, in_words, measure
from artery.gateway.readiness import feed_states, pipeline_state
from artery.lake.state import Health

NOW = 1_730_000_000_000


def feed(**changes: Any) -> dict[str, Any]:
    record = {
        "provider": "sim", "state": "live", "epoch": 3, "since_ms": NOW - 300_000, "updated_ms": NOW - 500,
        "cause": "", "markets": {"BTC": {"trade_ms": NOW - 200, "book_ms": NOW - 100}, "ETH": {"trade_ms": 0}},
    }  # fmt: skip
    return record | changes


def states(record: dict[str, Any] | None, *, workers: bool = True) -> dict[str, Any]:
    feeds = {} if record is None else {"sim": record}
    return feed_states(feeds, provider="sim", workers=workers, now_ms=NOW)[0]


def test_a_live_feed_is_well_and_has_an_age() -> None:
    row = states(feed())
    assert (row["ok"], row["state"], row["age_ms"]) == (True, "live", 100)
    assert row["words"] == "live for 5 min; newest event 0 s ago"
    assert row["markets"]["ETH"]["age_ms"] is None


def test_a_feed_that_stopped_writing_is_stale() -> None:
    row = states(feed(updated_ms=NOW - 16_000, cause="socket closed"))
    assert (row["ok"], row["state"]) == (False, "stale")
    assert "socket closed" in row["words"]


def test_a_feed_that_connects_or_stands_by_is_not_ready() -> None:
    assert states(feed(state="connecting"))["ok"] is False
    assert "stands by" in states(feed(state="standby"))["words"]


def test_a_feed_that_nobody_runs_is_said() -> None:
    assert states(None)["state"] == "off"
    assert "ART_STREAM_WORKERS" in states(None, workers=False)["words"]


def test_garbage_in_the_store_is_not_a_live_feed() -> None:
    for markets in (5, {"BTC": 7}, {"BTC": {"trade_ms": "x"}}):
        row = states(feed(markets=markets, epoch="x", since_ms=None))
        assert row["age_ms"] is None
        assert row["words"].startswith("live")


def test_a_running_pipeline_tells_its_progress() -> None:
    row = pipeline_state(
        {"state": "running", "updated_ms": NOW, "clock_ms": NOW - 1_500, "last_commit_ms": NOW - 9_000, "batch": 4}, NOW
    )
    assert (row["ok"], row["lag_s"], row["last_commit_ms"], row["batch"]) == (True, 1.5, NOW - 9_000, 4)
    assert "stored 9 s ago" in row["words"]


def test_a_running_pipeline_says_what_it_counts_and_why_the_lake_waits() -> None:
    record = {"state": "running", "updated_ms": NOW, "clock_ms": NOW - 500, "stale_trades": 4, "numbers": {"rows": 1}}
    row = pipeline_state(record | {"error": "the lake could not be written: no space"}, NOW)
    assert (row["ok"], row["clock_ms"], row["late_trades"], row["numbers"]) == (True, NOW - 500, 4, {"rows": 1})
    assert row["words"].endswith("the lake could not be written: no space")


def test_a_pipeline_that_is_away_starts_or_failed_says_so() -> None:
    assert pipeline_state({}, NOW)["state"] == "off"
    assert pipeline_state({"state": "starting", "updated_ms": NOW}, NOW)["ok"] is False
    assert "no heap" in pipeline_state({"state": "failed", "updated_ms": NOW, "error": "no heap"}, NOW)["words"]
    assert pipeline_state({"state": "running", "updated_ms": NOW - 61_000}, NOW)["state"] == "stale"


def kept(**changes: Any) -> LakeState:
    table = Health("trades", 1_000, 12, 5_000, 4, 0.333, 9, NOW - 4_000, NOW - 5_000, True, "well kept")
    return LakeState(NOW, [msgspec.structs.replace(table, **changes)])


def test_a_lake_that_is_not_well_kept_is_said_with_what_to_do() -> None:
    assert in_words(kept(), NOW)["ok"] is True
    bad = in_words(kept(ok=False, words="2,000 small files, above 1,000: run `artery lake compact trades`"), NOW)
    assert bad["ok"] is False
    assert "trades: 2,000 small files" in bad["words"]
    assert "no trade was stored for 20 min" in in_words(kept(committed_ms=NOW - 1_200_000), NOW)["words"]
    assert "nobody has looked at it for 16 min" in in_words(kept(), NOW + 960_000)["words"]
    assert "not looked at yet" in in_words(None, NOW)["words"]


def test_the_lakes_numbers_are_measured_with_their_limits() -> None:
    measure(kept())
    told = generate_latest().decode()
    assert 'artery_lake_files{table="trades"} 12.0' in told
    assert 'artery_lake_small_files{table="trades"} 4.0' in told
    assert 'artery_lake_limit{what="small_files"} 1000.0' in told
    measure(None)
    assert "artery_lake_files{" not in generate_latest().decode(), "what nobody has seen lately has no number"
