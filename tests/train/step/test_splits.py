"""Runs whose steps have as many rows are the same, however the rows are split into microbatches."""

import jax
import numpy as np
import pytest

from data.planning.stream import LoaderState
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.loading.loader import open_loader
from mllm_jax.train.state.progress import Progress
from tests.configs import ONE_DEVICE
from tests.train.runs import initial_state, run

STEPS = 20
#: Rows of a microbatch, and microbatches of a step.
SPLITS = ((4, 1), (1, 4))


@pytest.fixture(scope="module")
def experiments(small_config):
    def make(rows, count):
        changes = {"data__rows": rows, "train__accumulate": count, "train__steps": STEPS}
        return Experiment.build(small_config(parallel=ONE_DEVICE, data__lookahead=48, **changes))

    return [make(*split) for split in SPLITS]


def test_the_samples_of_steps_do_not_depend_on_how_they_are_split(experiments):
    found = []
    for experiment, (_, count) in zip(experiments, SPLITS, strict=True):
        with open_loader(experiment, LoaderState(0)) as loader:
            steps = [[next(loader) for _ in range(count)] for _ in range(STEPS)]
        found.append(
            [sorted(p for own in step for p in own.stats.stream_positions) for step in steps]
        )
    assert found[0] == found[1]
    assert all(found[0])


@pytest.mark.slow
def test_losses_do_not_depend_on_how_a_step_is_split(experiments):
    """`test_plans.py` compares the gradients of one step."""
    first = jax.tree.map(np.asarray, initial_state(experiments[0].step))
    losses, states = [], []
    for experiment in experiments:
        # Of the same model on the same device: both begin with one state, which a run uses up.
        layout = jax.tree.map(lambda leaf: leaf.sharding, experiment.step.abstract_state)
        state, progress = (
            jax.device_put(jax.tree.map(np.copy, first), layout),
            Progress(0, LoaderState(0)),
        )
        losses.append(run(experiment, state, progress)[0])
        states.append(progress.loader)
    assert states[0] == states[1]
    assert states[0].step == STEPS
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    assert losses[0][-1] < losses[0][0]
