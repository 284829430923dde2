"""What pub/sub brings reaches the hub whole, in order, and in pieces of a bounded size."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from artery.gateway.intake import intake, pieces
from artery.gateway.limits import LIMITS, Limits
from artery.live.base import Message
from tests.gateway.made import BTC

SMALL = Limits(flush_events=5, flush_bytes=100)


def messages(sizes: Sequence[int]) -> list[Message]:
    return [Message(BTC, "TRADE", f"1.{n}.1", b"x" * size) for n, size in enumerate(sizes, 1)]


@given(st.lists(st.integers(0, 150), max_size=60))
def test_pieces_are_bounded_and_nothing_is_lost_or_moved(sizes: list[int]) -> None:
    given_, found = messages(sizes), [list(piece) for piece in pieces(messages(sizes), SMALL)]
    assert [message for piece in found for message in piece] == given_
    for piece in found:
        assert 1 <= len(piece) <= SMALL.flush_events
        assert len(piece) == 1 or sum(len(message.data) for message in piece) <= SMALL.flush_bytes


async def test_a_flood_lets_others_have_their_turn() -> None:
    turns = 0
    seen: list[tuple[int, int]] = []

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def flood() -> AsyncIterator[list[Message]]:
        yield messages([10] * 1_000)
        yield messages([10] * 3)

    beside = asyncio.create_task(other())
    await intake(flood(), lambda piece: seen.append((len(piece), turns)), LIMITS)
    beside.cancel()
    assert sum(count for count, _ in seen) == 1_003
    assert all(later > earlier for (_, earlier), (_, later) in itertools.pairwise(seen))
