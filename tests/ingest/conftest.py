"""The stage that the feed's tests play on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.ingest.scripted import Stage


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """A feed of two markets without a past to fetch."""
    one = Stage(tmp_path, history_days=0.0)
    yield one
    await one.close()
