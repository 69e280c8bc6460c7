"""`launch.py calibrate --slices`: costs of modules that share a device, measured here.

A process with slices measures every task on one, pairs side by side on two, and the memory; another
measures every task on the whole device. Steps are not measured.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from threading import BrokenBarrierError
from typing import Any

from mllm_jax.calibrate.slices.part import (
    TimedMemory,
    TimedPart,
    join_meeting,
    measure_slices,
    measure_whole,
)
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.runtime.folder import prepare_folder
from scheduling.costs.hardware import HardwareError
from scheduling.costs.slice_fit import FittedSlices, MeasuredSlices, check_rows, fit_slices

#: Slices of a device, each a core.
SLICES = 2

#: Shows a line of progress.
Notify = Callable[[str], None]


@dataclass(frozen=True)
class SliceCalibration:
    """Costs of modules that share a device, and how they were found.

    Attributes:
        fitted: the costs, and what they say of times that were left out.
        measured: what was measured.
    """

    fitted: FittedSlices
    measured: MeasuredSlices

    @property
    def checks(self) -> list[dict[str, Any]]:
        """`{"what", "measured", "predicted", "error"}` of every time that was left out."""
        return check_rows(self.fitted.checks)

    @property
    def tasks(self) -> list[dict[str, Any]]:
        """`{"what", "slice", "whole", "host", "fixed"}` of every task, in seconds."""
        costs = self.fitted.costs
        return [
            {
                "what": f"{module} {phase}",
                "slice": work.compute_seconds(1 / SLICES),
                "whole": work.compute_seconds(1.0),
                "host": work.host_seconds,
                "fixed": work.fixed_seconds,
            }
            for module, tasks in costs.modules.items()
            for phase, work in tasks.tasks.items()
        ]

    @property
    def notes(self) -> list[str]:
        """Lines below the tables."""
        costs = self.fitted.costs
        errors = sorted(abs(check.error) for check in self.fitted.checks)
        lines = [
            f"{pair.module} beside {pair.concurrent}: {pair.factor:.3g} times as long as predicted"
            for pair in costs.pairs
        ]
        lines.append(
            f"memory: {costs.bandwidth / 1e9:.3g} GB/s; copies between slices: "
            f"{costs.slice_link.bandwidth / 1e9:.3g} GB/s after {costs.slice_link.latency:.2g} s"
        )
        if errors:
            middle, largest = errors[len(errors) // 2], errors[-1]
            lines.append(f"errors of times left out: median {middle:.1%}, largest {largest:.1%}")
        return lines

    def to_json(self) -> dict[str, Any]:
        """`{"costs", "checks": [{"what", "measured", "predicted", "error"}], "slices"}`."""
        costs = self.fitted.costs.model_dump(mode="json")
        return {"costs": costs, "checks": self.checks, "slices": SLICES}


def calibrate_slices(config: ExperimentConfig, output: Path, notify: Notify) -> SliceCalibration:
    """Measure, fit, and write the costs to `output`.

    Raises:
        HardwareError: `output` is no `.json` file, or this machine has no slices.
        RunError: the folder of `output` cannot be written.
    """
    _check_machine(config, output)
    prepare_folder(output.parent)
    notify(f"compiling and timing tasks and pairs on {SLICES} slices, and tasks on all of them")
    measured = _join_parts(*_run_processes(config))
    calibration = SliceCalibration(fit_slices(measured), measured)
    output.write_text(json.dumps(calibration.to_json(), indent=1) + "\n", encoding="utf-8")
    return calibration


def _check_machine(config: ExperimentConfig, output: Path) -> None:
    if output.suffix != ".json":
        raise HardwareError(f"--output {output}: costs of slices are written to a file NAME.json")
    platform = config.parallel.platform
    if platform != "cpu":
        reason = f"parallel.platform: slices of {platform} devices cannot be measured by one"
        raise HardwareError(f"{reason} process, in which they do not exist; valid: cpu")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if (cores or 1) < SLICES:
        reason = f"--slices: {SLICES} slices of a CPU need a core each, and {cores} is there"
        raise HardwareError(f"{reason}; valid: a machine with {SLICES} cores or more")


def _run_processes(config: ExperimentConfig) -> tuple[TimedPart, TimedMemory, TimedPart]:
    """What a process with slices measures, and one with the whole device."""
    context = get_context("spawn")
    barrier = context.Barrier(2)
    with ExitStack() as stack:
        processes = [
            stack.enter_context(ProcessPoolExecutor(1, context, join_meeting, (barrier,)))
            for _ in range(2)
        ]
        slices = processes[0].submit(measure_slices, config, SLICES)
        full_device = processes[1].submit(measure_whole, config, SLICES)
        for future in (slices, full_device):
            future.add_done_callback(partial(_release_others, barrier))
        _raise_first([slices.exception(), full_device.exception()])
        return *slices.result(), full_device.result()


def _release_others(barrier: Barrier, done: Future[Any]) -> None:
    """Let no process wait for one that has failed."""
    if done.exception() is not None:
        barrier.abort()


def _raise_first(errors: Sequence[BaseException | None]) -> None:
    """Raise the first error that is not of a process released."""
    raised = [error for error in errors if error is not None]
    raised.sort(key=lambda error: isinstance(error, BrokenBarrierError))
    if raised:
        raise raised[0]


def _join_parts(part: TimedPart, memory: TimedMemory, full_device: TimedPart) -> MeasuredSlices:
    """What both processes have measured; the host's seconds are those beside slices."""
    return MeasuredSlices(
        part.counts,
        part.output_bytes,
        (*part.times, *full_device.times),
        memory.bandwidth,
        slice_link=memory.link,
        device_link=memory.link,
        host_on_slices=True,
    )
