"""How fast one replay may go: even, so that who is live finds the processor free in between. Pure."""

_AT_ONCE_S = 0.002
"""What is due sooner than this is not waited for: a timer costs more, and small replays come at once."""


class Pace:
    """Says after each piece how long to wait before the next one, so that no second has more bytes than this."""

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._due_s = 0.0

    def wait_s(self, size_bytes: int, now_s: float) -> float:
        """Having sent so many bytes; 0.0 where nothing is to be waited for. Time that was not used is not made up."""
        self._due_s = max(self._due_s, now_s) + size_bytes / self._bytes_per_s
        ahead_s = self._due_s - now_s
        return ahead_s if ahead_s > _AT_ONCE_S else 0.0
