"""Layouts of a state whose arrays have parts on all devices, of which every process writes its own.

A module's parameters are on the devices of its group, and perhaps on those of some processes alone;
checkpoints are written by all processes, and know no such arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

_AXIS = "device"


def spread_shapes(shapes: Any, meshes: Sequence[Mesh]) -> Any:
    """Shapes of a state, each in parts on the devices of all meshes if some process lacks a mesh.

    Args:
        shapes: shapes with the layouts that the state has.
        meshes: meshes of all groups.
    """
    holders = [{device.process_index for device in mesh.devices.flat} for mesh in meshes]
    if all(len(processes) == jax.process_count() for processes in holders):
        return shapes
    devices = np.concatenate([mesh.devices.reshape(-1) for mesh in meshes])
    everywhere = Mesh(devices, (_AXIS,))

    def spread(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        layout = NamedSharding(everywhere, _divide(leaf.shape, devices.size))
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=layout)

    return jax.tree.map(spread, shapes)


def shardings_of(shapes: Any) -> Any:
    """The layouts of shapes."""
    return jax.tree.map(lambda leaf: leaf.sharding, shapes)


def _divide(shape: tuple[int, ...], parts: int) -> PartitionSpec:
    """The first dimension in parts that can be divided; all of an array without such a one."""
    for number, size in enumerate(shape):
        if size and size % parts == 0:
            return PartitionSpec(*[None] * number, _AXIS)
    return PartitionSpec()
