"""Simulated steps whose replicas differ."""

from __future__ import annotations

import numpy as np
import pytest

from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.hardware import load_hardware
from mllm_jax.config.load import load_config
from mllm_jax.plan.simulate import TimeVariation, measure_step_times, simulate_step
from scheduling.simulate.lockstep import microbatches_of
from tests.configs import ROOT


def test_every_microbatch_of_a_module_has_a_length_of_its_own() -> None:
    numbers = {"decoder": 2, "vision": 5}
    drawn = TimeVariation({1: 2.0}, 0.5, seed=3).draw_replicas(2, numbers)
    assert [own.slow for own in drawn] == [{1: 2.0}, {}]
    for own in drawn:
        assert {module: len(factors) for module, factors in own.lengths.items()} == numbers
    every = [factor for own in drawn for lengths in own.lengths.values() for factor in lengths]
    assert len(set(every)) == len(every)
    # Their mean is 1 in the long run.
    (one,) = TimeVariation({}, 0.5).draw_replicas(1, {"decoder": 10_000})
    assert np.mean(one.lengths["decoder"]) == pytest.approx(1, abs=0.02)


def test_a_step_varies_whose_encoders_have_microbatches_of_their_own() -> None:
    budgets = "schedule.independent_budgets={vision: 256}", "data.budgets.vision=1024"
    own = load_config(ROOT / "configs" / "bench" / "mixture.yaml", budgets)
    hardware = load_hardware("h100")
    numbers = microbatches_of(configure_step(own).schedule, measure_step_times(own, hardware))
    assert numbers["vision"] > numbers["decoder"]
    even = simulate_step(own, hardware).makespan
    assert simulate_step(own, hardware, TimeVariation({}, 0.3)).makespan > even
