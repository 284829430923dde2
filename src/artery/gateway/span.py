"""What one page of history covers. Pure."""

from typing import TypeVar

import msgspec

T = TypeVar("T")


class Span(msgspec.Struct, frozen=True):
    """A stretch of time and how many rows of it; forward from its start, or back from its end."""

    start_ms: int
    end_ms: int
    limit: int
    forward: bool

    def cut(self, found: list[T]) -> list[T]:
        """Of all that lies in the stretch, oldest first, what the page has."""
        return found[: self.limit] if self.forward else found[-self.limit :]
