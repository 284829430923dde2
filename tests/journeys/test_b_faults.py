"""What is killed comes back; `test_e_right` judges, after the journeys in between, what that has left in the tables."""

import httpx
import psutil

from bench.running import Running
from tests.journeys.killing import Killed, service


def test_killed_parts_come_back(artery: Running, killed: Killed) -> None:
    assert not psutil.pid_exists(killed.pipeline)
    assert service(artery, "pipeline") is not None


async def test_nothing_that_was_said_in_the_log_is_a_traceback(artery: Running) -> None:
    async with httpx.AsyncClient(trust_env=False) as http:
        ready = (await http.get(f"{artery.url}/readyz", headers={"Authorization": f"Bearer {artery.key}"})).json()
    assert ready["feeds"]
    said = (artery.folder / "console.log").read_text(errors="replace")
    said += "".join(
        path.read_text(errors="replace")
        for path in (artery.folder / "sim" / "logs").glob("s*.log")
        if path.name != "spark.log"
    )
    assert "Traceback" not in said
    assert artery.key.split(".")[1] not in said, "a secret is in a log"
