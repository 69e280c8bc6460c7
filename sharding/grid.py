"""The joint grid: one device mesh that every module's plan is a view of.

Each plan writes the device number in mixed radix, data slowest and tensor fastest; an encoder
beside stages counts within a stage first, see `sharding.numbering`. The grid is the common
refinement of all plans: every plan's axis is one or several of its axes. Sixteen devices,
decoder data 2 x stage 4 x tensor 2, encoder data 8 x tensor 2::

    grid       data 2   stage 4   tensor 2
    decoder    [data ]  [stage ]  [tensor]
    encoder    [     data     ]   [tensor]

Where a plan's boundary falls inside an axis of the backbone, that axis is split: decoder tensor 4
and encoder data 2 x tensor 2 give the grid ``tensor0 2, tensor1 2``. `mesh.py` lays it on devices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import Literal

from sharding.exchange_kinds import OverlapKind
from sharding.numbering import Span, overlap_reason, spans_by_axis
from sharding.plan import (
    AXES,
    POSITIONS,
    ROWS,
    ParallelPlan,
    PlanError,
    divisors_of,
    list_factorizations,
)

Axes = tuple[str, ...]
ReduceDtype = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class MeshView:
    """A plan's axes as grid axes; `MeshView()` is a single device.

    Attributes:
        data, fsdp, stage, expert, context, tensor: mesh axis names, slowest first.
        kv_replicas: the last of the tensor axes, along which ranks hold the same heads of keys and
            values, as there are fewer of these than ranks.
        overlap: collectives that overlap with compute.
        reduce_dtype: type in which partial sums of tensor ranks travel in forwards.
        sizes: `(name, size)` of every grid axis, those of other modules included.
    """

    data: Axes = ()
    fsdp: Axes = ()
    stage: Axes = ()
    expert: Axes = ()
    context: Axes = ()
    tensor: Axes = ()
    kv_replicas: Axes = ()
    overlap: frozenset[OverlapKind] = frozenset()
    reduce_dtype: ReduceDtype = "float32"
    sizes: tuple[tuple[str, int], ...] = ()

    @property
    def batch_axes(self) -> Axes:
        """Axes over which the rows of a batch are split."""
        return self._axes_along(ROWS)

    @property
    def vocab_axes(self) -> Axes:
        """Axes over which the vocabulary is split: all stages share embedding and head."""
        return self.stage + self.tensor

    @property
    def uses_rings(self) -> bool:
        """Whether products gather and scatter their rows in steps of a ring."""
        return "tensor" in self.overlap and bool(self.tensor)

    @property
    def gathered_view(self) -> MeshView:
        """The view of ranks that hold parameters whole along fsdp."""
        return replace(self, data=self.data + self.fsdp, fsdp=())

    @property
    def kv_head_axes(self) -> Axes:
        """Axes over which heads of keys and values are split."""
        return self.tensor[: len(self.tensor) - len(self.kv_replicas)]

    @property
    def sequence_axes(self) -> Axes:
        """Axes over which the positions of a row are split between the blocks of a layer."""
        return self._axes_along(POSITIONS)

    @property
    def token_axes(self) -> Axes:
        """Axes over which tokens are split where a tensor group has gathered its own."""
        return self.batch_axes + self.context

    @property
    def position_axes(self) -> Axes:
        """Axes over which rows or their positions are split, as the grid orders them."""
        return tuple(
            axis for axis in self.all_axes if axis in (*self.batch_axes, *self.sequence_axes)
        )

    def _axes_along(self, plan_axes: tuple[str, ...]) -> Axes:
        return tuple(name for axis in plan_axes for name in getattr(self, axis))

    @property
    def all_axes(self) -> Axes:
        """Every axis of the grid."""
        return tuple(name for name, _ in self.sizes)

    def degree_of(self, axes: Axes) -> int:
        """Number of devices along `axes`."""
        sizes = dict(self.sizes)
        return math.prod(sizes[axis] for axis in axes)


#: The views of all modules, by their names.
Views = Mapping[str, MeshView]


@dataclass(frozen=True)
class JointGrid:
    """The common refinement of the plans of all modules.

    Attributes:
        axes: `(name, size)` from the slowest to the fastest.
        plans: module name to plan; the backbone's, the first, gives the axes their names.
        views: module name to its `MeshView`.
    """

    axes: tuple[tuple[str, int], ...]
    plans: Mapping[str, ParallelPlan]
    views: Mapping[str, MeshView] = field(repr=False)

    @classmethod
    def build(
        cls,
        plans: Mapping[str, ParallelPlan],
        kv_heads: int | None = None,
        overlap: frozenset[OverlapKind] = frozenset(),
        reduce_dtype: ReduceDtype = "float32",
    ) -> JointGrid:
        """Refine `plans`.

        Args:
            plans: plans of all modules by name, the backbone's first.
            kv_heads: number of the backbone's heads of keys and values. If its tensor degree does
                not divide them, they are split as far as the grid allows, and copied beyond; None
                if every degree divides them.
            overlap: collectives that overlap with compute.
            reduce_dtype: as of `MeshView`.

        Raises:
            PlanError: the plans cover different numbers of devices, an encoder's groups reach
                across the backbone's stages, or groups of devices overlap without one containing
                the other; the message lists plans that fit.
        """
        first, backbone = next(iter(plans.items()))
        cuts, placed = _span_edges(backbone, backbone), dict[str, ParallelPlan]()
        for name, plan in plans.items():
            _check_device_count(name, plan, first, backbone)
            reason = _refusal_reason(plan, cuts, backbone)
            if reason is not None:
                raise PlanError(f"{name}: {reason}", _list_fitting_plans(placed))
            cuts |= _span_edges(plan, backbone)
            placed[name] = plan
        copies = 1 if kv_heads is None else _replica_count(kv_heads, backbone.tensor, cuts)
        axes = _name_axes(sorted(cuts | {copies}), backbone)
        views = {name: _make_view(plan, axes, backbone) for name, plan in plans.items()}
        views[first] = _with_replicas(views[first], copies)
        views = {
            name: replace(view, overlap=overlap, reduce_dtype=reduce_dtype)
            for name, view in views.items()
        }
        return cls(axes, dict(plans), views)

    @property
    def backbone_name(self) -> str:
        """Name of the backbone."""
        return next(iter(self.plans))

    @property
    def backbone(self) -> MeshView:
        """View of the backbone."""
        return self.views[self.backbone_name]

    @property
    def devices(self) -> int:
        """Number of devices of the grid."""
        return math.prod(size for _, size in self.axes)

    def __str__(self) -> str:
        lines = ["grid     " + " x ".join(f"{name} {size}" for name, size in self.axes)]
        for name, plan in self.plans.items():
            view = self.views[name]
            parts = [
                f"{axis}=({', '.join(getattr(view, axis))})"
                for axis in AXES
                if getattr(view, axis) and getattr(plan, axis) > 1
            ]
            lines.append(f"{name:<8} {' '.join(parts) or 'replicated'}")
        return "\n".join(lines)


def join_grids(grids: Sequence[JointGrid]) -> JointGrid:
    """The grid of the first group with the plans and views of all, each on its group's mesh."""
    plans = {name: plan for grid in grids for name, plan in grid.plans.items()}
    views: dict[str, MeshView] = {name: view for grid in grids for name, view in grid.views.items()}
    return replace(grids[0], plans=plans, views=views)


