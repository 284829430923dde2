"""What is killed comes back; `test_e_right` judges, after the journeys in between, what that has left in the tables."""

import psutil

from bench.running import Running
from tests.journeys.killing import Killed, service


def test_killed_parts_come_back(artery: Running, killed: Killed) -> None:
    assert not psutil.pid_exists(killed.pipeline)
    assert service(artery, "pipeline") is not None
