"""Feeds to the bus, then to whoever is watching; holes said aloud and repaired; the chart's past."""
