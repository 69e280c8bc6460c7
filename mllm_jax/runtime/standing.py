"""What an interrupted run says: what is saved, and the command that goes on from there."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from mllm_jax.config_sections import ExperimentConfig


def untouched(config: ExperimentConfig) -> str:
    """Before a step was taken, by this process."""
    steps = [int(path.name) for path in _folder(config).glob("*") if path.name.isdigit()]
    if steps:
        return f" before a step was taken: step {max(steps)} {_place(config, max(steps))}"
    return f" before a step was taken: nothing was saved; start again with\n  {again()}"


def unsaved(config: ExperimentConfig) -> str:
    """Once more, while what the first interruption asked for is not saved yet."""
    if not config.checkpoint.enabled:
        return saved(config, 0)
    return f" once more: steps since the newest checkpoint are lost; go on with\n  {again()}"


def saved(config: ExperimentConfig, step: int) -> str:
    """After `step`, whose checkpoint is whole."""
    if not config.checkpoint.enabled:
        return ": nothing is saved, as checkpoint.enabled is false"
    return f" after step {step}, which {_place(config, step)}"


def again() -> str:
    """The command of this process, for a shell."""
    return shlex.join(sys.orig_argv)


def _folder(config: ExperimentConfig) -> Path:
    return config.run.path / "checkpoints"


def _place(config: ExperimentConfig, step: int) -> str:
    return f"is saved in {_folder(config) / str(step)}; go on with\n  {again()}"
