"""Times as people read them, in UTC."""

from datetime import UTC, datetime


def iso_text(ms: int) -> str:
    """A time that people and programs read."""
    return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def time_text(ms: int, *, exact: bool = False) -> str:
    """A time in UTC, short."""
    at = datetime.fromtimestamp(ms / 1_000, UTC)
    return at.strftime("%H:%M:%S.") + f"{at.microsecond // 1_000:03d}" if exact else at.strftime("%Y-%m-%d %H:%M:%S")
