"""From pub/sub to the hub: together what came together, and in pieces what came in a flood."""

import asyncio
import time
from collections.abc import AsyncIterable, Callable, Iterator, Sequence

from artery.gateway.limits import Limits
from artery.live.base import Message

_ENOUGH = 32
"""Events that make a write worth its while: a system call costs as much as the bytes of about so many."""


async def intake(
    batches: AsyncIterable[Sequence[Message]], accept: Callable[[Sequence[Message]], None], limits: Limits
) -> None:
    """Hand everything to `accept`, until pub/sub ends.

    What counts for speed is bytes a write. So after a round of few events this waits for as long as the round took,
    within a bound: who has few clients waits for nothing, who has many writes several events at once to each of them.
    Under load enough events come while a round is written, and nothing waits.
    """
    async for messages in batches:
        began = time.monotonic()
        for piece in pieces(messages, limits):
            accept(piece)
            await asyncio.sleep(0)  # what clients say has its turn, and a slow one is seen to be slow
        if len(messages) < _ENOUGH:
            await asyncio.sleep(min(time.monotonic() - began, limits.flush_s))


def pieces(messages: Sequence[Message], limits: Limits) -> Iterator[Sequence[Message]]:
    """In order, each piece within the bounds of one write; a message that is larger by itself goes alone."""
    start, size_bytes = 0, 0
    for at, message in enumerate(messages):
        size_bytes += len(message.data)
        if at > start and (size_bytes > limits.flush_bytes or at - start >= limits.flush_events):
            yield messages[start:at]
            start, size_bytes = at, len(message.data)
    if start < len(messages):
        yield messages[start:]
