"""Who is slow is named, with machine and phase; in noise nobody is."""

from __future__ import annotations

import numpy as np
import pytest

from mllm_jax.train.listeners.stragglers.judge import (
    FEWEST,
    OFTEN,
    SlowPlace,
    StragglerJudge,
    _median_of_others,
)
from mllm_jax.train.listeners.stragglers.window import DEVICE, HOST, LOCAL
from tests.train.listeners.stragglers.noise import windows


def judged(**options) -> list[list[SlowPlace]]:
    """The slow ones after each window."""
    judge = StragglerJudge()
    return [judge(times) for times in windows(**options)]


@pytest.mark.parametrize("phase", [*LOCAL, HOST, DEVICE])
@pytest.mark.parametrize("processes", [2, 3, 16])
def test_a_process_that_is_slower_by_a_fifth_is_named(phase: str, processes: int) -> None:
    found = judged(
        processes=processes, count=20, sigma=0.01, seed=0, slow=lambda n: 1.2, phases=(phase,)
    )
    named = {(own.phase, own.place) for slow in found for own in slow}
    device = "device 3 of " if phase == DEVICE else ""
    assert named == {(phase, f"{device}process 1 (host b)")}
    # Where the others are enough, they tell at once; two processes need some windows.
    assert found[FEWEST + OFTEN]


@pytest.mark.parametrize("processes", [2, 16])
def test_a_process_that_gets_slower_is_named_and_said_to(processes: int) -> None:
    found = judged(processes=processes, count=30, sigma=0.01, seed=1, slow=lambda n: 1 + 0.02 * n)
    named = [own for slow in found for own in slow]
    assert {own.place for own in named} == {"process 1 (host b)"}
    assert named[-1].has_grown
    assert "and it gets slower: +" in str(named[-1])
    first = next(number for number, slow in enumerate(found) if slow)
    assert first <= 14  # when it is slower by 28 %


def test_a_slow_process_that_stays_as_it_is_does_not_grow() -> None:
    found = judged(processes=4, count=30, sigma=0.02, seed=2, slow=lambda n: 1.3)
    assert found[-1]
    assert not found[-1][0].has_grown


@pytest.mark.parametrize("sigma", [0.01, 0.1])
@pytest.mark.parametrize("processes", [2, 16])
def test_nobody_is_named_in_noise(processes: int, sigma: float) -> None:
    found = judged(processes=processes, count=200, sigma=sigma, seed=3)
    assert sum(map(bool, found)) == 0


def test_false_alarms_are_rare_even_where_times_vary_by_a_third() -> None:
    """Of 4 runs of 200 windows each; every process has four phases and two devices."""
    runs = [judged(processes=2, count=200, sigma=0.3, seed=seed) for seed in range(4)]
    alarms = sum(bool(slow) for found in runs for slow in found)
    assert alarms / (4 * 200) <= 5e-3


@pytest.mark.parametrize(("correlation", "most"), [(0.9, 0.03), (0.95, 0.12)])
@pytest.mark.parametrize("processes", [2, 4])
def test_noise_that_drifts_seldom_names_anybody(
    processes: int, correlation: float, most: float
) -> None:
    """After the first windows, which cannot tell yet how slowly it drifts."""
    found = judged(processes=processes, count=480, sigma=0.1, seed=6, correlation=correlation)
    assert sum(map(bool, found[80:])) <= most * 400


def test_a_process_that_becomes_slower_by_a_fifth_stays_named() -> None:
    found = judged(
        processes=2, count=200, sigma=0.01, seed=7, slow=lambda n: 1.2 if n >= 60 else 1.0
    )
    assert not any(found[:63])
    assert all(found[63:])


def test_one_that_begins_to_get_slower_late_is_said_to() -> None:
    late = judged(
        processes=2, count=140, sigma=0.01, seed=8, slow=lambda n: 1 + 0.02 * max(0, n - 100)
    )
    assert all(late[112:])
    assert late[-1][0].has_grown


def test_times_that_no_step_notices_are_not_told() -> None:
    """A process whose placing takes twice as long, which is 1 % of a step."""
    judge = StragglerJudge()
    for times in windows(processes=3, count=20, sigma=0.01, seed=4):
        own = next(one for one in times if one.phase == "place")
        small = own.__class__(own.phase, own.places, (0.01, 0.02, 0.01), own.pace)
        assert not judge([small])


def test_one_bad_window_names_nobody() -> None:
    found = judged(
        processes=4, count=30, sigma=0.01, seed=5, slow=lambda n: 3.0 if n in (15, 16) else 1.0
    )
    assert not any(found)


def test_the_median_of_the_others_is_that() -> None:
    random = np.random.default_rng(0)
    for count in (2, 3, 4, 7, 8):
        for values in (random.random(count), random.integers(0, 3, count).astype(float)):
            wanted = [np.median(np.delete(values, at)) for at in range(count)]
            assert _median_of_others(values).tolist() == wanted


def test_the_message_names_machine_phase_and_share() -> None:
    slow = SlowPlace("between", "process 1 (host b)", 0.36, 0.3, (0.19, 0.2), 1.0)
    assert str(slow) == (
        "process 1 (host b) is slow: what it does between two steps takes 360 ms, 36% of a step; "
        "of the others 300 ms (+20%)"
    )
