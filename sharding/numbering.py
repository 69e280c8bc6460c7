"""How a plan numbers the devices: the digits of a device's number that are the ranks of an axis.

Every plan numbers the devices in mixed radix, data slowest and tensor fastest. Beside a backbone
with stages an encoder does so inside a stage, and its own stages lie along the backbone's. Sixteen
devices, the backbone's data 2 x stage 4 x tensor 2::

    backbone              data 2 | stage 4             | tensor 2
    encoder data 4,       data   | data      | stage 2 |      data
            stage 2
    encoder data 4,       tensor | data                |    tensor
            tensor 4

Other orders are impossible: stages run different tasks at a time, so that the ranks of an expert,
context or tensor group must be on one stage.
"""

from __future__ import annotations

from functools import lru_cache

from sharding.plan import AXES, ParallelPlan, PlanError

#: Digits of a device's number: `number // low % (high // low)`, as `(low, high)`.
Span = tuple[int, int]


@lru_cache(2**14)
def spans_by_axis(plan: ParallelPlan, backbone: ParallelPlan) -> dict[str, tuple[Span, ...]]:
    """Spans of every axis of a module's `plan` with that of the backbone, slowest first.

    Raises:
        PlanError: the plan's groups do not fit the backbone's stages.
    """
    left = _digit_order(plan, backbone)
    spans = dict[str, tuple[Span, ...]]()
    for axis, degree in zip(AXES, plan.degrees, strict=True):
        axis_spans = list[Span]()
        while degree > 1:
            low, high = left.pop(0)
            size = high // low
            if size % degree and degree % size:
                raise PlanError(overlap_reason(plan, degree, size))
            part = min(size, degree)
            axis_spans.append((high // part, high))
            if part < size:
                left.insert(0, (low, high // part))
            degree //= part
        spans[axis] = tuple(axis_spans)
    return spans


def _digit_order(plan: ParallelPlan, backbone: ParallelPlan) -> list[Span]:
    """The digits in the order in which `plan` counts them, slowest first."""
    if backbone.stage == 1 or plan == backbone:
        return [(1, backbone.devices)] if backbone.devices > 1 else []
    _check_plan(plan, backbone)
    inner, top = backbone.inner_devices, backbone.inner_devices * backbone.stage
    low, beyond = min(plan.inner_devices, inner), max(plan.inner_devices // inner, 1)
    rows = [(top * beyond, backbone.devices), (inner * plan.stage, top), (low, inner)]
    stages = (inner, inner * plan.stage)
    return [s for s in (*rows, stages, (top, top * beyond), (1, low)) if s[0] < s[1]]


def _check_plan(plan: ParallelPlan, backbone: ParallelPlan) -> None:
    if backbone.stage % plan.stage:
        raise PlanError(
            f"stage {plan.stage} does not divide the backbone's stage {backbone.stage}, along "
            "which it lies"
        )
    most = backbone.devices // backbone.stage
    if plan.inner_devices > most:
        raise PlanError(
            f"{plan.groups} reaches across the backbone's stages, which run different tasks at a "
            f"time; a stage has {most} device{'s' * (most > 1)}"
        )
    large, small = (
        max(plan.inner_devices, backbone.inner_devices),
        min(plan.inner_devices, backbone.inner_devices),
    )
    if large % small or most % large:
        raise PlanError(overlap_reason(plan, large, small))


def overlap_reason(plan: ParallelPlan, one: int, other: int) -> str:
    """Why groups of `one` and `other` devices, of `plan` and another plan, are not of one grid."""
    return (
        f"{plan} does not refine with the other plans: groups of {min(one, other)} and of "
        f"{max(one, other)} neighbouring devices overlap without one containing the other"
    )
