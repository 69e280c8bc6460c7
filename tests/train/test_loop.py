"""What the loop does besides stepping."""

import math

import jax
import numpy as np
import pytest

from mllm_jax.train import loop
from mllm_jax.train.batch import place
from mllm_jax.train.experiment import RunError
from mllm_jax.train.feed import open_loader
from mllm_jax.train.loop import Progress, changed_keys
from mllm_jax.train.metrics import StepRecord, Sums
from tests.train.conftest import run


def record(loss: float, gradient_norm: float) -> StepRecord:
    return StepRecord(3, loss, 0.1, gradient_norm, 1.0, 0.0, {}, {}, 0.0)


@pytest.mark.parametrize(("loss", "norm"), [(math.nan, 1.0), (math.inf, 1.0), (1.0, math.nan)])
def test_a_diverged_step_ends_the_run_before_it_is_saved(loss, norm):
    loop._check_finite(record(1.0, 1.0), None)
    with pytest.raises(RunError, match=r"(loss|gradient norm) is (nan|inf) at step 3"):
        loop._check_finite(record(loss, norm), None)


def test_changed_keys_are_named_with_old_and_new_values():
    saved = {"model": {"a": 1, "b": {"c": 2}}, "data": {"rows": 8}, "train": {"steps": 4}}
    now = {"model": {"a": 1, "b": {"c": 3}}, "data": {"rows": 8}, "train": {"steps": 4, "x": 1}}
    assert changed_keys(saved, now) == ["model.b.c: 2 -> 3", "train.x: None -> 1"]
    assert changed_keys(saved, saved) == []


def test_progress_survives_json(experiment, fresh_state):
    _, progress = fresh_state()
    progress.figures = Sums(steps=3, seconds=1.5, used={"tokens": 4}, capacity={"tokens": 8})
    progress.skipped["bad"] = 2
    assert Progress.from_json(progress.to_json()) == progress


def test_a_batch_without_anything_to_learn_changes_no_gradient(experiment, fresh_state):
    state, progress = fresh_state()
    loader = open_loader(experiment, progress.loader)
    batch = next(loader).batch
    loader.close()
    batch["decoder"]["loss_weight"] = np.zeros_like(batch["decoder"]["loss_weight"])
    new, scalars = experiment.step.step(state, place([batch], experiment.step))
    assert float(scalars["loss"]) == 0
    assert float(scalars["grad_norm"]) == 0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(new["params"]))


def test_time_spent_in_evaluation_is_not_part_of_a_step(experiment, fresh_state, monkeypatch):
    clock = iter(range(10_000_000))
    monkeypatch.setattr(loop.time, "perf_counter", lambda: float(next(clock)))

    def pause(state, progress):
        for _ in range(1000):
            next(clock)
        progress.paused += 1000

    state, progress = fresh_state()
    run(experiment, state, progress, pause)
    assert progress.seconds < 100
