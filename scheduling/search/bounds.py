"""Lower bounds of a step that need no schedule: of one strategy, or of all on some devices.

Bounds of the memory of one strategy are in `scheduling.costs.memory`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field

from scheduling.costs.estimate import ModuleTiming
from scheduling.costs.hardware import Hardware
from scheduling.costs.memory import least_memory
from scheduling.costs.strategy import Strategy
from scheduling.costs.times import TaskTime
from scheduling.costs.workload import WIDE, Workload
from scheduling.lowering.lowered import Remat
from scheduling.schedules.make import backbone_schedule
from scheduling.schedules.task_kinds import B, F
from scheduling.simulate.lockstep import step_makespan
from scheduling.simulate.simulation import SimulationOptions
from sharding.plan import ParallelPlan

#: A bound for a strategy of a workload on some hardware.
Bound = Callable[[Workload, Strategy, Hardware], float]


@dataclass(frozen=True)
class LowerBounds:
    """Lower bounds of strategies, computed once for all searches."""

    workload: Workload
    hardware: Hardware
    _known: dict[Hashable, float] = field(default_factory=dict, repr=False, compare=False)

    def memory_of(self, strategy: Strategy) -> float:
        """Bytes, as of `least_memory`."""
        return self._compute_once(least_memory, strategy)

    def seconds_of(self, strategy: Strategy) -> float:
        """Seconds, as of `lower_bound`."""
        return self._compute_once(self._lower_bound, strategy)

    def backbone_seconds_of(self, strategy: Strategy) -> float:
        """Seconds, as of `backbone_seconds`."""
        return self._compute_once(backbone_seconds, strategy)

    def _compute_once(self, bound: Bound, strategy: Strategy) -> float:
        current = strategy
        plans = [plan.degrees for plan in current.plans.values()]
        sizes = (
            current.microbatches,
            current.backbone_chunks,
            current.remat,
            current.gather,
            current.placement,
            current.co_issue,
        )
        key = bound.__name__, *plans, *sizes, current.kind
        if key not in self._known:
            self._known[key] = bound(self.workload, strategy, self.hardware)
        return self._known[key]

    def _lower_bound(self, workload: Workload, strategy: Strategy, hardware: Hardware) -> float:
        """`lower_bound`; the sources' compute depends on remat and devices alone, and is cached."""
        key = "sources", strategy.remat, strategy.backbone.devices
        if key not in self._known:
            self._known[key] = encoder_compute(workload, strategy, hardware)
        return lower_bound(workload, strategy, hardware, self._known[key])


def lower_bound(
    workload: Workload, strategy: Strategy, hardware: Hardware, encoders: float | None = None
) -> float:
    """Compute a lower bound of a step's seconds, wherever the tasks of sources are placed.

    It is the larger of two: the backbone alone in lockstep, with F-only, mixed and B-only ticks
    (`scheduling.schedules.schedule`) or with deferred weight gradients (`_deferred_weights_path`);
    and all compute of a device without idle slots.

    Args:
        strategy: with the backbone's plan only, or with all plans.
        encoders: `encoder_compute`, if it is known.
    """
    backbone = ModuleTiming(workload, strategy, hardware, workload.backbone_name)
    layers, chunks = backbone.layers_per_task, strategy.backbone_chunks
    forward, backward = backbone.forward_time(layers), backbone.backward_time(layers)
    work = (
        forward.compute + backward.compute + sum(o.compute for o in backbone.other_times().values())
    )
    stages, count = strategy.backbone.stage, strategy.microbatches
    ends = (
        count * (backbone.head_time().seconds + backbone.embed_seconds())
        + backbone.update_seconds()
    )
    slots = count * chunks
    if stages == 1:
        path = slots * (forward.seconds + backward.seconds)
    elif backbone.splits_backward:
        path = _deferred_weights_path(backbone, forward, backward)
    else:
        alone, mixed = _tick_counts(stages, chunks, count)
        both = max(forward.seconds, backward.seconds, forward.compute + backward.compute)
        path = alone * (forward.seconds + backward.seconds) + mixed * both
        path += (2 * alone + mixed) * backbone.send_seconds()
    path += ends + gathers_and_scatters(workload, strategy, hardware, strategy.plans)
    compute = slots * work + ends
    if encoders is None:
        encoders = encoder_compute(workload, strategy, hardware)
    # Without stages all tasks run one after the other, and nothing overlaps the collectives.
    return path + encoders if stages == 1 else max(path, compute + encoders)


def _deferred_weights_path(backbone: ModuleTiming, forward: TaskTime, backward: TaskTime) -> float:
    """Seconds of a backbone whose weight gradients are deferred.

    The last stage does all its work after the first forward reaches it; or its forwards and
    backwards, after which the last backward reaches the first stage.
    """
    stages = backbone.plan.stage
    slots = backbone.strategy.microbatches * backbone.strategy.backbone_chunks
    weights = sum(task.compute for task in backbone.other_times().values())
    both, send = slots * (forward.compute + backward.compute), backbone.send_seconds()
    reached = (stages - 1) * (forward.seconds + send)
    left = (stages - 1) * (backward.seconds + send) + weights
    return reached + both + max(slots * weights, left)


