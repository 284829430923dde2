"""What several journeys look at: an Artery of which parts were killed."""

import asyncio

import pytest

from bench.running import Running
from tests.journeys.killing import Killed, kill_both


@pytest.fixture(scope="session")
def killed(artery: Running) -> Killed:
    """Parts were killed and came back; what that leaves in the tables can be judged a minute or two later."""
    return asyncio.run(kill_both(artery))
