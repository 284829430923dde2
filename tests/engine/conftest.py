"""One house for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.engine.made import House, house


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path) as made:
        yield made
