"""A run goes on under another division of devices: other groups, slices, or none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mllm_jax.config.load import CheckpointConfig, ExperimentConfig
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.state.checkpoint import CheckpointManager
from tests.configs import HALVED, MEDIA_APART, VALUES, VISION_APART
from tests.train.runs import first_states, run, save

KEPT = CheckpointConfig(asynchronous=False)
Make = Callable[..., ExperimentConfig]
#: A checkpoint after two steps, and the losses of all.
Saved = tuple[Path, list[float]]


def begin(config: ExperimentConfig, folder: Path) -> Saved:
    """Train all steps, and keep a checkpoint after two."""
    experiment = Experiment.build(config)
    checkpoints = CheckpointManager(folder, KEPT, experiment.step.form.regrouping)

    def keep(state: Any, progress: Any) -> None:
        if progress.step == 2:
            save(checkpoints, experiment, state, progress)
            checkpoints.wait_for_saves()

    losses, _ = run(experiment, *first_states(experiment)(), keep)
    checkpoints.close()
    return folder, losses


def go_on(config: ExperimentConfig, folder: Path) -> list[float]:
    """Losses of the steps after the checkpoint."""
    experiment = Experiment.build(config)
    checkpoints = CheckpointManager(folder, KEPT, experiment.step.form.regrouping, read_only=True)
    try:
        restored = checkpoints.restore_state(experiment.step.abstract_state)
    finally:
        checkpoints.close()
    assert restored is not None
    return run(experiment, restored.state, restored.progress)[0]


@pytest.fixture(scope="module")
def saved(small_config: Make, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """Of a run with groups."""
    return begin(small_config(parallel=MEDIA_APART), tmp_path_factory.mktemp("run") / "checkpoints")


@pytest.mark.parametrize(
    "parallel",
    [
        pytest.param(VALUES["parallel"], id="no groups"),
        pytest.param(VISION_APART, id="other devices", marks=pytest.mark.slow),
        pytest.param(HALVED, id="slices", marks=pytest.mark.slow),
    ],
)
def test_a_run_with_groups_goes_on_elsewhere(
    small_config: Make, saved: Saved, parallel: dict[str, Any]
) -> None:
    folder, losses = saved
    np.testing.assert_allclose(
        go_on(small_config(parallel=parallel), folder), losses[2:], rtol=1e-5
    )


@pytest.mark.slow
def test_a_run_goes_on_in_groups(small_config: Make, tmp_path: Path) -> None:
    folder, losses = begin(small_config(), tmp_path / "checkpoints")
    went_on = go_on(small_config(parallel=HALVED), folder)
    np.testing.assert_allclose(went_on, losses[2:], rtol=1e-5)
