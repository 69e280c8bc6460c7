"""The space of a plan search: the strategies that are enumerated, backbone first.

A family is a backbone's plan with its microbatches, chunks, rematerialisation and gather; its
members have in addition all that the sources may do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import get_args

from scheduling.costs.strategy import PARAMETERS, Strategy, has_collectives
from scheduling.costs.workload import Workload
from scheduling.lowering.lowered import Remat
from scheduling.schedules.backbone_schedules import MOST_FORWARDS, most_microbatches
from scheduling.schedules.bubbles import Placement
from scheduling.schedules.kinds import ScheduleKind
from scheduling.schedules.schedule import ScheduleError
from sharding.exchange_kinds import OverlapKind
from sharding.grid import JointGrid
from sharding.plan import ParallelPlan, PlanError, PlanRequirement, divisors_of
from sharding.shared_parameters import module_views
from sharding.stages import StageViews, undivided_without_stages, without_stages

#: Placements of encoders that are tried; on the first stage is a baseline.
PLACEMENTS: tuple[Placement, ...] = ("prologue", "bubbles")


@dataclass(frozen=True)
class Space:
    """The strategies that are searched.

    Attributes:
        devices: number of devices; a strategy may use fewer.
        requirements: sizes that the plan of each module must divide, by module.
        memory: bytes of a device that a step may take.
        counts: numbers of devices that strategies may use, or None for all up to `devices`.
        stages, contexts, tensors, chunks: degrees that are tried, or None for all.
        experts: degrees of ranks that share experts that are tried.
        domain: number of devices within which context and tensor groups stay, or None for any.
        remats: rematerialisation policies that are tried.
        gathers: ways of gathering parameters over fsdp that are tried.
        placements: placements of encoders that are tried.
        kinds: further kinds of the backbone's schedule that are tried where it has stages, besides
            1F1B.
        pad: whether stages x chunks need not divide the layers.
        evaluates: whether fsdp must divide widths once stages are part of it, too.
        spreads: whether encoders have as many rows as they need to be distributed over their ranks;
            else they have as many as the backbone.
        overlap: collectives of layers that overlap compute of a backbone without stages.
    """

    devices: int
    requirements: Mapping[str, tuple[PlanRequirement, ...]]
    memory: float
    counts: tuple[int, ...] | None = None
    stages: tuple[int, ...] | None = None
    contexts: tuple[int, ...] | None = None
    tensors: tuple[int, ...] | None = None
    experts: tuple[int, ...] = (1,)
    domain: int | None = None
    chunks: tuple[int, ...] | None = None
    remats: tuple[Remat, ...] = get_args(Remat)
    gathers: tuple[str, ...] = ("step", "layer")
    placements: tuple[Placement, ...] = PLACEMENTS
    kinds: tuple[ScheduleKind, ...] = ()
    pad: bool = False
    evaluates: bool = False
    spreads: bool = False
    overlap: frozenset[OverlapKind] = PARAMETERS

    def uses_devices(self, devices: int) -> bool:
        """Whether strategies that use so many devices are tried."""
        return devices <= self.devices and (self.counts is None or devices in self.counts)

    def fits_plan(self, name: str, plan: ParallelPlan) -> bool:
        """Whether `plan` divides all that it must."""
        return all(need.is_met(plan) for need in self.requirements[name])

    def check_strategy(self, strategy: Strategy) -> None:
        """Check the requirements on all plans of a member together.

        Raises:
            ScheduleError: the plans are no views of one grid, or the schedule would be too long.
        """
        stages, chunks = strategy.backbone.stage, strategy.backbone_chunks
        if stages > 1 and strategy.microbatches > most_microbatches(stages, chunks):
            raise ScheduleError(f"more than {MOST_FORWARDS} forwards to schedule")
        if len(strategy.plans) > 1:
            try:
                StageViews.build(JointGrid.build(strategy.plans), strategy.gather)
            except PlanError as error:
                raise ScheduleError(str(error)) from None
        if self.evaluates:
            for name, *_ in undivided_without_stages(
                strategy.plans, without_stages(strategy.plans), self.requirements
            ):
                raise ScheduleError(f"fsdp x stage does not divide the parameters of {name}")


def with_stages(space: Space, workload: Workload) -> Space:
    """The strategies of a space in which the backbone has several stages."""
    periods = workload.backbone.periods
    return replace(space, stages=tuple(n for n in space.stages or range(1, periods + 1) if n > 1))


def backbone_families(space: Space, workload: Workload) -> Iterator[Strategy]:
    """All families: strategies with the backbone's plan alone."""
    for plans in backbone_plans(space, workload).values():
        yield from plan_families(space, workload, plans)


def plan_families(
    space: Space, workload: Workload, plans: Iterable[ParallelPlan]
) -> Iterator[Strategy]:
    """The families of some plans of the backbone."""
    for plan in plans:
        rows = workload.rows // plan.batch
        for microbatches in divisors_of(rows):
            for chunks in _chunk_choices(space, workload, plan):
                for remat, gather in product(space.remats, _gather_kinds(space, plan)):
                    yield Strategy(
                        {workload.backbone_name: plan},
                        microbatches,
                        {workload.backbone_name: chunks},
                        remat,
                        gather,
                        co_issue=False,
                        overlap=space.overlap if plan.stage == 1 else PARAMETERS,
                    )


def _gather_kinds(space: Space, plan: ParallelPlan) -> tuple[str, ...]:
    """Ways to gather: without stages always by layer; without fsdp nothing is gathered."""
    if plan.stage == 1 or plan.fsdp == 1:
        return ("step",)
    return space.gathers


