"""Where a series' values are in the store."""

from artery.model.periods import Period

VALUES = "artery:indicator:"


def values_key(provider: str, coin: str, period: Period) -> str:
    """The key of a series' values, written by the engine and read by everyone."""
    return f"{VALUES}{provider}:{coin}:{period}"
