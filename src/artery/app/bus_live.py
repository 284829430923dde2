"""Live events from the log, for a gateway that shares no pub/sub with ingest."""

import asyncio
import random
from collections.abc import Iterable, Mapping

import msgspec

from artery.bus.base import Bus, Entry
from artery.errors import ArteryError, BadInput, PositionLost
from artery.live.base import Message, PubSub
from artery.model.channels import Channel
from artery.model.series import Position
from artery.telemetry import logger

STREAMS = ("trade", "book")
"""What ingest publishes and the log holds; gateways follow candles and marks there in any case."""
RETRY_S = 1.0

_log = logger("app")


async def heads(bus: Bus) -> dict[str, str]:
    """Where the streams end now: to follow from here leaves nothing out that comes after this call."""
    return {stream: await bus.head(stream) for stream in STREAMS}


async def follow_live(bus: Bus, pubsub: PubSub, after: Mapping[str, str]) -> None:
    """Publish what is appended after these positions, for ever."""
    async with asyncio.TaskGroup() as group:
        for stream in STREAMS:
            group.create_task(_follow(bus, pubsub, stream, after[stream]))


async def _follow(bus: Bus, pubsub: PubSub, stream: str, after: str) -> None:
    while True:
        try:
            async for entries in bus.follow(stream, after):
                await pubsub.publish(list(messages(entries)))
                after = entries[-1].id
        except PositionLost as lost:
            # Sessions are told of the hole, because positions within each series do not follow each other.
            _log.warning("entries were trimmed before the gateway had read them", stream=stream, error=str(lost))
            after = lost.first
        except ArteryError as error:
            if not error.temporary:
                raise
            _log.warning("following the log failed, trying again", stream=stream, error=str(error))
        await asyncio.sleep(RETRY_S * random.uniform(0.5, 1.0))


def messages(entries: Iterable[Entry]) -> Iterable[Message]:
    """Entries as ingest would have published them; a foreign producer's have no place in a series and stay behind."""
    for entry in entries:
        fields = entry.fields
        try:
            position = Position(int(fields["epoch"]), int(fields["seq"]), int(fields["eventTs"]))
            channel = Channel(fields["provider"], fields["coin"])
            yield Message(str(channel), fields["t"], str(position), msgspec.json.encode(fields))
        except (KeyError, ValueError, BadInput):
            continue