def backbone_plans(space: Space, workload: Workload) -> dict[int, list[ParallelPlan]]:
    """Plans of the backbone by the number of devices that they use, the most first."""
    by_stages = defaultdict[int, list[ParallelPlan]](list)
    for plan in _list_backbone_plans(space, workload):
        if space.fits_plan(workload.backbone_name, plan) and _chunk_choices(space, workload, plan):
            by_stages[plan.devices].append(plan)
    return dict(sorted(by_stages.items(), reverse=True))


def _list_backbone_plans(space: Space, workload: Workload) -> Iterator[ParallelPlan]:
    periods = workload.backbone.periods
    degrees = range(1, space.devices + 1)
    rows = space.contexts or degrees, space.tensors or degrees
    groups = [(c, t) for c, t in product(*rows) if c * t <= (space.domain or space.devices)]
    stages = space.stages or range(1, periods + 1)
    for (context, tensor), stage, batch in product(groups, stages, divisors_of(workload.rows)):
        inner = stage * context * tensor
        if stage > periods or not space.uses_devices(inner * batch):
            continue
        for expert in (n for n in space.experts if batch % n == 0):
            backbone_degrees = {
                "stage": stage,
                "expert": expert,
                "context": context,
                "tensor": tensor,
            }
            for fsdp in _fsdp_degrees(batch // expert, inner * expert):
                yield ParallelPlan(data=batch // expert // fsdp, fsdp=fsdp, **backbone_degrees)


def _fsdp_degrees(batch: int, inner: int) -> list[int]:
    """Degrees of fsdp that are tried: 1, all ranks, and as many as stay within 64 devices."""
    near = [n for n in divisors_of(batch) if n * inner <= 64]
    return sorted({1, batch, max(near, default=1)})


def _chunk_choices(space: Space, workload: Workload, plan: ParallelPlan) -> list[int]:
    periods = workload.backbone.periods
    if plan.stage == 1:
        return [1]
    if space.pad:
        most = -(-periods // plan.stage)
        counts = [v for v in range(1, most + 1) if -(-periods // (plan.stage * v)) * v <= most + v]
    else:
        counts = divisors_of(periods // plan.stage) if periods % plan.stage == 0 else []
    backbone = workload.backbone
    holds = [v for v in counts if backbone.per_run(plan.stage * v) >= backbone.side_inputs]
    return [v for v in holds if space.chunks is None or v in space.chunks]


def encoder_plans(
    space: Space, workload: Workload, family: Strategy, name: str
) -> list[ParallelPlan]:
    """Plans of a source that share a grid with the backbone's plan in `family`.

    Its stages divide the backbone's, and so does its tensor degree (Optimus, section 4.1); or its
    context and tensor degrees are the backbone's. Wider groups would compute as much on every
    device and communicate more.
    """
    backbone, plans = family.backbone, []
    inner = {(1, tensor) for tensor in divisors_of(backbone.tensor)}
    inner.add((backbone.context, backbone.tensor))
    stages = [1] if workload.sources[name].intermediate_outputs else divisors_of(backbone.stage)
    degrees = [(stage, *inner_degrees) for stage in stages for inner_degrees in sorted(inner)]
    rows = workload.rows_of(name, family.microbatches)
    for stage, context, tensor in degrees:
        inner_degrees = {"stage": stage, "context": context, "tensor": tensor}
        batch = backbone.devices // (stage * context * tensor)
        inside = batch * stage // backbone.stage
        if workload.sources[name].periods % stage or (rows % inside and not space.spreads):
            continue
        for fsdp in sorted({1, backbone.fsdp, backbone.fsdp * backbone.expert, batch}):
            if batch % fsdp:
                continue
            plan = ParallelPlan(data=batch // fsdp, fsdp=fsdp, **inner_degrees)
            across = family.gather == "layer" and backbone.stage > 1 and fsdp > 1
            if space.fits_plan(name, plan) and not across and _share_grid(backbone, plan):
                plans.append(plan)
    return sorted(set(plans), key=str)


def _share_grid(backbone: ParallelPlan, plan: ParallelPlan) -> bool:
    """Whether both are views of one grid."""
    try:
        JointGrid.build({"backbone": backbone, "source": plan})
    except PlanError:
        return False
    return True


def _split_alike(workload: Workload, plans: Mapping[str, ParallelPlan], *, evaluates: bool) -> bool:
    """Whether the buckets of every encoder split its parameters alike.

    Args:
        evaluates: whether buckets must be alike in evaluation, too, where stages are part of fsdp.
    """
    buckets = workload.buckets
    if len(set(buckets.values())) == len(buckets):
        return True
    try:
        module_views(JointGrid.build(plans), buckets)
        if evaluates:
            module_views(JointGrid.build(without_stages(plans)), buckets)
    except PlanError:
        return False
    return True


def family_members(space: Space, workload: Workload, family: Strategy) -> Iterator[Strategy]:
    """All strategies of a family: plans of the encoders and placements of their work."""
    names = list(workload.sources)
    choices = [encoder_plans(space, workload, family, name) for name in names]
    placements: tuple[Placement, ...] = ("bubbles",)
    if family.backbone.stage > 1 and names:
        placements = space.placements
    for plans in product(*choices):
        plans_by_module = {**family.plans, **dict(zip(names, plans, strict=True))}
        if not _split_alike(workload, plans_by_module, evaluates=space.evaluates):
            continue
        co_issue = family.backbone.stage > 1 and has_collectives(plans_by_module, family.gather)
        for placement in placements:
            yield replace(family, plans=plans_by_module, co_issue=co_issue, placement=placement)
