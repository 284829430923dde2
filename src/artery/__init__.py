"""Artery: market data from the exchange to the chart, the strategy, the lake and the person."""

__version__ = "0.1.0"
