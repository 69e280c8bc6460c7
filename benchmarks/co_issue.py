"""Benchmark of co-issue: how much tensor-parallel communication overlaps with compute.

The pipelined gradients of the configuration are compiled from shapes alone, for accelerators that
are not here (`mllm_jax.compile.target`). `mllm_jax.compile.overlap` reads the compiled schedule.
"""

from __future__ import annotations

import time
from functools import partial

from benchmarks.pipeline import PrintLine, Row
from mllm_jax.compile.hlo import parse_hlo
from mllm_jax.compile.overlap import DeviceSpeeds, Groups, HloOverlap, loop_share, measure_overlap
from mllm_jax.compile.target import (
    CompileTarget,
    check_installed,
    configure_for_target,
    training_batch,
)
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.runtime.devices import DeviceError
from mllm_jax.train.step.build import build_train_step, with_pipeline_plan
from mllm_jax.train.step.pipeline import PipelineProgram
from mllm_jax.train.step.step import TrainStep
from sharding.grid import JointGrid

TARGETS = (CompileTarget("v5p", (4, 4, 2)), CompileTarget("h100", (4, 8)))


def bench_co_issue(config: ExperimentConfig, print_line: PrintLine) -> list[Row]:
    """Share of the tensor-parallel collectives' time that independent compute hides.

    For every target with and without co-issue, with the same tasks in the same ticks. Seconds are
    of one step on one device, on average over the devices: bytes over link speed and, for what
    hides them, FLOPs over peak.

    Raises:
        DeviceError: a compiler is not installed.
    """
    check_installed(TARGETS)
    rows: list[Row] = []
    for target in TARGETS:
        for co_issue in (False, True):
            print_line(f"compiling for {target} {'with' if co_issue else 'without'} co-issue")
            rows.append(measure_target(config, target, co_issue))
    return rows


def measure_target(config: ExperimentConfig, target: CompileTarget, co_issue: bool) -> Row:
    """One row of `bench_co_issue`."""
    config = configure_for_target(config, target)
    step = co_issuing(config, target, co_issue)
    lowered = step.gradients.lower(step.abstract_state["params"], training_batch(config, step))
    begin = time.perf_counter()
    compiled = lowered.compile(compiler_options=dict(target.compiler.options))
    seconds = time.perf_counter() - begin
    assert isinstance(step.program, PipelineProgram)
    by_kind = measure_overlap(
        parse_hlo(compiled.as_text() or ""),
        DeviceSpeeds.from_hardware(target.hardware),
        partial(within_tensor, step.program.grid),
        loop_share(step.program.full_load_schedule, step.program.bounds),
    )
    overlap = sum(by_kind.values(), HloOverlap())
    return {
        "target": str(target),
        "co_issue": co_issue,
        "collectives": overlap.collectives,
        "collective_seconds": overlap.seconds,
        "hidden_seconds": overlap.hidden_seconds,
        "hidden_share": overlap.hidden_share,
        "compile_seconds": seconds,
    }


def co_issuing(config: ExperimentConfig, target: CompileTarget, co_issue: bool) -> TrainStep:
    """The step on the devices of `target`, with the same tasks side by side or not.

    Raises:
        DeviceError: the configuration has no pipeline.
    """
    if config.parallel.backbone_plan.stage == 1:
        raise DeviceError(f"{config.stage_key}: 1 has no pipeline to measure; valid: 2 or more")
    return with_pipeline_plan(build_train_step(config, target.devices()), co_issue=co_issue)


def within_tensor(grid: JointGrid, groups: Groups) -> bool:
    """Whether collectives of these groups stay within tensor groups of the decoder."""
    degree = grid.plans[grid.backbone_name].tensor  # the fastest axis of the grid
    return all(len({device // degree for device in group}) == 1 for group in groups)
