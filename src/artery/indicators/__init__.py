"""Indicators: one incremental definition each, state in, candle in, value out; pure, and the same live and in batch."""
