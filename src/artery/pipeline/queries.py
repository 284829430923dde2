"""Starts the two streaming queries. Their checkpoints are for this run only: what counts is saved with the result."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from artery.pipeline.source import Options
from artery.settings import Settings

_CHECKPOINT_MS = 60_000
"""Spark's own log of offsets is never read again, so it is written seldom: each write forks a process."""
_LOOK_MS = 1_000
"""How often the store query looks whether something is due."""


def start_query(
    spark: Any, name: str, source: str, options: Options, on_batch: Callable[[Any, int], None], settings: Settings
) -> Any:
    """A streaming query that hands every micro-batch of the source to `on_batch`, in the pool of its own name."""
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", name)
    wait_ms = settings.pipeline.trigger_ms if name == "fast" else _LOOK_MS
    return (
        spark.readStream.format(source)
        .option("artery", options.text())
        .load()
        .writeStream.queryName(name)
        .foreachBatch(on_batch)
        .option("asyncProgressTrackingEnabled", True)
        .option("asyncProgressTrackingCheckpointIntervalMs", _CHECKPOINT_MS)
        .option("_asyncProgressTrackingOverrideSinkSupportCheck", True)
        .option("checkpointLocation", f"file://{_fresh(settings.folder / 'checkpoints' / name)}")
        .trigger(processingTime=f"{wait_ms} milliseconds")
        .start()
    )


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def warm_up(spark: Any) -> None:
    """Have Spark start its Python workers while the first query is being planned."""
    spark.range(1).mapInArrow(_same, "id long").collect()


def _same(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches
