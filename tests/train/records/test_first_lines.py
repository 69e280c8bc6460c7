"""The first lines of a run: the first loss as soon as it is there, then how long the run takes."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from mllm_jax.train.events import StepEnded, StepStarted
from mllm_jax.train.listeners.notices import ESTIMATED_BY as STEPS
from mllm_jax.train.listeners.notices import FirstLines
from tests.configs import config


def told(every: int, first: int, steps: int = 400) -> list[str]:
    """The lines of a run whose first step takes a minute, and all others two seconds."""
    shown = io.StringIO()
    own = config(run__log_every=every, train__steps=steps)
    listener = FirstLines(own, Console(file=shown, width=200))
    for step in range(first, steps + 1):
        listener(StepStarted(step))
        scalars: dict[str, Any] = {"loss": 7.0 - step / 1000}
        listener(StepEnded(step, 60.0 if step == first else 2.0, (), scalars, 1e-3))
    return shown.getvalue().splitlines()


def test_the_first_step_is_told_whenever_log_lines_are_due() -> None:
    estimate = f"about {2 * (399 - STEPS) // 60}:10 for {399 - STEPS} more steps of 2 s"
    assert told(every=10, first=1) == ["step   1/400  loss 6.9990", estimate]
    assert told(every=1000, first=1) == ["step   1/400  loss 6.9990", estimate]


def test_a_process_that_goes_on_tells_its_own_first_step() -> None:
    first, estimate = told(every=100, first=205)
    assert first == "step 205/400  loss 6.7950"
    assert f"for {400 - 205 - STEPS} more steps" in estimate


def test_what_a_log_line_tells_is_not_told_twice() -> None:
    assert told(every=1, first=1) == []
    assert told(every=STEPS + 1, first=1) == ["step   1/400  loss 6.9990"]
    assert told(every=10, first=10)[0].startswith("about ")


@pytest.mark.parametrize("steps", [1, 2, STEPS + 1])
def test_a_short_run_needs_no_estimate(steps: int) -> None:
    lines = told(every=1000, first=1, steps=steps)
    assert len(lines) == (steps > 1)
