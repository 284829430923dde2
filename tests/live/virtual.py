"""An event loop whose time passes only while nobody has anything to do, and a store that needs no thread."""

import asyncio
import selectors
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.SelectSelector):
    """Instead of waiting, it moves the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everybody waits, and for nothing that will come"
        self.now += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, however much virtual time it takes."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


def now() -> float:
    return asyncio.get_running_loop().time()


class DictStore:
    """A store in a dict; while `hangs`, calls never come back; while `error` is set, they raise it."""

    def __init__(self) -> None:
        self.items: dict[str, bytes] = {}
        self.hangs = False
        self.error: Exception | None = None

    async def _pass(self) -> None:
        if self.hangs:
            await asyncio.sleep(1e9)
        if self.error is not None:
            raise self.error

    async def get(self, key: str) -> bytes | None:
        await self._pass()
        return self.items.get(key)

    async def put(self, key: str, value: bytes, ttl_s: float | None = None) -> None:
        await self.compare_and_set(key, await self.get(key), value)

    async def put_if_absent(self, key: str, value: bytes, ttl_s: float | None = None) -> bool:
        return await self.compare_and_set(key, None, value)

    async def compare_and_set(
        self, key: str, expected: bytes | None, value: bytes | None, ttl_s: float | None = None
    ) -> bool:
        await self._pass()
        if self.items.get(key) != expected:
            return False
        self.items.pop(key, None)
        if value is not None:
            self.items[key] = value
        return True

    async def delete(self, key: str) -> bool:
        await self._pass()
        return self.items.pop(key, None) is not None

    async def scan(self, prefix: str, limit: int = 10_000) -> Sequence[tuple[str, bytes]]:
        await self._pass()
        return sorted((key, value) for key, value in self.items.items() if key.startswith(prefix))[:limit]

    async def close(self) -> None:
        self.items.clear()
