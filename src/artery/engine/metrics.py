"""What the engine counts."""

from artery.telemetry import counter, gauge

CANDLES = counter("engine_candles", "candles that the engine has taken in", "what")
TRADES = counter("engine_trades", "trades that the engine has taken in")
REBUILT = counter("engine_rebuilt", "series that were folded anew from the lake")
LOST = counter("engine_losses", "times that entries were trimmed before the engine had them", "stream")
SKIPPED = counter("engine_skipped", "candles and trades of series beyond the limit")
SERIES = gauge("engine_series", "series that have indicators")
WARM = gauge("engine_warm_series", "series of which every indicator has a value")
