"""Budgets and backoff keep within the venue's limits."""

import time

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artery.providers.timing import Backoff, Budget, spend


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 100)), max_size=200))
def test_no_minute_ever_sees_more_than_the_budget(steps: list[tuple[float, int]]) -> None:
    budget, now, spent = Budget(1_200, 0.0), 0.0, []
    for pause_s, cost in steps:
        now += pause_s
        if budget.wait_s(cost, now) == 0.0:
            spent.append((now, cost))
    for end, _ in spent:
        assert sum(cost for at, cost in spent if end - 60 < at <= end) <= 1_200


def test_waiting_as_told_is_enough() -> None:
    budget = Budget(120, 0.0)
    assert budget.wait_s(60, 0.0) == 0.0
    wait_s = budget.wait_s(10, 0.0)
    assert wait_s == 10.0
    assert budget.wait_s(10, wait_s) == 0.0


def test_what_costs_more_than_the_burst_is_not_refused_for_ever() -> None:
    budget = Budget(120, 0.0)
    assert budget.wait_s(90, 0.0) == 0.0
    assert budget.wait_s(1, 0.0) == 31.0


async def test_what_was_spent_is_gone() -> None:
    budget = Budget(120, time.monotonic())
    await spend(budget, 59)
    assert budget.wait_s(59, time.monotonic()) > 0


def test_backoff_doubles_from_one_to_thirty_seconds_and_starts_anew() -> None:
    backoff = Backoff(1.0, 30.0, lambda: 1.0)
    assert [backoff.next_s() for _ in range(7)] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    backoff.reset()
    assert backoff.next_s() == 1.0


def test_jitter_halves_a_step_at_most() -> None:
    assert Backoff(4.0, 30.0, lambda: 0.0).next_s() == 2.0
