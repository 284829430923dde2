"""Crash points: silent unless armed, deadly when they are, and every one of them stands in the code."""

import re
import signal
import subprocess
import sys

import pytest

from artery import crash
from artery.errors import BadSetting
from artery.settings import load
from tests.house.tree import SOURCE, python_files

_CODE = """
from artery import crash
crash.point("bus.handled")
crash.arm({where!r})
for n in range(1, 6):
    print(n, flush=True)
    crash.point("bus.refused")
    crash.point("bus.handled")
"""


def run(where: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", _CODE.format(where=where)], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout.split()


def test_a_point_kills_the_process_the_first_time_or_the_third() -> None:
    assert run("bus.handled") == (-signal.SIGKILL, ["1"])
    assert run("bus.handled:3") == (-signal.SIGKILL, ["1", "2", "3"])


def test_what_is_not_armed_does_nothing() -> None:
    assert run("") == (0, ["1", "2", "3", "4", "5"])
    assert run("bus.buried") == (0, ["1", "2", "3", "4", "5"])


@pytest.mark.parametrize("where", ["nowhere", "bus.handled:soon"])
def test_a_point_that_does_not_exist_is_refused(where: str) -> None:
    with pytest.raises(BadSetting, match="ART_CRASH_POINT takes"):
        crash.arm(where)


def test_the_environment_arms_it_and_says_nothing_else() -> None:
    assert load({"ART_CRASH_POINT": "bus.handled:2"}).crash.point == "bus.handled:2"


def test_every_point_stands_at_one_place_in_the_code() -> None:
    found = [
        name for path in python_files(SOURCE) for name in re.findall(r'crash\.point\("([^"]+)"\)', path.read_text())
    ]
    assert sorted(found) == sorted(crash.POINTS)
