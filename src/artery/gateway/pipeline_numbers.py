"""What the pipeline, a process of its own, says of itself, as lines for Prometheus. Pure."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

PREFIX = "artery_pipeline_"
_NAME = re.compile(r'([a-z_]{1,60})(\{[a-z]+="[a-z]+"(?:,[a-z]+="[a-z]+")?\})?', re.ASCII)
_STATES = ("starting", "running", "failed")
_DOCS = {
    "up": "Whether the pipeline is in this state, by its own word.",
    "batch_ms": "Time that the last micro-batch took, by query.",
    "phase_ms": "Time that each phase of the last micro-batch took, by query.",
    "batches_total": "Micro-batches since the pipeline's start, by query.",
    "rows_total": "Rows taken in since the pipeline's start, by query.",
    "candles_held": "Candles in memory that may still change.",
    "state_bytes": "Size of the candles' state as it was last saved.",
    "late_trades_total": "Trades that came too late for the stream, counted for each candle that lacked them.",
    "corrected_candles_total": "Candles folded anew in the lake because trades came too late for the stream.",
    "lag_entries": "Trades on the bus that no candle holds yet.",
    "clock_seconds": "The feed's clock that candles have reached, in Unix time.",
    "last_commit_seconds": "When the lake was last written, in Unix time.",
}


def lines(record: Mapping[str, Any]) -> str:
    """The record of `artery:pipeline` in Prometheus's text; nothing of it that is not a number."""
    found: dict[str, list[str]] = {}
    for text, value in _samples(record):
        matched = _NAME.fullmatch(text)
        if matched and matched[1] in _DOCS and isinstance(value, (int, float)) and math.isfinite(value):
            found.setdefault(matched[1], []).append(f"{PREFIX}{text} {value}")
    return "".join(_family(name, samples) for name, samples in found.items())


def _samples(record: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for state in _STATES:
        yield f'up{{state="{state}"}}', int(record.get("state") == state)
    yield "lag_entries", record.get("lag_entries")
    for name, key in (("clock_seconds", "clock_ms"), ("last_commit_seconds", "last_commit_ms")):
        if isinstance(record.get(key), int) and record[key]:
            yield name, record[key] / 1_000
    numbers = record.get("numbers")
    yield from numbers.items() if isinstance(numbers, Mapping) else ()


def _family(name: str, samples: list[str]) -> str:
    kind = "counter" if name.endswith("_total") else "gauge"
    head = f"# HELP {PREFIX}{name} {_DOCS[name]}\n# TYPE {PREFIX}{name} {kind}\n"
    return head + "".join(f"{sample}\n" for sample in samples)
