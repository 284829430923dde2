"""A replay goes at an even pace, and a small one at once."""

import pytest

from artery.gateway.pace import Pace

MIB = 2**20


def test_a_long_replay_takes_as_long_as_its_bytes_need() -> None:
    pace, now_s = Pace(100 * MIB), 50.0
    for _ in range(400):
        now_s += pace.wait_s(MIB // 4, now_s)
    assert now_s == pytest.approx(51.0, abs=0.005)


def test_work_between_two_pieces_counts_as_waiting() -> None:
    pace = Pace(100 * MIB)
    waited_s = [pace.wait_s(MIB, now_s) for now_s in (50.0, 50.006, 50.1)]
    assert waited_s == pytest.approx([0.01, 0.014, 0.01]), "time that was not used is not made up"


def test_what_is_small_does_not_wait() -> None:
    assert Pace(100 * MIB).wait_s(100_000, 50.0) == 0.0
