"""Model tests: the same steps each time in short runs; in long ones more of them, by a seed that is said."""

import sys
from collections.abc import Callable

import hypothesis
from hypothesis import HealthCheck
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.faults.trial import LONG, SAID, seed

MORE = 8
SIZE = "ART_FAULT_LONG=1 " if LONG else ""
MODEL_S = 3_600 if LONG else 300
"""How long all the examples of one backend may take."""


def behaves(machine: Callable[[], RuleBasedStateMachine], *, examples: int, steps: int) -> None:
    """Compare a real part with its model; ART_FAULT_LONG=1 takes a new seed, ART_FAULT_SEED=n just that one."""
    number = seed(0)
    if number:
        said = f"a model test took {SIZE}ART_FAULT_SEED={number}"
        print(f"\n{said}", file=sys.stderr)
        SAID.append(said)
        machine = hypothesis.seed(number)(machine)
    run_state_machine_as_test(
        machine,  # type: ignore[arg-type]
        settings=hypothesis.settings(
            max_examples=examples * MORE if LONG else examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=not number,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
