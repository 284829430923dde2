"""Spark: from the bus to candles, and from the bus to the lake."""
