"""Parameters that the length buckets of a module share, each of which has a view of the grid.

A module stores its parameters once, and each of its buckets splits rows and positions as its plan
says. So the plans of buckets may differ in data and context, and must split the parameters over the
same devices. Eight devices, an encoder with tensor 2::

    grid     data0 2    data1 2    tensor 2
    short    [      data      ]    [tensor]
    long     [data ]    [context]  [tensor]
"""

from __future__ import annotations

from collections.abc import Mapping

from sharding.grid import JointGrid, MeshView
from sharding.plan import PlanError

#: Axes of a plan that split parameters.
PARAMETER_AXES = ("fsdp", "stage", "expert", "tensor")


def module_views(grid: JointGrid, buckets: Mapping[str, str]) -> dict[str, MeshView]:
    """The view that lays out the parameters of each module: that of its first bucket.

    Args:
        grid: joint grid of the plans of all buckets.
        buckets: by the name of every bucket, its module.

    Raises:
        PlanError: two buckets of a module would split its parameters in different ways.
    """
    views: dict[str, MeshView] = {}
    for bucket, module in buckets.items():
        check_bucket(grid, buckets, bucket)
        views.setdefault(module, grid.views[bucket])
    return views


def check_bucket(grid: JointGrid, buckets: Mapping[str, str], bucket: str) -> None:
    """Check that a bucket splits the parameters of its module as the module's first bucket does.

    Args:
        grid, buckets: as of `module_views`.
        bucket: name of the bucket.

    Raises:
        PlanError: the bucket's layout differs; the message names both plans and the axes.
    """
    module = buckets[bucket]
    of_module = (name for name, other in buckets.items() if other == module)
    first = next(name for name in of_module if name in grid.views)
    differing = [
        axis
        for axis in PARAMETER_AXES
        if _split_axes(grid, bucket, axis) != _split_axes(grid, first, axis)
    ]
    if differing:
        verb = "are" if len(differing) > 1 else "is"
        raise PlanError(
            f"{bucket}: {grid.plans[bucket]} splits the parameters of {module} in another way than "
            f"{grid.plans[first]} of {first}: {', '.join(differing)} {verb} over other devices",
            "buckets of one encoder differ in data and context alone",
        )


def _split_axes(grid: JointGrid, bucket: str, axis: str) -> tuple[str, ...]:
    """Axes of more than one device, as those of one split nothing."""
    view = grid.views[bucket]
    return tuple(name for name in getattr(view, axis) if view.degree_of((name,)) > 1)
