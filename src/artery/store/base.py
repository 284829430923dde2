"""What a store owes its callers."""

from collections.abc import Sequence
from typing import Protocol


class Store(Protocol):
    """Keys are text, values bytes. Every call is atomic and durable when it returns. A key past its TTL is absent."""

    async def get(self, key: str) -> bytes | None: ...

    async def put(self, key: str, value: bytes, ttl_s: float | None = None) -> None: ...

    async def put_if_absent(self, key: str, value: bytes, ttl_s: float | None = None) -> bool: ...

    async def compare_and_set(
        self, key: str, expected: bytes | None, value: bytes | None, ttl_s: float | None = None
    ) -> bool:
        """Set (or delete, if `value` is None) only if the value is still `expected` (None: absent)."""
        ...

    async def delete(self, key: str) -> bool: ...

    async def scan(self, prefix: str, limit: int = 10_000) -> Sequence[tuple[str, bytes]]:
        """Keys that begin with exactly `prefix`, in order."""
        ...

    async def close(self) -> None: ...
