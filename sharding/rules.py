"""Shardings of parameters: from logical axes (`sharding.axes`) to axes of a module's view."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from sharding.axes import LogicalAxes, logical_axis, stored_dimension
from sharding.collectives import all_gather_as
from sharding.grid import Axes, MeshView


@dataclass(frozen=True)
class ParameterSharding:
    """Sharding of one parameter on the grid; a leaf of a tree by parameters.

    Attributes:
        axes: logical axis of every dimension.
        view: view of the module that owns the parameter.
    """

    axes: LogicalAxes
    view: MeshView

    @property
    def mesh_axes(self) -> tuple[Axes, ...]:
        """Grid axes that shard each dimension."""
        return tuple(mesh_axes(name, self.view) for name in self.axes)

    @property
    def spec(self) -> PartitionSpec:
        """The partition of a parameter over the mesh.

        Example: `("layers", "embed", "mlp")` gives `P(None, ("fsdp",), ("tensor",))`.
        """
        return PartitionSpec(*[axes or None for axes in self.mesh_axes])

    def padded_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The stored `shape`: the vocabulary is rounded up to a multiple of its ranks."""
        dim = stored_dimension(self.axes, "padded")
        if dim is None:
            return shape
        ranks = self.view.degree_of(self.mesh_axes[dim])
        return (*shape[:dim], -(-shape[dim] // ranks) * ranks, *shape[dim + 1 :])

    @property
    def sharded(self) -> Axes:
        """All grid axes that shard the parameter."""
        return tuple(axis for axes in self.mesh_axes for axis in axes)

    @property
    def replicated(self) -> Axes:
        """The other grid axes: every rank along them holds the same values."""
        return tuple(axis for axis in self.view.all_axes if axis not in self.sharded)


def is_axes(node: object) -> bool:
    """Whether `node` is a leaf of a tree of logical axes."""
    return isinstance(node, tuple)


def mesh_axes(name: str | None, view: MeshView) -> Axes:
    """Grid axes over which a dimension with logical axis `name` is sharded.

    Raises:
        ValueError: `name` is unknown.
    """
    if name is None:
        return ()
    axis = logical_axis(name)
    copies = view.kv_replicas if axis.stored == "copied" else ()
    split_axes = chain.from_iterable(getattr(view, plan_axis) for plan_axis in axis.plan_axes)
    return tuple(mesh_axis for mesh_axis in split_axes if mesh_axis not in copies)


def parameter_shardings(axes: Any, view: MeshView) -> Any:
    """A tree of logical axes as a tree of `ParameterSharding`."""
    return jax.tree.map(lambda leaf: ParameterSharding(leaf, view), axes, is_leaf=is_axes)


def gather_parameters(
    params: Any, axes: Any, view: MeshView, dtype: jnp.dtype | None = None
) -> Any:
    """Local shards to shards that are whole along fsdp.

    Args:
        params: tree of local arrays.
        axes: tree of logical axes, one tuple a leaf, without `"layers"` where a scan has taken it.
        view: view of the module that owns the parameters.
        dtype: type in which sharded parameters are sent and returned; None for their own. Gradients
            are summed in float32 in any case.
    """

    def leaf(names: LogicalAxes, x: jax.Array) -> jax.Array:
        dim = stored_dimension(names, "gathered")
        if dim is None:
            return x
        return all_gather_as(x, mesh_axes(names[dim], view), dim, dtype or x.dtype)

    return jax.tree.map(leaf, axes, params, is_leaf=is_axes) if view.fsdp else params
