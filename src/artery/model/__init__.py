"""What the data is: events, series, tickers, channels, periods. Pure; no input or output."""
