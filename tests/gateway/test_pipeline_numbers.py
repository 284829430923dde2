"""The pipeline is a process of its own; its numbers are among the gateway's."""

from prometheus_client.parser import text_string_to_metric_families

from artery.gateway.pipeline_numbers import lines

RECORD = {
    "state": "running",
    "lag_entries": 3,
    "clock_ms": 1_730_000_000_500,
    "last_commit_ms": 1_730_000_000_000,
    "numbers": {
        "candles_held": 120,
        "late_trades_total": 2,
        'batch_ms{query="candles"}': 81,
        'phase_ms{query="lake",phase="trade"}': 640,
        'evil{query="x"}\n# TYPE y': 1,
        "state_bytes": "many",
    },
}


def test_the_pipelines_numbers_are_prometheus_text_and_nothing_else_passes() -> None:
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(lines(RECORD))
        for sample in family.samples
    }
    assert found == {
        ("artery_pipeline_up", "starting"): 0,
        ("artery_pipeline_up", "running"): 1,
        ("artery_pipeline_up", "failed"): 0,
        ("artery_pipeline_lag_entries",): 3,
        ("artery_pipeline_clock_seconds",): 1_730_000_000.5,
        ("artery_pipeline_last_commit_seconds",): 1_730_000_000.0,
        ("artery_pipeline_candles_held",): 120,
        ("artery_pipeline_late_trades_total",): 2,
        ("artery_pipeline_batch_ms", "candles"): 81,
        ("artery_pipeline_phase_ms", "lake", "trade"): 640,
    }


def test_a_pipeline_that_is_off_is_up_in_no_state() -> None:
    assert lines({}).count(" 0\n") == 3
