"""Things that many ask for at once are made once, and kept for a while within a bound."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

Making = Callable[[], Awaitable[tuple[T, int]]]
"""Makes a thing and says how many bytes it may be kept with; 0 for what is not to be kept."""


class Shelf(Generic[T]):
    """Keeps what was asked for last, up to so many bytes. One loop owns it."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._making: dict[Hashable, asyncio.Task[T]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    async def get(self, key: Hashable, make: Making[T]) -> T:
        """The thing of this key. Who asks while it is being made waits for it; whoever leaves stops nobody else."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found[0]
        task = self._making.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._make(key, make))
            task.add_done_callback(noticed)
            self._making[key] = task
        return await asyncio.shield(task)

    async def _make(self, key: Hashable, make: Making[T]) -> T:
        try:
            thing, size = await make()
        finally:
            del self._making[key]
        if 0 < size <= self._bytes_max:
            self._kept[key] = (thing, size)
            self._bytes += size
            while self._bytes > self._bytes_max:
                self._bytes -= self._kept.popitem(last=False)[1][1]
        return thing


def noticed(task: "asyncio.Task[T]") -> None:
    """Whoever waited has been told of a failure; if nobody did any more, nothing is left to say."""
    if not task.cancelled():
        task.exception()
