"""Things that many ask for at once are made once, and kept for a while within a bound."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

Making = Callable[[], Awaitable[tuple[T, int]]]
"""Makes a thing and says how many bytes it may be kept with; 0 for what is not to be kept."""


class _Making(Generic[T]):
    __slots__ = ("task", "waiting")

    def __init__(self, task: asyncio.Task[T]) -> None:
        self.task = task
        self.waiting = 0


class Shelf(Generic[T]):
    """Keeps what was asked for last, up to so many bytes. One loop owns it.

    With `stops`, what nobody waits for any more is not made to its end.
    """

    def __init__(self, bytes_max: int, *, stops: bool = False) -> None:
        self._bytes_max = bytes_max
        self._stops = stops
        self._bytes = 0
        self._kept: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._making: dict[Hashable, _Making[T]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    async def get(self, key: Hashable, make: Making[T]) -> T:
        """The thing of this key. Who asks while it is being made waits for it; whoever leaves stops nobody else."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found[0]
        making = self._making.get(key)
        if making is None:
            making = self._making[key] = _Making(asyncio.get_running_loop().create_task(self._make(key, make)))
            making.task.add_done_callback(noticed)
        making.waiting += 1
        try:
            return await asyncio.shield(making.task)
        finally:
            making.waiting -= 1
            if self._stops and not making.waiting and not making.task.done():
                del self._making[key]
                making.task.cancel()

    async def _make(self, key: Hashable, make: Making[T]) -> T:
        try:
            thing, size = await make()
        finally:
            making = self._making.get(key)
            if making is not None and making.task is asyncio.current_task():
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
