"""Runs whose steps have as many rows are the same, however the rows are split into microbatches."""

import jax
import numpy as np
import pytest

from data.planning.stream import LoaderState
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.state.progress import Progress
from tests.train.runs import run

STEPS = 20


@pytest.fixture(scope="module")
def losses(small_config):
    """Losses of 20 steps by (rows, microbatches), and the state of the stream after them."""
    found, start = {}, None
    for rows, count in ((4, 1), (1, 4)):
        plans = {"devices": 1, "decoder": {}, "encoders": {"vision": {}, "audio": {}}}
        changes = {"data__rows": rows, "train__accumulate": count, "train__steps": STEPS}
        config = small_config(parallel=plans, data__lookahead=48, **changes)
        experiment = Experiment.build(config)
        # Of the same model on the same device: both begin with one state, which a run uses up.
        start = start or jax.tree.map(np.asarray, experiment.step.init(jax.random.key(0)))
        layout = jax.tree.map(lambda leaf: leaf.sharding, experiment.step.abstract)
        state = jax.device_put(jax.tree.map(np.copy, start), layout)
        progress = Progress(0, LoaderState(0))
        losses = run(experiment, state, progress)[0]
        found[rows, count] = losses, progress.loader
    return found


def test_losses_do_not_depend_on_how_a_step_is_split(losses):
    (whole, stands), (split, also) = losses[4, 1], losses[1, 4]
    assert stands == also
    assert stands.step == STEPS
    np.testing.assert_allclose(split, whole, rtol=1e-5)
    assert whole[-1] < whole[0]
