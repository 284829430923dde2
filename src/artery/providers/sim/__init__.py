"""A venue on loopback that speaks Hyperliquid's protocol: a believable market, the same for the same seed."""
