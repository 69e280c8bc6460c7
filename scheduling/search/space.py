"""The space of a plan search: the strategies that are enumerated, decoder first.

A family is a decoder's plan with its microbatches, chunks, rematerialisation and gather; its
members have all that the encoders may do beside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import get_args

from scheduling.costs.estimate import Strategy, Workload, communicates
from scheduling.programs.program import Remat
from scheduling.schedules.bubbles import Placement
from scheduling.schedules.schedule import MOST_FORWARDS, ScheduleError
from sharding.grid import JointGrid
from sharding.plan import ParallelPlan, PlanError, divisors
from sharding.stages import StageViews, without_stages

#: Placements of encoders that are tried; on the first stage is a baseline.
PLACEMENTS: tuple[Placement, ...] = ("prologue", "bubbles")


@dataclass(frozen=True)
class Need:
    """`size`, known to the user as `name`, is split over `axis` of the plan of `tower`."""

    tower: str
    name: str
    size: int
    axis: str


@dataclass(frozen=True)
class Space:
    """What is searched.

    Attributes:
        devices: how many there are; a strategy may use fewer.
        needs: what plans must divide.
        memory: bytes of a device that a step may take.
        counts: of devices that are used in what is tried, or None for all up to `devices`.
        stages, contexts, tensors, chunks: degrees that are tried, or None for all.
        domain: context and tensor groups stay within so many devices, or None for any.
        remats: policies that are tried.
        gathers: how parameters are gathered over fsdp.
        placements: of encoders.
        pad: layers need not divide by stages x chunks.
        unstaged: what plans must divide, too, once their stages are part of fsdp.
    """

    devices: int
    needs: tuple[Need, ...]
    memory: float
    counts: tuple[int, ...] | None = None
    stages: tuple[int, ...] | None = None
    contexts: tuple[int, ...] | None = None
    tensors: tuple[int, ...] | None = None
    domain: int | None = None
    chunks: tuple[int, ...] | None = None
    remats: tuple[Remat, ...] = get_args(Remat)
    gathers: tuple[str, ...] = ("step", "layer")
    placements: tuple[Placement, ...] = PLACEMENTS
    pad: bool = False
    unstaged: tuple[Need, ...] = ()

    def uses(self, devices: int) -> bool:
        """Whether strategies that use so many devices are tried."""
        return devices <= self.devices and (self.counts is None or devices in self.counts)

    def fits(self, tower: str, plan: ParallelPlan) -> bool:
        """Whether `plan` divides all that it must."""
        return _divides(self.needs, tower, plan)

    def check(self, strategy: Strategy) -> None:
        """Hold a member against what its plans must agree on together.

        Raises:
            ScheduleError: its plans are no views of one grid, or its schedule would be too long.
        """
        if strategy.tasks > MOST_FORWARDS and strategy.decoder.stage > 1:
            raise ScheduleError(f"more than {MOST_FORWARDS} forwards to schedule")
        if len(strategy.plans) > 1:
            try:
                StageViews.build(JointGrid.build(strategy.plans), strategy.gather)
            except PlanError as error:
                raise ScheduleError(str(error)) from None
        if self.unstaged:
            for name, plan in without_stages(strategy.plans).items():
                if plan != strategy.plans[name] and not _divides(self.unstaged, name, plan):
                    raise ScheduleError(f"fsdp x stage does not divide the parameters of {name}")


def _divides(needs: Iterable[Need], tower: str, plan: ParallelPlan) -> bool:
    own = (need for need in needs if need.tower == tower)
    return all(need.size % getattr(plan, need.axis) == 0 for need in own)


def decoders(space: Space, workload: Workload) -> Iterator[Strategy]:
    """All families: strategies with the decoder's plan alone."""
    for plans in decoder_plans(space, workload).values():
        yield from families(space, workload, plans)


def families(space: Space, workload: Workload, plans: Iterable[ParallelPlan]) -> Iterator[Strategy]:
    """The families of some plans of the decoder."""
    for plan in plans:
        rows = workload.rows // plan.batch
        for microbatches in divisors(rows):
            for chunks in _chunks(space, workload, plan):
                for remat, gather in product(space.remats, _gathers(space, plan)):
                    yield Strategy(
                        {"decoder": plan}, microbatches, chunks, remat, gather, co_issue=False
                    )


