"""Runs of the small experiment of `tests/conftest.py`, and their checkpoints."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np

from data.planning.stream import LoaderState
from mllm_jax.check.hashed import HASHED
from mllm_jax.train.events import StepEnded
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.listeners.goodput.ledger import COMPILED
from mllm_jax.train.state.checkpoint import CheckpointManager
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.step.step import Step
from mllm_jax.train.trainer import StepRunner


@contextmanager
def compilations() -> Iterator[list[str]]:
    """Names of the programs that are compiled within the context.

    Other listeners stay: `jax.monitoring.clear_event_listeners` would deafen those that the product
    registers once in a process.
    """
    names: list[str] = []

    def listen(event: str, duration_secs: float, **facts: str | int) -> None:
        if event == COMPILED and duration_secs >= 0:
            names.append(str(facts.get("fun_name")))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield names
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def initial_state(step: Step, seed: int = 0) -> Any:
    """The state before the first step, of random numbers whose program compiles fast."""
    return step.init(jax.random.key(seed, impl=HASHED))


def first_states(experiment: Experiment) -> Callable[[], tuple[Any, Progress]]:
    """Makes the state before the first step; each call gives buffers of its own."""
    first = jax.tree.map(np.asarray, initial_state(experiment.step))
    layout = jax.tree.map(lambda leaf: leaf.sharding, experiment.step.abstract_state)

    def make() -> tuple[Any, Progress]:
        copies = jax.tree.map(lambda x: x.copy(), first)
        return jax.device_put(copies, layout), Progress(0, LoaderState(0))

    return make


def take_steps(trainer: StepRunner) -> Iterator[StepEnded]:
    """Take the steps that are left, without what is due between them."""
    with trainer.opened_run():
        while not trainer.is_done:
            yield trainer.train_step()


def run(
    experiment: Experiment,
    state: Any,
    progress: Progress,
    after: Callable[[Any, Progress], None] = lambda state, progress: None,
) -> tuple[list[float], Any]:
    """Losses of the steps that are left, and the last state as numpy arrays."""
    losses, trainer = [], StepRunner(experiment, state, progress)
    for ended in take_steps(trainer):
        losses.append(float(ended.loss))
        after(trainer.state, progress)
    return losses, jax.tree.map(np.asarray, trainer.state)


def save(
    checkpoints: CheckpointManager, experiment: Experiment, state: Any, progress: Progress
) -> None:
    """Begin to save what a run of `experiment` would."""
    config = experiment.config.model_dump(mode="json")
    checkpoints.save_state(progress.step, state, progress.to_json(), config)


def keep_until(source: Path, target: Path, step: int) -> Path:
    """A copy of the checkpoints in `source` that are not newer than `step`."""
    target.mkdir()
    for folder in source.iterdir():
        if folder.name.isdigit() and int(folder.name) <= step:
            shutil.copytree(folder, target / folder.name)
    return target
