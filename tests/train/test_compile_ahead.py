"""Compiling a train step for accelerators that are not here: what it says, and what it refuses."""

from __future__ import annotations

from typing import Any

import jax
import pytest

from data.plan import LoaderState
from mllm_jax.ahead import training_batch
from mllm_jax.train.batch import place
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.feed import open_loader
from tests.train.test_pipeline_run import MODEL, PIPELINED, Make

FROZEN: dict[str, Any] = {
    "train__accumulate": 4,
    "train__freeze": ["vision", "vision.connector", "audio", "audio.connector"],
}


def assert_alike(one: Any, other: Any) -> None:
    """Both have the same structure, shapes, types and layouts."""

    def alike(x: Any, y: Any) -> None:
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        assert x.sharding.is_equivalent_to(y.sharding, x.ndim)

    jax.tree.map(alike, one, other)


# ---- what is compiled ----------------------------------------------------------------------------


@pytest.mark.parametrize("balance", ["none", "per_phase"])
@pytest.mark.parametrize(
    "changes",
    [{}, MODEL | PIPELINED, MODEL | PIPELINED | FROZEN],
    ids=["plain", "pipelined", "works_ahead"],
)
def test_the_batch_is_what_training_makes(
    small_config: Make, changes: dict[str, Any], balance: str
) -> None:
    experiment = Experiment.build(small_config(**changes, data__balance=balance))
    config, step = experiment.config, experiment.step
    with open_loader(experiment, LoaderState(0)) as loader:
        microbatches = [next(loader).batch for _ in range(config.train.accumulate)]
    made = place(microbatches, step)
    expected = training_batch(config, step)
    assert bool(expected["carried"]) == bool(step.ahead) == ("train__freeze" in changes)
    assert ("receive" in expected["decoder"]) == (balance == "per_phase")
    assert_alike(expected | {"carried": {}}, made)
    if step.ahead:
        state = step.init(jax.random.key(0))
        carried = step.primed(state["params"], made)["carried"]
        assert_alike(expected["carried"], carried)
        _, scalars = step.step(state, made | {"carried": carried})
        assert_alike(expected["carried"], scalars["carried"])


def test_the_step_is_that_of_training(small_config: Make) -> None:
    """The program that is lowered from shapes is the one that runs on arrays."""
    experiment = Experiment.build(small_config())
    step, state = experiment.step, experiment.step.init(jax.random.key(0))
    with open_loader(experiment, LoaderState(0)) as loader:
        batch = place([next(loader).batch], step)
    ahead = step.step.lower(step.abstract, training_batch(experiment.config, step))
    assert ahead.as_text() == step.step.lower(state, batch).as_text()
