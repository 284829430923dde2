"""When a process is stuck, and how long it waits: on times that are handed in."""

from artery.app.restarts import OWN_DELAY_S, Policy, Watch


def test_the_wait_doubles_up_to_its_limit() -> None:
    policy = Policy(first_s=1.0, longest_s=30.0)
    waits = [policy.pause_s(failures, chance=1.0) for failures in range(1, 9)]
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert policy.pause_s(10_000, chance=1.0) == 30.0


def test_chance_only_shortens_the_wait_and_never_to_nothing() -> None:
    policy = Policy()
    assert 0.7 <= policy.pause_s(1, chance=0.0) < policy.pause_s(1, chance=0.5) < 1.0


def test_a_calm_run_makes_earlier_failures_forgotten() -> None:
    policy = Policy(calm_s=60.0)
    assert policy.failures(7, ran_s=59.9) == 8
    assert policy.failures(7, ran_s=60.0) == 1


def test_a_process_may_take_longer_for_its_first_sign_than_for_later_ones() -> None:
    watch = Watch(start_s=10.0, silence_s=3.0, now=0.0)
    assert not any(watch.is_stuck(None, float(now)) for now in range(1, 11))
    assert not watch.alive
    assert not watch.is_stuck("first", 10.5)
    assert watch.alive
    assert not watch.is_stuck("first", 13.5)
    assert watch.is_stuck("first", 13.6)


def test_a_process_that_never_gives_a_sign_is_stuck() -> None:
    watch = Watch(start_s=10.0, silence_s=3.0, now=0.0)
    assert [now for now in range(1, 13) if watch.is_stuck(None, float(now))] == [11, 12]


def test_any_change_is_a_sign_also_one_back_in_time() -> None:
    watch = Watch(start_s=10.0, silence_s=3.0, now=0.0)
    signs = [500, 400, 300, 200, 100, 0]
    assert not any(watch.is_stuck(sign, 2.0 * count) for count, sign in enumerate(signs, 1))


def test_time_that_the_supervisor_itself_was_away_is_not_blamed_on_anyone() -> None:
    watch = Watch(start_s=10.0, silence_s=3.0, now=0.0)
    assert not watch.is_stuck("a", 1.0)
    back = 1.0 + OWN_DELAY_S + 600.0
    assert not watch.is_stuck("a", back)
    assert not watch.is_stuck("a", back + 2.9)
    assert watch.is_stuck("a", back + 3.1)
