"""What `artery selftest` looks at is there where all of Artery runs, and is missed where nothing does."""

from pathlib import Path

import pytest

from artery.app.journeys import Journeys, Look
from artery.errors import ArteryError
from artery.settings import Settings
from bench.running import Running
from tests.journeys.waiting import until

WAITED_FOR_ELSEWHERE = ("candle closed",)
"""It is up to a minute away, and the journeys behind this one wait for it."""


async def seen(look: Look) -> bool:
    try:
        await look()
    except ArteryError:
        return False
    return True


@pytest.mark.timeout(600)
async def test_every_step_of_the_selftest_comes_true(artery: Running) -> None:
    steps = Journeys(Settings().with_(data={"dir": str(artery.folder)})).steps()
    for name, within_s, look in steps:
        if name not in WAITED_FOR_ELSEWHERE:
            await until(name, lambda look=look: seen(look), within_s=within_s)


async def test_no_step_of_the_selftest_comes_true_by_itself(tmp_path: Path) -> None:
    (tmp_path / "sim").mkdir()
    for _, _, look in Journeys(Settings().with_(data={"dir": str(tmp_path)})).steps():
        with pytest.raises((ArteryError, LookupError, ValueError, OSError)):
            await look()
