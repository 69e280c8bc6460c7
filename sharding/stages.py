"""Views of the modules inside one stage of the backbone's pipeline.

The backbone's stages divide the work of all microbatches, so that inside a stage rows are split
over the remaining axes only. Eight devices, decoder data 2 x stage 4, encoder data 4 x stage 2::

    grid             data 2    stage0 2    stage1 2
    decoder          [data]    [      stage       ]
    encoder          [       data     ]    [stage ]
    inside a stage   [data]

Encoder pipelines (here two for each pipeline of the backbone) are numbered by `stage0`; the
microbatches are distributed over them by the schedule. Expert, context and tensor groups of all
modules lie inside a stage, see `sharding.numbering`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sharding.grid import Axes, JointGrid, MeshView
from sharding.plan import ParallelPlan, PlanError, PlanRequirement


@dataclass(frozen=True)
class StageViews:
    """Views that hold inside a stage.

    Attributes:
        views: module name to its view; the backbone's keeps its stages, over which its vocabulary
            is split.
        pipelines: encoder name to the stage axes that number its pipelines.
    """

    views: Mapping[str, MeshView]
    pipelines: Mapping[str, Axes]

    @classmethod
    def build(cls, grid: JointGrid, gather: str) -> StageViews:
        """Views of `grid`.

        Args:
            gather: `step` if parameters are gathered over fsdp before the first tick; `layer` if
                every layer gathers its own.

        Raises:
            PlanError: an encoder's layers would be gathered across stages during their work.
        """
        backbone, encoders = grid.backbone, _source_views(grid)
        for name, view in encoders.items():
            _check_gather(name, grid, view, gather)
        views = {grid.backbone_name: backbone}
        for name, view in encoders.items():
            data = tuple(axis for axis in view.data if axis not in backbone.stage)
            fsdp = tuple(axis for axis in view.fsdp if axis not in backbone.stage)
            views[name] = replace(view, data=data, fsdp=fsdp, stage=())
        if gather == "step":
            views = {name: view.gathered_view for name, view in views.items()}
        pipelines = {
            name: tuple(axis for axis in backbone.stage if axis not in view.stage)
            for name, view in encoders.items()
        }
        return cls(views, pipelines)


def _source_views(grid: JointGrid) -> dict[str, MeshView]:
    return {name: view for name, view in grid.views.items() if name != grid.backbone_name}


def without_stages(plans: Mapping[str, ParallelPlan]) -> dict[str, ParallelPlan]:
    """Plans for the same model without a pipeline: stages become part of fsdp.

    If groups of devices would overlap, all replicas become part of fsdp, too.
    """
    flat_plans = {name: plan.without_stages for name, plan in plans.items()}
    try:
        JointGrid.build(flat_plans)
    except PlanError:
        return {
            n: p.model_copy(update={"data": 1, "fsdp": p.data * p.fsdp})
            for n, p in flat_plans.items()
        }
    return flat_plans


def undivided_without_stages(
    plans: Mapping[str, ParallelPlan],
    flat_plans: Mapping[str, ParallelPlan],
    requirements: Mapping[str, Iterable[PlanRequirement]],
) -> Iterator[tuple[str, PlanRequirement, ParallelPlan]]:
    """Sizes that fsdp does not divide once the stages are part of it, with module and plan.

    Evaluation runs without a pipeline, under `flat_plans`.
    """
    for name, plan in flat_plans.items():
        for need in requirements[name] if plan != plans[name] else ():
            if need.axis == "fsdp" and not need.is_met(plan):
                yield name, need, plan


def _check_gather(name: str, grid: JointGrid, view: MeshView, gather: str) -> None:
    """Check that a layer's gather, in which no other stage takes part, stays inside a stage."""
    if gather == "layer" and set(view.fsdp) & set(grid.backbone.stage):
        raise PlanError(
            f"{name}: fsdp {grid.plans[name].fsdp} reaches across the stages of "
            f"{grid.backbone_name} and cannot be gathered layer by layer",
            "choose schedule.fsdp_gather: step, or data in place of fsdp",
        )
