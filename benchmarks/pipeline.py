"""Benchmarks of the pipeline: encoder placements against each other, and growth with microbatches.

Times are medians over interleaved repetitions, so that a slow moment of the machine hits all
equally; ratios are taken within one run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec

from data.batch import PackedBatch
from mllm_jax.calibrate.timing import median_seconds
from mllm_jax.check.synthetic import synthetic_batch
from mllm_jax.check.verify import initial_parameters
from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.models.freeze import FrozenParameters
from mllm_jax.train.step.batch_placement import place_microbatches
from mllm_jax.train.step.build import build_gradient_step, build_step
from mllm_jax.train.step.gradient_program import Batch
from mllm_jax.train.step.pipeline import PipelineProgram
from mllm_jax.train.step.step import TrainStep
from scheduling.lowering.lowered import IDLE, FusedKind
from scheduling.schedules.costs import ChunkCosts, TaskCosts
from scheduling.schedules.schedule import Schedule
from scheduling.schedules.task_kinds import B, F, W
from scheduling.simulate.timeline import predict_timeline
from sharding.plan import ParallelPlan

PLACEMENTS = ("first_stage", "prologue", "bubbles")
SHARES = (0.10, 0.25, 0.40)
MICROBATCHES = (8, 32, 128)
#: Timed repetitions of a step, ticks of one profiled task, and of empty ticks.
REPETITIONS, TICKS, IDLE_TICKS = 7, 8, 64
#: Compilations for each number of microbatches.
COMPILATIONS = 5

Row = dict[str, Any]
#: Shows a line of progress.
PrintLine = Callable[[str], None]


@dataclass(frozen=True)
class CompiledGradients:
    """A compiled gradient program with its inputs.

    Attributes:
        run: does one step.
        seconds: seconds of lowering and compiling.
        temporary_bytes: bytes of its buffers besides inputs and outputs, per device.
        step: the train step that it was made from.
    """

    run: Callable[[], Any]
    seconds: float
    temporary_bytes: int
    step: TrainStep


def bench_pipeline(config: ExperimentConfig, print_line: PrintLine) -> list[Row]:
    """Seconds per step of every encoder placement for several shares of encoder work.

    `predicted_seconds` is the makespan of the placement's schedule with the times of single tasks.
    `lower_bound_seconds` is the time of the same step on one device over the number of devices,
    taken while every device does it: a device alone would borrow the cores of the others.
    """
    rows: list[Row] = []
    for share in SHARES:
        rows += _measure_placements(_with_share(config, share), share, print_line)
    return rows


def bench_microbatches(config: ExperimentConfig, print_line: PrintLine) -> list[Row]:
    """Compile time and temporary memory of the step for growing numbers of microbatches.

    The same work each time, which other work on the machine only slows: the fastest time counts.
    """
    seconds: dict[int, list[float]] = {count: [] for count in MICROBATCHES}
    temporary: dict[int, int] = {}
    for repetition in range(COMPILATIONS):
        for count in MICROBATCHES:
            print_line(
                f"compiling for {count} microbatches, {repetition + 1} of {COMPILATIONS} times"
            )
            compiled = _compile_gradients(with_section(config, "train", accumulate=count))
            seconds[count].append(compiled.seconds)
            temporary[count] = compiled.temporary_bytes
            del compiled  # a full memory would slow later programs
    return [
        {
            "microbatches": count,
            "compile_seconds": min(seconds[count]),
            "temporary_mib": temporary[count] / 2**20,
        }
        for count in MICROBATCHES
    ]


def _measure_placements(config: ExperimentConfig, share: float, print_line: PrintLine) -> list[Row]:
    placed = {name: with_section(config, "schedule", placement=name) for name in PLACEMENTS}
    print_line(f"encoder share {share:.0%}: compiling {', '.join(PLACEMENTS)} and one device")
    programs = {name: _compile_gradients(variant) for name, variant in placed.items()}
    one = on_every_device(config)
    print_line(f"encoder share {share:.0%}: compiling single tasks")
    tasks = single_tasks(placed, programs)
    print_line(f"encoder share {share:.0%}: timing steps and tasks in turns")
    runs = {name: program.run for name, program in programs.items()}
    # In one go: what a slow moment does to a step it does to the tasks that predict it.
    seconds = median_seconds(runs | {"one": one} | tasks, REPETITIONS)
    rows: list[Row] = []
    for name, program in programs.items():
        schedule = _schedule_of(program.step)
        rows.append(
            {
                "encoder_share": share,
                "placement": name,
                "seconds": seconds[name],
                "predicted_seconds": predicted_seconds(schedule, seconds),
                "lower_bound_seconds": seconds["one"] / config.parallel.devices,
                "speedup_over_first_stage": seconds["first_stage"] / seconds[name],
            }
        )
    return rows


def predicted_seconds(schedule: Schedule, seconds: Mapping[Any, float]) -> float:
    """Makespan of `schedule`, given the seconds of the profiled `single_tasks`."""
    # The time of a program besides its ticks is in both.
    idle = (seconds["idle longer"] - seconds["idle"]) / (IDLE_TICKS - TICKS)
    task_seconds = {
        key: max(value - seconds["idle"], 0.0) / TICKS for key, value in seconds.items()
    }
    encoders = {
        module.name: ChunkCosts(
            tuple(task_seconds[module, F, chunk] for chunk in range(module.chunks)),
            tuple(task_seconds.get((module, B, chunk), 0.0) for chunk in range(module.chunks)),
        )
        for module in schedule.sources
    }
    more = {W.cost: task_seconds[W]} if W in task_seconds else {}
    tasks = TaskCosts(task_seconds[F], task_seconds[B], task_seconds["shared"], encoders, more=more)
    return predict_timeline(schedule, tasks).makespan + idle * int(schedule.stage_syncs.sum())


def _schedule_of(step: TrainStep) -> Schedule:
    assert step.program.schedule is not None
    return step.program.schedule


def single_tasks(
    configs: Mapping[str, ExperimentConfig], programs: Mapping[str, CompiledGradients]
) -> dict[Any, Callable[[], Any]]:
    """Compiled ticks without tasks, and with each task of the steps' schedules alone.

    All devices run the same task at the same time, as they do in a step. Tasks of encoders are
    named by how the encoder is divided, their kind and their chunk.
    """
    compiled: dict[Any, Callable[[], Any]] = {}
    for name, program in programs.items():
        compile_task = partial(_compile_ticks, configs[name], program.step)
        backbone = _schedule_of(program.step).backbone.name
        if not compiled:
            compiled = {
                "idle": compile_task(IDLE, 0, False),
                "idle longer": compile_task(IDLE, 0, False, IDLE_TICKS),
                "shared": compile_task(IDLE, 0, True),
                F: compile_task(FusedKind.of_task(F, backbone), 0, False),
                B: compile_task(FusedKind.of_task(B, backbone), 0, False),
            }
            if W in _schedule_of(program.step).kinds:
                compiled[W] = compile_task(FusedKind.of_task(W, backbone), 0, False)
        for module in _schedule_of(program.step).sources:
            if (module, F, 0) in compiled:
                continue
            for kind in (F, B):
                fused = FusedKind.of_task(kind, module.name)
                for chunk in module.chunks_with(kind):
                    compiled[module, kind, chunk] = compile_task(fused, chunk, False)
    return compiled


def _compile_ticks(
    config: ExperimentConfig,
    step: TrainStep,
    kind: FusedKind,
    chunk: int,
    together: bool,
    ticks: int = TICKS,
) -> Callable[[], Any]:
    """A compiled run of `ticks` fused tasks of one task kind."""
    params, batch = _make_inputs(config, step)
    pipeline = step.program
    assert isinstance(pipeline, PipelineProgram)

    def profile_kind(params: Any, batch: Batch) -> jax.Array:
        return pipeline.profile_task(params, batch, kind, chunk, together, ticks)

    specs = step.state_specs["params"]
    run = jax.jit(step.shard_over_mesh(profile_kind, specs, PartitionSpec()))
    program = run.lower(params, batch).compile()
    return partial(program, params, batch)


def on_every_device(
    config: ExperimentConfig, microbatches: Sequence[PackedBatch] | None = None
) -> Callable[[], Any]:
    """The whole step without a pipeline, by every device for itself and all at once."""
    one = {name: ParallelPlan() for name in config.parallel.plans}
    devices = jax.devices()[: config.parallel.devices]
    frozen = FrozenParameters.from_parts(config.frozen)
    steps = [build_step(config.model, one, frozen=frozen, devices=[device]) for device in devices]
    runs = [compile_gradients(config, step, microbatches).run for step in steps]
    workers = ThreadPoolExecutor(len(runs))

    def run_all() -> None:
        list(workers.map(lambda step: jax.block_until_ready(step()), runs))

    return run_all


def _compile_gradients(config: ExperimentConfig) -> CompiledGradients:
    """The gradients of the configured step."""
    return compile_gradients(config, build_gradient_step(config))


def compile_gradients(
    config: ExperimentConfig, step: TrainStep, microbatches: Sequence[PackedBatch] | None = None
) -> CompiledGradients:
    """The gradients of `step` on microbatches, by default synthetic ones of `config`."""
    params, batch = _make_inputs(config, step, microbatches)
    begin = time.perf_counter()
    program = step.gradients.lower(params, batch).compile()
    seconds = time.perf_counter() - begin
    memory = program.memory_analysis()
    assert memory is not None  # every backend that we compile for reports them
    return CompiledGradients(
        partial(program, params, batch), seconds, memory.temp_size_in_bytes, step
    )


def _make_inputs(
    config: ExperimentConfig, step: TrainStep, microbatches: Sequence[PackedBatch] | None = None
) -> tuple[Any, Any]:
    if microbatches is None:
        data = config.data
        budgets = {name: data.budgets[name] for name in config.model.buckets}
        microbatches = [
            synthetic_batch(config.model, data.rows, data.budgets["tokens"], budgets, seed)
            for seed in range(config.train.accumulate)
        ]
    params = init_parameters(config, step)
    return params, step.prime_batch(params, place_microbatches(microbatches, step))


def init_parameters(config: ExperimentConfig, step: TrainStep) -> Any:
    """Initial parameters as `step` stores them."""
    return jax.tree.map(
        lambda x, like: jax.device_put(np.asarray(x), like.sharding),
        step.form.to_stored(initial_parameters(config.model, 0)),
        step.abstract_state["params"],
    )


def _with_share(config: ExperimentConfig, share: float) -> ExperimentConfig:
    """`config` with the budget of its encoder that gives it `share` of the FLOPs."""
    name, *_ = config.model.buckets
    reduction, budgets = config.model.reduction(name), config.data.budgets
    candidates = [
        with_section(config, "data", budgets={**budgets, name: reduction * n})
        for n in range(8, 4 * budgets["tokens"] // reduction, 8)
    ]
    return min(candidates, key=lambda c: abs(encoder_share(c) - share))


def encoder_share(config: ExperimentConfig) -> float:
    """Share of the forward FLOPs that are the encoders', however they are cut."""
    chunks = dict.fromkeys(config.parallel.others, 1)
    config = with_section(config, "schedule", chunks={**config.schedule.chunks, **chunks})
    costs = configure_step(config).costs
    runs = config.parallel.backbone_plan.stage * config.backbone_chunks
    encoders = sum(sum(module.forward) for module in costs.sources.values())
    return encoders / (encoders + runs * costs.forward)


def with_section(config: ExperimentConfig, section: str, **values: Any) -> ExperimentConfig:
    """`config` with other values in a section, which nothing checks."""
    part = getattr(config, section).model_copy(update=values)
    return config.model_copy(update={section: part})
