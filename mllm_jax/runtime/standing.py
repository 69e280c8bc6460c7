"""Messages of an interrupted run: the saved step, and the command that continues from it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

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

    It is that of this process without `--from-step`, which would lead back there once more.
    """
    words = iter(sys.orig_argv)
    kept = []
    for word in words:
        if word == FROM_STEP:
            next(words, None)  # its number
        elif not word.startswith(f"{FROM_STEP}="):
            kept.append(word)
    return shlex.join(kept)


def _as_started() -> str:
    """The command of this process, `--from-step` included: it may not have been followed yet."""
    return shlex.join(sys.orig_argv)


def _folder(config: ExperimentConfig) -> Path:
    return config.run.path / "checkpoints"
