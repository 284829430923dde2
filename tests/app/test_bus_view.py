"""What `artery bus` asks a log for, and what it can do without."""

import pytest

from artery.app.bus_view import known_stream, opened_bus
from artery.errors import Unavailable
from tests.servers import free_port


async def test_a_stream_that_everybody_knows_is_named_without_a_look_at_the_log() -> None:
    async with opened_bus(f"kafka://127.0.0.1:{free_port()}", "md_stream") as away:
        assert await known_stream(away, "trade") == "trade"
        with pytest.raises(Unavailable):
            await known_stream(away, "mine")
