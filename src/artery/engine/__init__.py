"""The indicator engine: candles and trades from the bus, indicator values in the store."""
