"""A pipeline on one device, or on the few that there are.

Stages are devices: no two of them can share one. On one device the executor runs all of it as a
single stage with a virtual chunk for every stage that is emulated: the same tasks, tables and
buffers, and no sends. It must give the gradients of the plain step, in about its time. How long the
tasks take, measured one by one, then says through the schedule of `STAGES` stages how long a step
would take on that many such devices whose sends cost nothing. Several devices run stages of their
own, as many as divide `STAGES`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import jax

from benchmarks.pipeline import (
    PLACEMENTS,
    compile_gradients,
    predicted_seconds,
    single_tasks,
)
from mllm_jax.check.synthetic import synthetic_batch
from mllm_jax.check.verify import (
    LIMIT,
    compare_gradients,
    initial_parameters,
    loss_and_gradients,
    shrink_experiment,
)
from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.config.pipeline_plan import PipelinePlan, check_layers
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.train.step.build import build_step
from scheduling.schedules.check import check_schedule
from scheduling.search.scheduler import pipeline_schedule
from sharding.plan import ParallelPlan

#: Stages that are emulated, each with a layer of the decoder; pieces of an encoder; microbatches.
STAGES, PIECES, MICROBATCHES = 4, 2, 8

#: Name, measured figure, figure to compare with, unit, note, and whether the figure is good.
Figures = tuple[str, float, float | None, str, str, bool]
Seconds = Callable[[Mapping[Any, Callable[[], Any]]], dict[Any, float]]


def emulated_rows(
    config: ExperimentConfig, devices: Sequence[jax.Device], seconds: Seconds
) -> Iterator[Figures]:
    """Errors against the plain step, then times.

    Args:
        config: a configuration; its model is cut to `STAGES` layers.
        seconds: times programs in turns.
    """
    count = math.gcd(len(devices), STAGES)
    pipelined = split_in_stages(config, count, STAGES // count)
    yield from gradient_errors(pipelined)
    one = split_in_stages(config, 1, STAGES)
    plain = build_step(one.model, one.parallel.plans, devices=devices[:1])
    piped = build_step(
        pipelined.model, pipelined.parallel.plans, plan_of(pipelined), devices=devices[:count]
    )
    runs = {"plain": compile_gradients(one, plain), "pipeline": compile_gradients(pipelined, piped)}
    tasks = single_tasks({"pipeline": pipelined}, {"pipeline": runs["pipeline"]})
    measured = seconds({name: program.run for name, program in runs.items()} | tasks)
    yield from _step_times(pipelined, measured)
    for name in PLACEMENTS:
        placed = _with_placement(split_in_stages(config, STAGES, 1), name)
        yield _emulate_step(placed, measured, count)


def split_in_stages(config: ExperimentConfig, stages: int, chunks: int) -> ExperimentConfig:
    """A shallow model of the same width in `stages` stages, with the rows of one device."""
    model, rows = config.model, config.data.rows // config.parallel.devices
    over = dict.fromkeys(model.buckets, ParallelPlan(data=stages))
    plans = {model.backbone: ParallelPlan(stage=stages), **over}
    changes: dict[str, dict[str, Any]] = {
        "schedule": {"chunks": {model.backbone: chunks, **dict.fromkeys(model.buckets, PIECES)}},
        # Every stage takes its share of an encoder's rows.
        "data": {"rows": math.lcm(max(1, rows), STAGES)},
        "train": {"accumulate": MICROBATCHES},
    }
    sections = {
        name: getattr(config, name).model_copy(update=section) for name, section in changes.items()
    }
    sections |= {"model": _shallow(model), "parallel": config.parallel.with_plans(plans)}
    return config.model_copy(update=sections)


def _shallow(model: ModelConfig) -> ModelConfig:
    """The model with `STAGES` layers in every module."""
    changes = {"layers": STAGES}
    modules = {name: module.model_copy(update=changes) for name, module in model.modules.items()}
    return model.with_modules(modules)


def plan_of(config: ExperimentConfig) -> PipelinePlan:
    """The pipeline plan of `config`; a single stage is allowed.

    Raises:
        ScheduleError: the sizes do not fit together.
    """
    configured = configure_step(config)
    schedule = pipeline_schedule(configured.workload, configured.strategy, configured.times)
    check_layers(config.model, schedule, pad=False)
    check_schedule(schedule)
    return PipelinePlan(schedule, co_issue=False)


def gradient_errors(config: ExperimentConfig) -> Iterator[Figures]:
    """Loss and gradients of a small model in float32, against the plain step on one device."""
    small = _in_float32(_shrink_config(config))
    model, budgets = small.model, small.data.budgets
    media = {name: budgets[name] for name in model.buckets}
    batches = [
        synthetic_batch(model, small.data.rows, budgets["tokens"], media, seed)
        for seed in range(small.train.accumulate)
    ]
    run = partial(loss_and_gradients, model)
    params, single = (
        initial_parameters(model, 0),
        dict.fromkeys(small.parallel.plans, ParallelPlan()),
    )
    got = run(small.parallel.plans, params, batches, plan_of(small))
    compared = compare_gradients(got, run(single, params, batches))
    for name, error in {"loss": compared.loss_error, **compared.worst}.items():
        good = error < LIMIT
        note = "" if good else f"FAILED: above {LIMIT:g}"
        yield f"{_make_title(config)}: error of {name}, float32", error, 0.0, "share", note, good


def _shrink_config(config: ExperimentConfig) -> ExperimentConfig:
    """A batch as `verify_plans` makes it, in the microbatches of `config`."""
    small = shrink_experiment(config)
    train = small.train.model_copy(update={"accumulate": STAGES})
    return small.model_copy(update={"model": _shallow(small.model), "train": train})


def _in_float32(config: ExperimentConfig) -> ExperimentConfig:
    changed = {"dtype": "float32", "attention": "reference"}
    return config.model_copy(update={"model": config.model.model_copy(update=changed)})


def _step_times(config: ExperimentConfig, measured: Mapping[Any, float]) -> Iterator[Figures]:
    """The step by the executor and by the plain program, and by its own tasks."""
    title, plain = _make_title(config), measured["plain"]
    note = f"reference: plain step of one device, {measured['pipeline'] / plain:.3g} of its time"
    yield f"{title}: gradients", measured["pipeline"], plain, "s", note, True
    predicted = predicted_seconds(plan_of(config).schedule, measured)
    error = predicted / measured["pipeline"] - 1
    note = f"reference: its tasks, one by one, through its schedule, {error:+.1%}"
    yield f"{title}: gradients", measured["pipeline"], predicted, "s", note, True


def _emulate_step(config: ExperimentConfig, measured: Mapping[Any, float], stages: int) -> Figures:
    """A step of `STAGES` stages from tasks that were measured on `stages` devices."""
    idle = measured["idle"]
    # Work that all stages share is measured on fewer of them.
    shared = {"shared": idle + (measured["shared"] - idle) * stages / STAGES}
    seconds = predicted_seconds(plan_of(config).schedule, {**measured, **shared})
    bound = measured["plain"] / STAGES
    name = config.schedule.placement
    note = f"not run: measured tasks, no sends; reference: the plain step over {STAGES}"
    return f"{STAGES} stages, encoders in {name}", seconds, bound, "s", note, True


def _with_placement(config: ExperimentConfig, name: str) -> ExperimentConfig:
    schedule = config.schedule.model_copy(update={"placement": name})
    return config.model_copy(update={"schedule": schedule})


def _make_title(config: ExperimentConfig) -> str:
    stages, chunks = config.parallel.backbone_plan.stage, config.backbone_chunks
    if stages == 1:
        return f"executor on one device, {chunks} chunks"
    return f"{stages} stages on {stages} devices, {chunks} chunks"
