"""The joint grid laid on devices, and arrays laid on the grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental.mesh_utils import create_device_mesh
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from sharding.grid import Axes, JointGrid
from sharding.plan import PlanError


def make_mesh(grid: JointGrid, devices: Sequence[jax.Device] | None = None) -> Mesh:
    """The one mesh of the program, by default over all present devices.

    Raises:
        PlanError: the number of devices differs from the grid's.
    """
    count = len(devices) if devices is not None else jax.device_count()
    if count != grid.devices:
        raise PlanError(
            f"the plans cover {grid.devices} devices but {count} are present; "
            f"choose plans whose degrees multiply to {count}"
        )
    names, sizes = zip(*grid.axes, strict=True)
    # An axis of the grid may be part of a dimension of a TPU's torus.
    laid = create_device_mesh(sizes, devices, allow_split_physical_axes=True)
    return Mesh(laid, names, axis_types=(AxisType.Auto,) * len(names))


def mesh_like(grid: JointGrid, mesh: Mesh) -> Mesh:
    """The mesh of `grid` over the devices of another one, in the same order."""
    names, sizes = zip(*grid.axes, strict=True)
    kinds = (AxisType.Auto,) * len(names)
    return Mesh(mesh.devices.reshape(sizes), names, axis_types=kinds)


def rolled_mesh(mesh: Mesh, axes: Axes) -> Mesh:
    """The same mesh, each rank along `axes` on the devices of the next one."""
    numbers = [mesh.axis_names.index(axis) for axis in axes]
    front = np.moveaxis(mesh.devices, numbers, range(len(numbers)))
    rolled = np.roll(front.reshape(-1, *front.shape[len(numbers) :]), -1, axis=0)
    devices = np.moveaxis(rolled.reshape(front.shape), range(len(numbers)), numbers)
    return Mesh(devices, mesh.axis_names, axis_types=mesh.axis_types)


def named_shardings(mesh: Mesh, specs: object) -> object:
    """`specs` (a tree of PartitionSpec) as NamedShardings on `mesh`."""
    return jax.tree.map(
        lambda spec: NamedSharding(mesh, spec),
        specs,
        is_leaf=lambda leaf: isinstance(leaf, PartitionSpec),
    )


def sharded_shapes(shapes: object, mesh: Mesh, specs: object) -> Any:
    """Shapes and types of `shapes` (a tree of arrays) with shardings: `specs` on `mesh`."""
    return jax.tree.map(
        lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
        shapes,
        named_shardings(mesh, specs),
    )


def group_by_mesh(leaves: Mapping[str, Any]) -> list[list[str]]:
    """Names of arrays, or of their shapes, that lie on the same mesh, in the order of the names."""
    names: dict[Any, list[str]] = {}
    for name, leaf in leaves.items():
        names.setdefault(leaf.sharding.mesh, []).append(name)
    return [*names.values()]
