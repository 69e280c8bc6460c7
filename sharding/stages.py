"""Views of the modules inside one stage of the decoder's pipeline.

The decoder's stages share out the work of all microbatches, so that inside a stage rows are dealt
over the remaining axes only. Eight devices, decoder data 2 x stage 4, encoder data 4 x stage 2::

    grid             data 2    stage0 2    stage1 2
    decoder          [data]    [      stage       ]
    encoder          [       data     ]    [stage ]
    inside a stage   [data]

Encoder pipelines (here two for each pipeline of the decoder) are numbered by `stage0`; the
microbatches are dealt over them by the schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sharding.grid import Axes, JointGrid, View
from sharding.plan import ParallelPlan, PlanError


@dataclass(frozen=True)
class StageViews:
    """Views that hold inside a stage.

    Attributes:
        views: module name to its view; the decoder's keeps its stages, over which its vocabulary is
            split.
        pipelines: encoder name to the stage axes that number its pipelines.
    """

    views: Mapping[str, View]
    pipelines: Mapping[str, Axes]

    @classmethod
    def build(cls, grid: JointGrid, gather: str) -> StageViews:
        """Views of `grid`.

        Args:
            gather: `step`, if parameters have been gathered over fsdp before the first tick;
                `layer`, if every layer gathers its own.

        Raises:
            PlanError: an encoder needs collectives between stages in the midst of its work.
        """
        decoder, encoders = grid.decoder, _encoders(grid)
        for name, view in encoders.items():
            _check(name, grid, view, gather)
        views = {"decoder": decoder}
        for name, view in encoders.items():
            data = tuple(axis for axis in view.data if axis not in decoder.stage)
            fsdp = tuple(axis for axis in view.fsdp if axis not in decoder.stage)
            views[name] = replace(view, data=data, fsdp=fsdp, stage=())
        if gather == "step":
            views = {n: replace(view, data=view.batch, fsdp=()) for n, view in views.items()}
        pipelines = {
            name: tuple(axis for axis in decoder.stage if axis not in view.stage)
            for name, view in encoders.items()
        }
        return cls(views, pipelines)


def _encoders(grid: JointGrid) -> dict[str, View]:
    return {name: view for name, view in grid.views.items() if name != "decoder"}


def _check(name: str, grid: JointGrid, view: View, gather: str) -> None:
    """An encoder's context, tensor and stage groups lie within the decoder's."""
    plan, decoder = grid.plans[name], grid.plans["decoder"]
    own = _degrees(plan)
    if not set(view.sequence) <= set(grid.decoder.sequence):
        raise PlanError(
            f"{name}: {own} reaches across the decoder's stages, which run "
            f"different tasks at a time; choose a divisor of the decoder's {_degrees(decoder)}"
        )
    if not set(view.stage) <= set(grid.decoder.stage):
        raise PlanError(
            f"{name}: stage {plan.stage} x {own} does not lie along the decoder's "
            f"stages; with stages of its own an encoder has {_degrees(decoder)} and a divisor "
            f"of the decoder's stage {decoder.stage}"
        )
    if gather == "layer" and set(view.fsdp) & set(grid.decoder.stage):
        raise PlanError(
            f"{name}: fsdp {plan.fsdp} reaches across the decoder's stages and cannot be gathered "
            "layer by layer; choose schedule.fsdp_gather: step, or data in place of fsdp"
        )


def _degrees(plan: ParallelPlan) -> str:
    context = f"context {plan.context} x " if plan.context > 1 else ""
    return f"{context}tensor {plan.tensor}"