def refining_plans(
    backbone: ParallelPlan, others: Iterable[ParallelPlan] = ()
) -> list[ParallelPlan]:
    """Data x tensor plans that an encoder can have with `backbone`, widest data first.

    Args:
        others: plans of other encoders, which refine with the backbone's.
    """
    cuts = set[int]().union(*(_span_edges(plan, backbone) for plan in (backbone, *others)))
    plans = [ParallelPlan(data=d, tensor=t) for d, t in list_factorizations(backbone.devices, 2)]
    return [plan for plan in reversed(plans) if _refusal_reason(plan, cuts, backbone) is None]


def _span_edges(plan: ParallelPlan, backbone: ParallelPlan) -> set[int]:
    """Ends of all spans of a plan; data 2 x tensor 4 has the ends 1, 4 and 8."""
    spans = spans_by_axis(plan, backbone).values()
    edges = chain.from_iterable(chain.from_iterable(spans))
    return {1, backbone.devices, *edges}


def _first_clash(cuts: set[int]) -> tuple[int, int] | None:
    """The first two neighbouring cuts that do not divide one another."""
    return next(((a, b) for a, b in pairwise(sorted(cuts)) if b % a), None)


def _refusal_reason(plan: ParallelPlan, cuts: set[int], backbone: ParallelPlan) -> str | None:
    """Why `plan` is no view of a grid with axes between `cuts`; None if it is a view."""
    try:
        all_cuts = cuts | _span_edges(plan, backbone)
    except PlanError as error:
        return error.reason
    clash = _first_clash(all_cuts)
    return None if clash is None else overlap_reason(plan, *clash)


