"""Lanes: several views of one tower.

The parameters of a tower belong to it, and are stored once; lanes of it deal rows and positions of
their own. So the plans of its lanes may differ in data and context, and must split the parameters
over the same devices. Eight devices, an encoder with tensor 2::

    grid     data0 2    data1 2    tensor 2
    short    [      data      ]    [tensor]
    long     [data ]    [context]  [tensor]
"""

from __future__ import annotations

from collections.abc import Mapping

from sharding.grid import JointGrid, View
from sharding.plan import PlanError

#: Axes of a plan that split parameters.
HOLDING = ("fsdp", "stage", "expert", "tensor")


def tower_views(grid: JointGrid, lanes: Mapping[str, str]) -> dict[str, View]:
    """The view that lays out the parameters of each tower: that of its first lane.

    Args:
        grid: joint grid of the plans of all lanes.
        lanes: by the name of every lane, its tower.

    Raises:
        PlanError: two lanes of a tower would split its parameters in different ways.
    """
    views: dict[str, View] = {}
    for lane, tower in lanes.items():
        check_lane(grid, lanes, lane)
        views.setdefault(tower, grid.views[lane])
    return views


def check_lane(grid: JointGrid, lanes: Mapping[str, str], lane: str) -> None:
    """See that a lane splits the parameters of its tower as the tower's first lane does.

    Args:
        grid, lanes: as of `tower_views`.
        lane: name of the lane.

    Raises:
        PlanError: the lane's layout differs; the message names both plans and the axes.
    """
    tower = lanes[lane]
    first = next(name for name, own in lanes.items() if own == tower and name in grid.views)
    other = [axis for axis in HOLDING if _axes(grid, lane, axis) != _axes(grid, first, axis)]
    if other:
        raise PlanError(
            f"{lane}: {grid.plans[lane]} splits the parameters of {tower} in another way than "
            f"{grid.plans[first]} of {first}: {', '.join(other)} {_are(other)} over other devices",
            "lanes of one encoder differ in data and context alone",
        )


def _axes(grid: JointGrid, lane: str, axis: str) -> tuple[str, ...]:
    """Grid axes of more than one device, as those of one split nothing."""
    sizes, view = dict(grid.axes), grid.views[lane]
    return tuple(name for name in getattr(view, axis) if sizes[name] > 1)


def _are(names: list[str]) -> str:
    return "are" if len(names) > 1 else "is"
