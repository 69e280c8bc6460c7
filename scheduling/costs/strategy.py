"""How a step is run: the plans of its modules, and the settings of its schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import get_args

from scheduling.costs.workload import Workload
from scheduling.lowering.lowered import Remat
from scheduling.schedules.bubbles import Fill, Placement
from scheduling.schedules.kinds import SPLIT_BACKWARD
from scheduling.schedules.tasks import Feed, ModuleStages
from sharding.exchange_kinds import OverlapKind
from sharding.plan import ParallelPlan

#: The gather of parameters and the scatter of gradients, layer by layer.
PARAMETERS: frozenset[OverlapKind] = frozenset({"gather", "scatter"})


@dataclass(frozen=True)
class Strategy:
    """How a step is run.

    Attributes:
        plans: parallel plan of every module, the backbone's first, all over the same devices.
        microbatches: number of microbatches of a step.
        chunks: number of virtual chunks on each stage of every named module; others have one.
        remat: values that backwards compute again.
        remats: the same of modules that differ in it, by name.
        gather: whether parameters are gathered over fsdp once a `step` or `layer` by layer; without
            stages always by layer.
        placement: placement of the encoders' tasks, see `scheduling.schedules.bubbles`.
        max_waiting: most microbatches whose encoder outputs may wait in bubbles; None for twice the
            stages.
        co_issue: whether tasks of a fused task run side by side.
        kind: kind of the backbone's schedule, one of
            `scheduling.schedules.make.SCHEDULES`.
        fill: kinds of bubbles that take encoder work.
        prefetch: whether frozen encoders may work for the next step.
        overlap: collectives of layers that overlap with compute.
        keeps_microbatches: whether a step without stages keeps what backwards need of all
            microbatches, for a loss that waits for all of them.
    """

    plans: Mapping[str, ParallelPlan]
    microbatches: int = 1
    chunks: Mapping[str, int] = field(default_factory=dict)
    remat: Remat = "layer"
    gather: str = "step"
    placement: Placement = "bubbles"
    max_waiting: int | None = None
    co_issue: bool = True
    kind: str = "1f1b"
    fill: tuple[Fill, ...] = get_args(Fill)
    prefetch: bool = True
    remats: Mapping[str, Remat] = field(default_factory=dict)
    overlap: frozenset[OverlapKind] = PARAMETERS
    keeps_microbatches: bool = False

    @property
    def backbone_name(self) -> str:
        """Name of the backbone."""
        return next(iter(self.plans))

    @property
    def backbone(self) -> ParallelPlan:
        """The backbone's plan."""
        return self.plans[self.backbone_name]

    def chunks_of(self, name: str) -> int:
        """Number of virtual chunks of a module on each of its stages."""
        return self.chunks.get(name, 1)

    @property
    def backbone_chunks(self) -> int:
        """Number of virtual chunks of the backbone on each stage."""
        return self.chunks_of(self.backbone_name)

    def with_source_chunks(self, chunks: Mapping[str, int]) -> Strategy:
        """The same strategy in which no other modules than these, and the backbone, are named."""
        return replace(self, chunks={**chunks, self.backbone_name: self.backbone_chunks})

    def remat_of(self, name: str) -> Remat:
        """Values that the backwards of a module compute again."""
        return self.remats.get(name, self.remat)

    @property
    def forward_count(self) -> int:
        """Number of forwards of the backbone's chunks."""
        return self.microbatches * self.backbone_chunks * self.backbone.stage

    @property
    def split_backward(self) -> bool:
        """Whether the backbone's weight gradients are split from its backwards."""
        return self.kind in SPLIT_BACKWARD and self.backbone.stage > 1

    @property
    def by_layer(self) -> bool:
        """Whether layers gather their parameters one by one."""
        return self.backbone.stage == 1 or self.gather == "layer"


def has_collectives(plans: Mapping[str, ParallelPlan], gather: str) -> bool:
    """Whether layers have collectives that other tasks could hide; co-issue costs locality."""
    by_layer = gather == "layer"
    return any(plan.sequence > 1 or (by_layer and plan.fsdp > 1) for plan in plans.values())


def module_stages(workload: Workload, strategy: Strategy, name: str) -> ModuleStages:
    """How the work of encoder `name` is divided, and which of its chunks have a backward."""
    stages = strategy.plans[name].stage
    chunks = strategy.chunks_of(name) * stages
    trained = 0 if name in workload.frozen_connectors else 1
    if name not in workload.frozen:
        trained = chunks
    return ModuleStages(name, stages, chunks, first_backward=chunks - trained)


def module_feed(workload: Workload, name: str) -> Feed:
    """What the microbatches of encoder `name` feed at full load."""
    return Feed(name, per_target=workload.microbatch_counts.get(name, 1))
