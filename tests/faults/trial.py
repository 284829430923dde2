"""One run of a scenario: its seed, its size, and its row in the table."""

import os
import random
import secrets
import sys
import time
from typing import TypeVar

import msgspec

from tests.faults.checker import Verdict

T = TypeVar("T")
LONG = os.environ.get("ART_FAULT_LONG", "") not in ("", "0", "off")


def seeds() -> list[int]:
    """The seed of the environment; without one, always the same in short runs and new ones in long runs."""
    given = os.environ.get("ART_FAULT_SEED", "")
    if given:
        return [int(given)]
    return [secrets.randbelow(1_000_000) for _ in range(3)] if LONG else [7]


def seed(usual: int) -> int:
    """One seed: that of the environment, a new one in long runs, else the usual one."""
    given = os.environ.get("ART_FAULT_SEED", "")
    return int(given) if given else secrets.randbelow(1_000_000) if LONG else usual


class Row(msgspec.Struct):
    """What is known of one run at its end."""

    scenario: str
    seed: int
    verdict: Verdict
    took_s: float


ROWS: list[Row] = []
SAID: list[str] = []
"""What was measured on the way, for under the table."""


class Trial:
    """Dice with a seed, sizes for short and long runs, and the judge."""

    def __init__(self, node: str, scenario: str, seed: int) -> None:
        self._node, self._scenario = node, scenario
        self._began = time.monotonic()
        self.seed = seed
        self.dice = random.Random(seed)
        print(f"\n{scenario}: seed {seed}; {self.again}", file=sys.stderr)

    @property
    def again(self) -> str:
        """How to run just this once more."""
        size = "ART_FAULT_LONG=1 " if LONG else ""
        return f"run it again with {size}ART_FAULT_SEED={self.seed} .venv/bin/pytest -s '{self._node}'"

    @staticmethod
    def pick(short: T, long: T) -> T:
        return long if LONG else short

    def say(self, measured: str) -> None:
        """Put a line under the table."""
        SAID.append(f"{self._scenario}: {measured}")
        print(SAID[-1], file=sys.stderr)

    def judge(self, verdict: Verdict) -> Verdict:
        """Put the run into the table; nothing may be lost, doubled, made up or left out without a word."""
        ROWS.append(Row(self._scenario, self.seed, verdict, time.monotonic() - self._began))
        print(table(ROWS[-1:]), file=sys.stderr)
        assert verdict.sent, f"nothing was sent, so nothing was shown; {self.again}"
        assert verdict.clean, f"{verdict}; {self.again}"
        return verdict


_COLUMNS = ("sent", "lost", "duplicate", "phantom", "unknown", "gaps", "said")


def table(rows: list[Row]) -> str:
    """The rows for people; `said` is what was lost as announced."""
    wide = max([len("scenario"), *(len(row.scenario) for row in rows)])
    head = f"{'scenario':<{wide}} {'seed':>7}" + "".join(f"{name:>10}" for name in _COLUMNS) + f"{'s':>7}"
    body = [
        f"{row.scenario:<{wide}} {row.seed:>7}"
        + "".join(f"{getattr(row.verdict, name):>10}" for name in _COLUMNS)
        + f"{row.took_s:>7.1f}"
        for row in rows
    ]
    return "\n".join([head, *body])
