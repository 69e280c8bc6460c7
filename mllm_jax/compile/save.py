"""The train step compiled for the devices of this machine, and stored in a file for later runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mllm_jax.compile.target import training_batch
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.runtime.compiled.precompiled import PrecompiledPrograms
from mllm_jax.train.experiment import STEP_PROGRAM
from mllm_jax.train.step.build import build_train_step
from mllm_jax.train.step.mpmd.build import build_grouped_step
from mllm_jax.train.step.mpmd.compile import SavedPrograms, use_store
from sharding.plan import PlanError


@dataclass(frozen=True)
class SavedStep:
    """A compiled step in a file.

    Attributes:
        file: the file; of modules in groups the folder, which has a file of each program.
        facts: all that the compiled step depends on.
        seconds: seconds of tracing, lowering and compiling.
    """

    file: Path
    facts: dict[str, str]
    seconds: float

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"compiled in {self.seconds:.1f} s for {self.facts['devices']}"

    def to_json(self) -> dict[str, Any]:
        """`{"file", "facts", "compile_seconds"}`."""
        return {"file": str(self.file), "facts": self.facts, "compile_seconds": self.seconds}


def save_step(
    config: ExperimentConfig, folder: Path, notify: Callable[[str], None] = lambda text: None
) -> SavedStep:
    """Compile the step that `train` takes and write it into `folder`, each process its part.

    Raises:
        PlanError, ScheduleError: as of `build_train_step`.
        RunError: the folder cannot be written.
    """
    begin = time.perf_counter()
    if config.parallel.separate_groups:
        return _save_group_programs(config, folder, notify)
    step = build_train_step(config)
    notify("tracing and lowering the step")
    lowered = step.update.lower(step.abstract_state, training_batch(config, step))
    notify("compiling it")
    programs = PrecompiledPrograms(folder, step.options, step.devices)
    file = programs.save_program(STEP_PROGRAM, lowered)
    return SavedStep(file, programs.program_facts(lowered), time.perf_counter() - begin)


def _save_group_programs(
    config: ExperimentConfig, folder: Path, notify: Callable[[str], None]
) -> SavedStep:
    """Compile the programs of all groups.

    Raises:
        PlanError: the backbone has stages.
    """
    begin, step, programs = time.perf_counter(), build_grouped_step(config), SavedPrograms(folder)
    if step.program.stages > 1:
        reason = f"{config.stage_key}: {step.program.stages} is refused, as programs of stages in"
        raise PlanError(f"{reason} a group are not compiled ahead", f"choose {config.stage_key}=1")
    notify("tracing, lowering and compiling the programs of every group")
    with use_store(programs):
        step.update(step.abstract_state, training_batch(config, step))
    facts = programs.facts[0] | {"devices": f"{len(step.devices)} x {step.devices[0].device_kind}"}
    return SavedStep(folder, facts, time.perf_counter() - begin)
