"""Messages of an interrupted run: the saved step, and the command that continues from it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mllm_jax.runtime.supervised.process import original_command

if TYPE_CHECKING:  # which a supervisor does not need
    from mllm_jax.config.sections import ExperimentConfig

FROM_STEP = "--from-step"


def status_before_first_step(config: ExperimentConfig) -> str:
    """Describe an interruption before this process has taken a step."""
    steps = [int(path.name) for path in _status_folder(config).glob("*") if path.name.isdigit()]
    if steps:
        where = _status_folder(config) / str(max(steps))
        resumption = f"step {max(steps)} is saved in {where}; go on with\n  {_original_command()}"
        return f" before a step was taken: {resumption}"
    return f" before a step was taken: nothing was saved; start again with\n  {_original_command()}"


def status_unsaved(config: ExperimentConfig) -> str:
    """Describe a second interruption, before the checkpoint of the first one is saved."""
    if not config.checkpoint.enabled:
        return status_after_step(config, 0)
    return (
        f" once more: steps since the newest checkpoint are lost; go on with\n  {resume_command()}"
    )


def status_after_step(config: ExperimentConfig, step: int) -> str:
    """Describe an interruption after `step`, whose checkpoint is complete."""
    if not config.checkpoint.enabled:
        return ": nothing is saved, as checkpoint.enabled is false"
    where = _status_folder(config) / str(step)
    return f" after step {step}, which is saved in {where}; go on with\n  {resume_command()}"


def status_after_training(config: ExperimentConfig, step: int) -> str:
    """Describe an interruption after the last step: the same command does what remains."""
    if not config.checkpoint.enabled:
        return ": training is complete, but nothing is saved, as checkpoint.enabled is false"
    remaining = "evaluate it" if config.evaluate.enabled else "write its summary"
    where = _status_folder(config) / str(step)
    command = resume_command()
    return f": training is complete, step {step} is saved in {where}; {remaining} with\n  {command}"


def resume_command() -> str:
    """The command that resumes this process' run from its newest checkpoint, for a shell.

    It is the command that has begun the run without `--from-step`, which would lead back there
    once more.
    """
    return shlex.join(remove_option(FROM_STEP, original_command()))


def remove_option(option: str, words: Sequence[str]) -> list[str]:
    """The words of a command without an option that has a value."""
    remaining, result = iter(words), []
    for word in remaining:
        if word == option:
            next(remaining, None)
        elif not word.startswith(f"{option}="):
            result.append(word)
    return result


def _original_command() -> str:
    """The command that has begun the run, with `--from-step`, which may not be followed yet."""
    return shlex.join(original_command())


def _status_folder(config: ExperimentConfig) -> Path:
    return config.run.path / "checkpoints"
