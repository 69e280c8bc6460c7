"""One small experiment on real data, compiled once for all tests of the loop."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from data.plan import LoaderState
from mllm_jax.config import ExperimentConfig
from mllm_jax.train.checkpoint import Checkpoints
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.loop import steps
from mllm_jax.train.progress import Progress
from tests.configs import config

CHANGES: dict[str, Any] = {
    "data__source": {"kind": "demo", "train": 64, "heldout": 8, "clips": 16, "variants": 2},
    "data__lookahead": 16,
    "data__budgets": {"tokens": 64, "segments": 8, "vision": 64, "audio": 320},
    "train__optimizer": {"kind": "adamw", "epsilon": 1e-3},
}


@pytest.fixture(scope="session")
def small_config(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., ExperimentConfig]:
    cache = tmp_path_factory.mktemp("cache")

    def make(**changes: Any) -> ExperimentConfig:
        return config(**(CHANGES | {"data__cache": str(cache)} | changes))

    return make


@pytest.fixture(scope="session")
def experiment(small_config: Callable[..., ExperimentConfig]) -> Experiment:
    return Experiment.build(small_config())


@pytest.fixture(scope="session")
def fresh_state(experiment: Experiment) -> Callable[[], tuple[Any, Progress]]:
    """Makes the state before the first step; each call gives buffers of its own."""
    start = jax.tree.map(np.asarray, experiment.step.init(jax.random.key(0)))
    layout = jax.tree.map(lambda leaf: leaf.sharding, experiment.step.abstract)

    def make() -> tuple[Any, Progress]:
        copies = jax.tree.map(lambda x: x.copy(), start)
        return jax.device_put(copies, layout), Progress(0, LoaderState(0))

    return make


def run(
    experiment: Experiment,
    state: Any,
    progress: Progress,
    after: Callable[[Any, Progress], None] = lambda state, progress: None,
) -> tuple[list[float], Any]:
    """Losses of the steps that are left, and the last state as numpy arrays."""
    losses = []
    for new, record in steps(experiment, state, progress):
        losses.append(float(record.loss))
        after(new, progress)
        state = new
    return losses, jax.tree.map(np.asarray, state)


def save(checkpoints: Checkpoints, experiment: Experiment, state: Any, progress: Progress) -> None:
    """Begin to save what a run of `experiment` would."""
    config = experiment.config.model_dump(mode="json")
    checkpoints.save(progress.step, state, progress.to_json(), config)


def keep_until(source: Path, target: Path, step: int) -> Path:
    """A copy of the checkpoints in `source` that are not newer than `step`."""
    target.mkdir()
    for folder in source.iterdir():
        if folder.name.isdigit() and int(folder.name) <= step:
            shutil.copytree(folder, target / folder.name)
    return target
