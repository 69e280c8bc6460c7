"""Optimus, simulated: encoders in the bubbles of a decoder's asynchronous pipeline.

After Feng et al., arXiv 2408.03505. The encoders have their own plans on the devices of the
decoder's pipeline: their stages divide the decoder's, their tensor degree its tensor degree, and m
encoder pipelines share the microbatches of one decoder pipeline. Coarse: all encoder forwards of a
device before its first decoder task, all backwards after its last; what does not fit is exposed.
Fine: one microbatch after another of the pipeline that exposes most goes into bubbles inside the
decoder's run, gaps between its tasks and its tensor-parallel collectives, as long as the finish
times, sorted, keep the decoder's deadlines, sorted. Backwards are the same in reversed time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from benchmarks.systems.chain import LayerChain
from benchmarks.systems.loads import UnevenLoads
from benchmarks.systems.memory import state_bytes
from benchmarks.systems.packing import EncoderPacking, PipelineDirection, StageWork
from scheduling.costs.estimate import ModuleTiming
from scheduling.costs.memory import layer_residual_bytes, residual_bytes
from scheduling.costs.times import TaskTime
from scheduling.schedules.schedule import ScheduleError
from scheduling.schedules.task_kinds import B, F, TaskKind
from scheduling.simulate.simulation import Simulation
from scheduling.simulate.timeline import Span
from sharding.plan import ParallelPlan, divisors_of

#: Share of a bubble inside the decoder's run that encoder kernels fill: kernels do not fit bubbles
#: exactly, and wait for their own collectives. Calibrated (docs/measurements/published.md): with it
#: Optimus hides 57.5 % of ViT-22B's work on 1536 devices, as published.
FILLED = 0.095
#: Share of the time of the decoder's gather and scatter in which encoders compute, as their own
#: parameters use the same links. Calibrated (docs/measurements/published.md): with it 68.7 % of the
#: encoders' work is hidden before and after the decoder's run on 3072 devices, as published.
BESIDE = 0.735


@dataclass(frozen=True)
class OptimusStep:
    """A step of Optimus.

    Attributes:
        stages, tensor: degrees of the encoders' plan.
        seconds: seconds of a step.
        coarse, hidden: share of the encoders' time in bubbles, without and with packing inside.
        memory: bytes of a device for the encoders: their state, and the tensors that all forwards
            of a pipeline, which come before its first backward, keep.
        packings: places of the forwards, and of the backwards.
    """

    stages: int
    tensor: int
    seconds: float
    coarse: float
    hidden: float
    memory: float
    packings: tuple[EncoderPacking, ...] = field(compare=False)


def run_optimus(chain: LayerChain, alone: Simulation, memory: float) -> OptimusStep:
    """The step with the fastest of the encoders' plans.

    Args:
        chain: chain of the decoder's strategy.
        alone: the decoder's step with no encoder work in it.
        memory: as of `fitting_degrees`.

    Raises:
        ScheduleError: as of `fitting_degrees`.
    """
    return planned_optimus(chain, alone, fitting_degrees(chain, memory))


def planned_optimus(
    chain: LayerChain, alone: Simulation, degrees: Sequence[tuple[int, int]]
) -> OptimusStep:
    """The step with the fastest of the given stages and tensor degrees of the encoders."""
    tried = [_with_plan(chain, alone, *step) for step in degrees]
    return min(tried, key=lambda step: step.seconds)


def fitting_degrees(
    chain: LayerChain, memory: float, largest: LayerChain | None = None
) -> list[tuple[int, int]]:
    """Stages and tensor degrees of the encoders' plans that can be had, at least one.

    Args:
        chain: chain of the decoder's strategy.
        memory: bytes of a device for the encoders' own plans, which hold more parameters than the
            decoder's plan: 6 bytes for each additional one (section 4 of the paper).
        largest: the chain with the workload for which the encoders must have room, too: their
            state and all that waits take at most `memory`.

    Raises:
        ScheduleError: no plan of the encoders has equal stages and the memory it needs.
    """
    decoder = chain.strategy.backbone
    encoders = chain.workload.sources.values()
    fitting = [
        (stages, tensor)
        for stages in divisors_of(decoder.stage)
        for tensor in divisors_of(decoder.tensor)
        if 6 * _more_parameters(chain, stages * tensor) <= memory
        and all(module.layers % stages == 0 for module in encoders)
        and (largest is None or _largest_bytes(largest, stages, tensor) <= memory)
    ]
    if not fitting:
        raise ScheduleError(
            "encoders: no plan has equal stages, degrees that divide those of the decoder's plan "
            f"{decoder}, and parameters of at most {memory / 2**30:.3g} GiB above those of that one"
        )
    return fitting


def _largest_bytes(chain: LayerChain, stages: int, tensor: int) -> float:
    """Bytes of a device for all that encoders need."""
    return _encoder_bytes(chain, stages, tensor, max(_assign_microbatches(chain, stages, tensor)))


def _assign_microbatches(chain: LayerChain, stages: int, tensor: int) -> tuple[int, ...]:
    """Microbatches of each encoder pipeline."""
    decoder, count = chain.strategy.backbone, chain.strategy.microbatches
    pipelines = decoder.stage // stages * (decoder.sequence // tensor)
    return tuple(count // pipelines + (q < count % pipelines) for q in range(pipelines))


def _more_parameters(chain: LayerChain, devices: int) -> float:
    """Encoder parameters of a device, split over so many, above those under the decoder's plan."""
    encoders = chain.workload.sources.items()
    total = sum(
        module.parameters for name, module in encoders if chain.workload.holds_parameters(name)
    )
    decoder = chain.strategy.backbone
    return total / devices - total / (decoder.stage * decoder.tensor)


