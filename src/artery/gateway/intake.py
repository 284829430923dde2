"""From pub/sub to the hub: together what came together, and in pieces what came in a flood."""

import asyncio
import time
from collections.abc import AsyncIterable, Callable, Sequence

from artery.gateway.limits import Limits
from artery.live.base import Message


async def intake(
    batches: AsyncIterable[Sequence[Message]], accept: Callable[[Sequence[Message]], None], limits: Limits
) -> None:
    """Hand everything to `accept`, until pub/sub ends.

    What counts for speed is bytes a write, so after each round this waits for as long as the round took, within a
    bound: who has few clients waits for nothing, who has many writes several events at once to each of them.
    """
    async for messages in batches:
        began = time.monotonic()
        for at in range(0, len(messages), limits.flush_events):
            accept(messages[at : at + limits.flush_events])
            await asyncio.sleep(0)  # what clients say has its turn, and a slow one is seen to be slow
        await asyncio.sleep(min(time.monotonic() - began, limits.flush_s))