def _gathers(space: Space, plan: ParallelPlan) -> tuple[str, ...]:
    """Without stages layers always gather by themselves; without fsdp nothing is gathered."""
    if plan.stage == 1 or plan.fsdp == 1:
        return ("step",)
    return space.gathers


def decoder_plans(space: Space, workload: Workload) -> dict[int, list[ParallelPlan]]:
    """Plans of the decoder by how many devices they use, the most first."""
    found = defaultdict[int, list[ParallelPlan]](list)
    for plan in _decoder_plans(space, workload):
        if space.fits("decoder", plan) and _chunks(space, workload, plan):
            found[plan.devices].append(plan)
    return dict(sorted(found.items(), reverse=True))


def _decoder_plans(space: Space, workload: Workload) -> Iterator[ParallelPlan]:
    layers = workload.towers["decoder"].layers
    degrees = range(1, space.devices + 1)
    rows = space.contexts or degrees, space.tensors or degrees
    groups = [(c, t) for c, t in product(*rows) if c * t <= (space.domain or space.devices)]
    stages = space.stages or range(1, layers + 1)
    for (context, tensor), stage, batch in product(groups, stages, divisors(workload.rows)):
        inner = stage * context * tensor
        if stage > layers or not space.uses(inner * batch):
            continue
        own = {"stage": stage, "context": context, "tensor": tensor}
        for fsdp in _sharings(batch, inner):
            yield ParallelPlan(data=batch // fsdp, fsdp=fsdp, **own)


def _sharings(batch: int, inner: int) -> list[int]:
    """Degrees of fsdp: none, all ranks, and ranks as near as a few hosts."""
    near = [n for n in divisors(batch) if n * inner <= 64]
    return sorted({1, batch, max(near, default=1)})


def _chunks(space: Space, workload: Workload, plan: ParallelPlan) -> list[int]:
    layers = workload.towers["decoder"].layers
    if plan.stage == 1:
        return [1]
    if space.pad:
        most = -(-layers // plan.stage)
        found = [v for v in range(1, most + 1) if -(-layers // (plan.stage * v)) * v <= most + v]
    else:
        found = divisors(layers // plan.stage) if layers % plan.stage == 0 else []
    return [v for v in found if space.chunks is None or v in space.chunks]


def encoder_plans(
    space: Space, workload: Workload, family: Strategy, name: str
) -> list[ParallelPlan]:
    """Plans of an encoder beside the decoder of `family`.

    Its stages divide the decoder's, and so does its tensor degree (Optimus, section 4.1); or its
    context and tensor degrees are the decoder's. Wider groups would compute as much on every device
    and communicate more.
    """
    decoder, found = family.decoder, []
    inner = {(1, tensor) for tensor in divisors(decoder.tensor)}
    inner.add((decoder.context, decoder.tensor))
    degrees = [(stage, *own) for stage in divisors(decoder.stage) for own in sorted(inner)]
    rows = workload.rows // family.microbatches
    for stage, context, tensor in degrees:
        own = {"stage": stage, "context": context, "tensor": tensor}
        batch = decoder.devices // (stage * context * tensor)
        inside = batch * stage // decoder.stage
        if workload.encoders[name].layers % stage or rows % inside:
            continue
        for fsdp in sorted({1, decoder.fsdp, batch}):
            if batch % fsdp:
                continue
            plan = ParallelPlan(data=batch // fsdp, fsdp=fsdp, **own)
            across = family.gather == "layer" and decoder.stage > 1 and fsdp > 1
            if space.fits(name, plan) and not across and _refine(decoder, plan):
                found.append(plan)
    return sorted(set(found), key=str)


def _refine(decoder: ParallelPlan, plan: ParallelPlan) -> bool:
    """Whether both are views of one grid."""
    try:
        JointGrid.build({"decoder": decoder, "encoder": plan})
    except PlanError:
        return False
    return True


def members(space: Space, workload: Workload, family: Strategy) -> Iterator[Strategy]:
    """All strategies of a family: plans of the encoders and where their work goes."""
    names = list(workload.encoders)
    choices = [encoder_plans(space, workload, family, name) for name in names]
    placements: tuple[Placement, ...] = ("bubbles",)
    if family.decoder.stage > 1 and names:
        placements = space.placements
    for plans in product(*choices):
        own = {"decoder": family.decoder, **dict(zip(names, plans, strict=True))}
        co_issue = family.decoder.stage > 1 and communicates(own, family.gather)
        for placement in placements:
            yield replace(family, plans=own, co_issue=co_issue, placement=placement)
