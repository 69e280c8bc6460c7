"""Messages of an interrupted run: the saved step, and the command that continues from it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mllm_jax.runtime.supervised.process import own_command

if TYPE_CHECKING:  # which a supervisor does not need
    from mllm_jax.config.sections import ExperimentConfig

FROM_STEP = "--from-step"


def untouched(config: ExperimentConfig) -> str:
    """Before a step was taken, by this process."""
    steps = [int(path.name) for path in _folder(config).glob("*") if path.name.isdigit()]
    if steps:
        where = _folder(config) / str(max(steps))
        told = f"step {max(steps)} is saved in {where}; go on with\n  {_as_started()}"
        return f" before a step was taken: {told}"
    return f" before a step was taken: nothing was saved; start again with\n  {_as_started()}"


def unsaved(config: ExperimentConfig) -> str:
    """A second interruption, before the checkpoint of the first one is saved."""
    if not config.checkpoint.enabled:
        return saved(config, 0)
    return f" once more: steps since the newest checkpoint are lost; go on with\n  {again()}"


def saved(config: ExperimentConfig, step: int) -> str:
    """After `step`, whose checkpoint is whole."""
    if not config.checkpoint.enabled:
        return ": nothing is saved, as checkpoint.enabled is false"
    where = _folder(config) / str(step)
    return f" after step {step}, which is saved in {where}; go on with\n  {again()}"


def finished(config: ExperimentConfig, step: int) -> str:
    """After the last step: the same command makes the rest, without another step."""
    if not config.checkpoint.enabled:
        return ": training is complete, but nothing is saved, as checkpoint.enabled is false"
    left = "evaluate it" if config.evaluate.enabled else "write its summary"
    where = _folder(config) / str(step)
    return f": training is complete, step {step} is saved in {where}; {left} with\n  {again()}"


def again() -> str:
    """The command that goes on from the newest checkpoint of this process' run, for a shell.

    It is the command that has begun the run without `--from-step`, which would lead back there
    once more.
    """
    return shlex.join(without(FROM_STEP, own_command()))


def without(option: str, words: Sequence[str]) -> list[str]:
    """The words of a command without an option that has a value."""
    left, kept = iter(words), []
    for word in left:
        if word == option:
            next(left, None)
        elif not word.startswith(f"{option}="):
            kept.append(word)
    return kept


def _as_started() -> str:
    """The command that has begun the run, with `--from-step`, which may not be followed yet."""
    return shlex.join(own_command())


def _folder(config: ExperimentConfig) -> Path:
    return config.run.path / "checkpoints"
