"""The programs of every module's tasks, as a step of modules in groups starts them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import jax

from mllm_jax.calibrate.slices.recorded import CallRecorder, RecordedCall
from mllm_jax.check.synthetic import synthetic_batch
from mllm_jax.check.synthetic_state import synthetic_state
from mllm_jax.config.inputs import bucket_positions
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.models.freeze import FrozenParameters
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.work.flops import module_work
from mllm_jax.train.step.batch_placement import place_microbatches
from mllm_jax.train.step.gradient_program import Batch
from mllm_jax.train.step.mpmd.build import build_mpmd_step
from mllm_jax.train.step.mpmd.step import MpmdStep
from scheduling.costs.slices import MICROBATCH_PHASES, Phase
from scheduling.costs.work import TRAINING_FACTOR
from sharding.plan import DeviceNumbers, ParallelPlan

#: A task: names of its module, or bucket, and of what it does.
TaskName = tuple[str, Phase]
#: Tasks by the methods that run them.
PHASES: Mapping[str, Phase] = {
    "forward": "forward",
    "losses": "losses",
    "backward": "backward",
    "last_backward": "backward",
    "run": "backward",
    "run_last": "backward",
    "update": "update",
}
#: Methods that run a forward with its backward.
FUSED = ("run", "run_last")


@dataclass(frozen=True)
class SliceProgram:
    """The program of a task.

    Attributes:
        call: the call that starts it.
        flops: FLOPs, counted; one for every byte that it moves where they are not.
        is_fused: whether a backward is one program with its forward.
    """

    call: RecordedCall
    flops: float
    is_fused: bool = False


def apart(model: ModelConfig) -> dict[str, DeviceNumbers]:
    """A device for every module; buckets of an encoder have one in common."""
    modules = [model.backbone, *dict.fromkeys(model.buckets.values())]
    owners = {model.backbone: model.backbone, **model.buckets}
    return {name: (modules.index(module),) for name, module in owners.items()}


def in_two(model: ModelConfig) -> dict[str, DeviceNumbers]:
    """A device for the backbone, and one for all encoders."""
    return {model.backbone: (0,), **dict.fromkeys(model.buckets, (1,))}


def build_programs(
    config: ExperimentConfig, numbers: Mapping[str, DeviceNumbers], rows: int
) -> dict[TaskName, SliceProgram]:
    """The programs of all tasks of a step, whose groups have a device each.

    The update of a group is a task of its module; where it has several, it is left out.

    Args:
        config: the configuration.
        numbers: by module or bucket, the number of its device.
        rows: rows of a microbatch.
    """
    model = config.model
    step = build_mpmd_step(
        model,
        dict.fromkeys((model.backbone, *model.buckets), ParallelPlan()),
        numbers,
        FrozenParameters.from_parts(config.frozen),
        train=config.train,
    )
    batch = _make_batch(config, step, rows)
    recorder = _record_step(step, batch, config.train.seed)
    programs: dict[TaskName, SliceProgram] = {}
    for name in numbers:
        calls = recorder.calls[name] | _update_call(recorder, step, name)
        for method, call in calls.items():
            phase, fused = PHASES[method], method in FUSED
            flops = _count_flops(config, name, phase, rows, fused) or call.moved_bytes
            # Of the last backward, which sums over replicas, too, there may be no other.
            programs.setdefault((name, phase), SliceProgram(call, flops, fused))
    return programs


def _make_batch(config: ExperimentConfig, step: MpmdStep, rows: int) -> Batch:
    model, data = config.model, config.data
    budgets = {name: data.budgets[config.budget_key(name)] for name in model.buckets}
    longest = {name: bucket_positions(config, name) for name in model.buckets}
    added = [kind for kind, route in data.routes.items() if route.join == "sum"]
    tokens = data.budgets["tokens"]
    # Losses that wait read all microbatches; else all do the same.
    count = config.train.accumulate if step.program.waits else 1
    microbatches = [
        synthetic_batch(model, rows, tokens, budgets, seed, added, longest) for seed in range(count)
    ]
    return place_microbatches(microbatches, step)


def _record_step(step: MpmdStep, batch: Batch, seed: int) -> CallRecorder:
    """The calls of the second of two steps, by the name of a bucket or the number of a group."""
    recorder = CallRecorder(uncounted=batch)
    state, _ = step.update(synthetic_state(step.abstract_state, seed), batch)
    (gradients,) = step._gradients.values()
    start = cast("partial[Any]", gradients._start_run)
    tasks, backbone = start.args
    watched = recorder.watch(backbone, step.program.model.backbone)
    gradients._start_run = partial(start.func, tasks, watched)
    gradients.encoders = {
        name: recorder.watch(each, name) for name, each in gradients.encoders.items()
    }
    step._updates = [recorder.watch(update, number) for number, update in enumerate(step._updates)]
    jax.block_until_ready(step.update(state, batch))
    return recorder


def _update_call(recorder: CallRecorder, step: MpmdStep, name: str) -> dict[str, RecordedCall]:
    """The update of a group by the name of its method, for the first bucket of its only module."""
    group = step.program.group_of(name)
    is_first = step.program.groups[group].group.modules[0] == name
    return recorder.calls[group] if is_first and len(step.program.modules_of(group)) == 1 else {}


def _count_flops(
    config: ExperimentConfig, name: str, phase: Phase, rows: int, fused: bool
) -> float | None:
    """FLOPs of the layers on full rows; None of what is no layers."""
    if phase not in MICROBATCH_PHASES:
        return None
    positions = config.data.budgets[config.budget_key(name)]
    forward = module_work(config.model, name).forward_flops([float(positions)] * rows)
    if phase == "forward":
        return forward
    return (TRAINING_FACTOR if fused else TRAINING_FACTOR - 1) * forward