def _with_plan(chain: LayerChain, alone: Simulation, stages: int, tensor: int) -> OptimusStep:
    assigned = _assign_microbatches(chain, stages, tensor)
    works = [_stage_work(chain, kind, stages, tensor) for kind in ("forward", "backward")]
    packings = [
        EncoderPacking(side, work, stages, assigned, (0,) * len(assigned))
        for side, work in zip(_both_directions(chain, alone), works, strict=True)
    ]
    coarse = sum(packing.longest_exposed for packing in packings)
    finest = tuple(packing.find_finest() for packing in packings)
    fine = sum(packing.longest_exposed for packing in finest)
    return _make_step(chain, alone, (stages, tensor), finest, coarse, fine)


def _make_step(
    chain: LayerChain,
    alone: Simulation,
    degrees: tuple[int, int],
    packings: tuple[EncoderPacking, ...],
    coarse: float,
    fine: float,
) -> OptimusStep:
    """The step whose encoders expose so many seconds, without and with packing inside."""
    assigned = [sum(pair) for pair in zip(packings[0].outside, packings[0].inside, strict=True)]
    total = sum(assigned) / len(assigned) * sum(packing.work.seconds for packing in packings)
    # Gathers and scatters of all modules use the same links, one after the other.
    ends = sum(chain.end_seconds(_encoder_timings(chain, *degrees)))
    return OptimusStep(
        *degrees,
        seconds=alone.makespan + fine + ends,
        coarse=_hidden_share(coarse, total),
        hidden=_hidden_share(fine, total),
        memory=_encoder_bytes(chain, *degrees, max(assigned)),
        packings=packings,
    )


def apply_plan(chain: LayerChain, alone: Simulation, planned: OptimusStep) -> OptimusStep:
    """The step of `chain` whose encoders keep the plan of another workload, and all places.

    Args:
        chain: as that of `planned`, with another workload of the same model and rows.
        alone: as of `run_optimus`.
        planned: the step that was planned.
    """
    degrees = planned.stages, planned.tensor
    works = (_stage_work(chain, kind, *degrees) for kind in ("forward", "backward"))
    packings = tuple(replace(p, work=w) for p, w in zip(planned.packings, works, strict=True))
    if chain.uneven is None:
        late = sum(packing.delay for packing in packings)
    else:
        weights = _direction_weights(chain, chain.uneven, degrees)
        late = chain.mean_of_slowest(
            chain.uneven, _late_seconds(planned.packings, packings, weights)
        )
    return _make_step(chain, alone, degrees, packings, late, late)


def _late_seconds(
    planned: Sequence[EncoderPacking],
    packings: Sequence[EncoderPacking],
    weights: Sequence[np.ndarray],
) -> np.ndarray:
    """Seconds by which the decoder's run takes longer in every case, `[cases]`.

    Every place keeps the microbatch that it has in the planned order.

    Args:
        planned: the packings of forwards and backwards as planned.
        packings: the same with the work of another workload.
        weights: of both, `[microbatches, cases]`, in the order of time.
    """
    late = np.zeros(weights[0].shape[1])
    for plan, packing, weight in zip(planned, packings, weights, strict=True):
        for case in range(len(late)):
            each = tuple(weight[numbers, case] for numbers in plan.microbatch_numbers)
            late[case] += replace(packing, weights=each).delay
    return late


def _direction_weights(
    chain: LayerChain, uneven: UnevenLoads, degrees: tuple[int, int]
) -> list[np.ndarray]:
    """Work of microbatches in both directions over `_stage_work`, `[microbatches, cases]`.

    Backwards are in reversed time, so that the last microbatch comes first.
    """
    shares = chain.shares_by_encoder(uneven)
    by_direction = []
    for kind, turn in (("forward", 1), ("backward", -1)):
        times = _times_by_encoder(chain, kind, *degrees)
        seconds = {name: time.seconds for name, time in times.items()}
        total = sum(seconds.values())
        weight = sum(seconds[name] / total * share for name, share in shares.items())
        by_direction.append(np.asarray(weight)[::turn])
    return by_direction