def _tick_counts(stages: int, chunks: int, microbatches: int) -> tuple[int, int]:
    """Numbers of ticks of `interleaved` with forwards alone (as with backwards alone), and both."""
    if microbatches < stages:
        return stages * chunks, microbatches - 1
    width = -(-microbatches // (microbatches // stages))  # of the first group
    return (chunks - 1) * width + stages, microbatches * chunks - 1 - (chunks - 1) * width


def gathers_and_scatters(
    workload: Workload, strategy: Strategy, hardware: Hardware, names: Collection[str]
) -> float:
    """Seconds of the gathers and scatters of some modules.

    With the placement `"prologue"` the encoders' forwards and backwards overlap the gathers and
    scatters of all modules, on each stage an average share: the longer of both counts.
    """
    modules = {name: ModuleTiming(workload, strategy, hardware, name) for name in strategy.plans}
    seconds = sum(
        modules[name].gather_seconds() + modules[name].scatter_seconds() for name in names
    )
    if strategy.placement != "prologue":
        return seconds
    gather = sum(module.gather_seconds() for module in modules.values())
    scatter = sum(module.scatter_seconds() for module in modules.values())
    work = {F: 0.0, B: 0.0}
    for name in modules.keys() - {workload.backbone_name}:
        for (kind, *_), time in modules[name].chunk_times().items():
            work[kind] += time.seconds * strategy.microbatches / strategy.backbone.stage
    return seconds + max(0.0, work[F] - gather) + max(0.0, work[B] - scatter)


def backbone_seconds(workload: Workload, strategy: Strategy, hardware: Hardware) -> float:
    """Seconds of the backbone's step without any source."""
    backbone = ModuleTiming(workload, strategy, hardware, workload.backbone_name)
    alone = backbone.backbone_times()
    plan = strategy.backbone
    sizes = plan.stage, strategy.backbone_chunks, strategy.microbatches
    schedule = backbone_schedule(strategy.kind, *sizes, strategy.backbone_name)
    co_issue = plan.stage > 1 and (plan.sequence > 1 or strategy.gather == "layer")
    return step_makespan(schedule, alone, SimulationOptions(co_issue=co_issue, replicas=plan.batch))


def encoder_compute(workload: Workload, strategy: Strategy, hardware: Hardware) -> float:
    """Seconds of one device's compute for all encoders, whichever plans they have."""
    devices, remat = strategy.backbone.devices, strategy.remat
    return sum(
        module_compute(workload, name, devices, remat, hardware) for name in workload.sources
    )


def module_compute(
    workload: Workload, name: str, devices: int, remat: Remat, hardware: Hardware
) -> float:
    """Seconds that each of `devices` computes for a module, if all compute equally much.

    Times that depend on the plans are left out: a layer's `layer_seconds`, and sums of gradients. A
    frozen encoder whose connector trains computes at least one layer again; a backbone that does
    not train in full has gradients of its inputs and of adapters alone.
    """
    plan = ParallelPlan(fsdp=devices)
    plans = {workload.backbone_name: plan, name: plan}
    timing = ModuleTiming(workload, Strategy(plans), hardware, name)
    module, again = timing.profile, 0 if remat == "none" else 1
    start, layer, end = map(timing.compute_seconds, (module.start, module.layer, module.end))
    layers = module.layers * (2 + timing.weights_share + again) * layer
    if timing.is_backbone:  # whose head computes gradients with its forward
        return layers + (2 + timing.trains_fully) * end
    if name in workload.frozen & workload.frozen_connectors:
        return start + module.layers * layer + end
    if name in workload.frozen:
        return start + (module.layers + again) * layer + (1 + timing.end_again) * end
    return (1 + timing.start_again) * start + layers + (1 + timing.end_again) * end


def least_compute(
    workload: Workload, devices: int, remats: Iterable[Remat], hardware: Hardware
) -> float:
    """A lower bound of seconds on `devices`: the compute of the step, divided evenly."""
    return min(
        sum(module_compute(workload, name, devices, remat, hardware) for name in workload.modules)
        for remat in remats
    )


def least_state(workload: Workload, devices: int) -> float:
    """A lower bound of bytes on `devices`: parameters, gradients and moments, divided evenly."""
    total = 0.0
    for name, module in workload.modules.items():
        if not workload.holds_parameters(name):
            continue
        layer, others = workload.trained_parameters(name)
        trained = module.layers * sum(layer.values()) + sum(others.values())
        constant = max(0.0, module.parameters - trained)
        # The parameter itself, then its gradient and moments.
        values = 2 + workload.moments
        total += (values * WIDE * trained + workload.constant * constant) / devices
    return total
