"""Forks Spark's Python workers, with all that they need imported once and shared.

Spark's own daemon collects garbage after each task and makes each worker look through all import paths again, which
takes longer than a small batch itself. Nothing here changes while the pipeline runs, so neither is needed.
"""

import gc
import importlib
import types

import pandas  # noqa: F401 (pyspark's worker imports it)
from pyspark import daemon
from pyspark.sql.pandas import serializers  # noqa: F401

import artery.pipeline.source  # noqa: F401

if __name__ == "__main__":
    importlib.invalidate_caches = lambda: None
    daemon.gc = types.SimpleNamespace(collect=lambda: 0)
    gc.collect()
    gc.freeze()
    daemon.manager()