def _encoder_bytes(chain: LayerChain, stages: int, tensor: int, waiting: int) -> float:
    """Bytes of a device for encoders of which `waiting` microbatches are encoded at a time."""
    total = 0.0
    scale = chain.strategy.backbone.sequence // tensor
    for timing in _encoder_timings(chain, stages, tensor):
        parameters = timing.profile.parameters if timing.holds_parameters else 0
        total += state_bytes(timing) * parameters / (stages * tensor)
        layers = timing.profile.layers / stages
        full = timing.remat == "full"
        each = timing.activation_bytes / tensor if full else residual_bytes(timing, layers)
        again = {"none": 0.0, "layer": 1.0, "full": layers}[timing.remat]
        total += scale * (waiting * each + again * layer_residual_bytes(timing))
    return total


def _hidden_share(exposed: float, total: float) -> float:
    """Share of `whole` that is not exposed."""
    return max(0.0, 1 - exposed / total) if total else 1.0


def _stage_work(chain: LayerChain, kind: str, stages: int, tensor: int) -> StageWork:
    """The work of one microbatch in all encoders, on one of their stages."""
    times = [*_times_by_encoder(chain, kind, stages, tensor).values()]
    # `ModuleTiming` distributes a microbatch's rows to the pipelines of a stage; here each has its
    # own.
    scale = chain.strategy.backbone.sequence // tensor
    return StageWork(scale * sum(t.seconds for t in times), scale * sum(t.compute for t in times))


def _times_by_encoder(
    chain: LayerChain, kind: str, stages: int, tensor: int
) -> dict[str, TaskTime]:
    """The task of one stage of every encoder."""
    times = {}
    for timing in _encoder_timings(chain, stages, tensor):
        run = timing.forward_time if kind == "forward" else partial(chain.backward_time, timing)
        times[timing.name] = run(timing.profile.layers // stages)
    return times


def _encoder_timings(chain: LayerChain, stages: int, tensor: int) -> Iterator[ModuleTiming]:
    """Timings of all encoders under their plan."""
    decoder = chain.strategy.backbone
    plan = ParallelPlan(data=decoder.devices // (stages * tensor), stage=stages, tensor=tensor)
    for name in chain.workload.sources:
        strategy = replace(chain.strategy, plans={chain.backbone_name: decoder, name: plan})
        yield chain.timing_of(strategy.with_source_chunks({}), name)


def _both_directions(
    chain: LayerChain, alone: Simulation
) -> tuple[PipelineDirection, PipelineDirection]:
    """The decoder's step forwards and backwards in time."""
    stages = chain.strategy.backbone.stage
    timing = chain.timings[chain.backbone_name]
    tasks = {F: timing.forward_time(1), B: timing.backward_time(1)}
    idle = {kind: time.collective / time.seconds for kind, time in tasks.items()}
    rows = [_decoder_spans(alone, stage, idle) for stage in range(stages)]
    gather, scatter = (
        (1 - BESIDE) * seconds_of(timing)
        for seconds_of in (chain.gather_seconds, chain.scatter_seconds)
    )
    end = alone.makespan - chain.update_seconds(timing)
    turned = [[(end - b, end - a, c) for a, b, c in reversed(row)] for row in rows]
    inputs = np.sort([span.start for span in _first_chunk(alone, F)])
    returns = np.sort([end - span.end for span in _first_chunk(alone, B)])
    return _make_direction(rows, inputs, gather), _make_direction(turned, returns, scatter)


def _decoder_spans(
    alone: Simulation, stage: int, idle: Mapping[TaskKind, float]
) -> list[tuple[float, float, float]]:
    """Start, end and idle share of the tasks of a stage."""
    spans = [s for s in alone.timeline.spans if s.stage == stage and s.tasks]
    spans.sort(key=lambda span: span.start)
    return [(s.start, s.end, idle[s.tasks[0].kind]) for s in spans]


def _first_chunk(alone: Simulation, kind: TaskKind) -> list[Span]:
    """The tasks that take a microbatch in, or give its gradient back."""
    return [
        span
        for span in alone.timeline.spans
        if span.stage == 0
        for task in span.tasks
        if (task.kind, task.chunk) == (kind, 0)
    ]


def _make_direction(
    rows: Sequence[Sequence[tuple[float, float, float]]], deadlines: np.ndarray, begin: float = 0.0
) -> PipelineDirection:
    """A side in seconds after `begin`, the time at which encoders begin."""
    bubbles = [_bubble_seconds(row) for row in rows]
    return PipelineDirection(
        tuple(row[0][0] - begin for row in rows),
        tuple(points - begin for points, _ in bubbles),
        tuple(free for _, free in bubbles),
        deadlines - begin,
    )


def _bubble_seconds(row: Sequence[tuple[float, float, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Times, and the bubble seconds until each, in gaps and in idle shares of tasks."""
    points, free = [row[0][0]], [0.0]
    for start, end, share in row:
        if start > points[-1]:
            free.append(free[-1] + FILLED * (start - points[-1]))
            points.append(start)
        free.append(free[-1] + FILLED * share * (end - start))
        points.append(end)
    return np.array(points), np.array(free)