def _replica_count(kv_heads: int, tensor: int, cuts: set[int]) -> int:
    """Number of tensor ranks with the same heads: as few as the heads and other cuts allow."""
    splits = reversed(divisors_of(math.gcd(kv_heads, tensor)))
    return next(tensor // n for n in splits if _first_clash(cuts | {tensor // n}) is None)


def _with_replicas(view: MeshView, copies: int) -> MeshView:
    """`view` with the last of its tensor axes, of `copies` ranks in all, as its replicas of
    heads."""
    tails = (view.tensor[i:] for i in range(len(view.tensor) + 1))
    return replace(view, kv_replicas=next(tail for tail in tails if view.degree_of(tail) == copies))


def _check_device_count(name: str, plan: ParallelPlan, first: str, backbone: ParallelPlan) -> None:
    if plan.devices != backbone.devices:
        raise PlanError(
            f"{name}: {plan} covers {plan.devices} devices but the plan of {first} covers "
            f"{backbone.devices}, and every module lives on all devices",
            f"choose degrees that multiply to {backbone.devices}",
        )


def _list_fitting_plans(placed: Mapping[str, ParallelPlan]) -> str:
    """Plans that fit beside those of modules that are placed, the backbone's first."""
    (name, backbone), *_ = placed.items()
    fitting = "; ".join(map(str, refining_plans(backbone, placed.values())))
    others = " and other modules" if set(placed.values()) - {backbone} else ""
    return f"beside {name} {backbone}{others} these fit: {fitting}"


def _name_axes(cuts: list[int], backbone: ParallelPlan) -> tuple[tuple[str, int], ...]:
    """Grid axes, slowest first, named after the backbone's axis that they refine."""
    axes: list[tuple[str, int]] = []
    high = backbone.devices
    for axis, degree in zip(AXES, backbone.degrees, strict=True):
        low = high // degree
        inner = [c for c in cuts if low <= c <= high]
        pieces = [b // a for a, b in pairwise(inner)][::-1]
        names = [axis] if len(pieces) == 1 else [f"{axis}{i}" for i in range(len(pieces))]
        axes += zip(names, pieces, strict=True)
        high = low
    return tuple(axes) or (("data", 1),)


def _make_view(
    plan: ParallelPlan, axes: tuple[tuple[str, int], ...], backbone: ParallelPlan
) -> MeshView:
    """The grid's axes within the spans of the plan's axes."""
    placed, high = list[tuple[str, Span]](), backbone.devices
    for name, size in axes:
        placed.append((name, (high // size, high)))
        high //= size
    runs = {
        axis: tuple(n for low, high in spans for n, (a, b) in placed if low <= a and b <= high)
        for axis, spans in spans_by_axis(plan, backbone).items()
    }
    if backbone.devices == 1:  # nothing is split, yet it is split over "data"
        runs["data"] = tuple(name for name, _ in axes)
    data, fsdp, stage, expert, context, tensor = (runs[axis] for axis in AXES)
    return MeshView(data, fsdp, stage, expert, context, tensor, sizes=axes)
