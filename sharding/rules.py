"""Parameter layouts: logical axes of a leaf to axes of a module's view.

=========  ========  ==========================================================
logical    plan      meaning
=========  ========  ==========================================================
chunks     -         virtual chunks of a pipeline, each spread over all stages
layers     stage     stacked layers
embed      fsdp      the model width; gathered before use (ZeRO-3)
heads      tensor    attention heads
kv_heads   tensor    key and value heads, copied where there are fewer than ranks
mlp        tensor    hidden width
vocab      both      rows of the embedding, columns of the head: stage x tensor; padded
None       -         whole on every rank
=========  ========  ==========================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from sharding.collectives import all_gather_as
from sharding.grid import Axes, View

RULES: Mapping[str, str | None] = {
    "chunks": None,
    "layers": "stage",
    "embed": "fsdp",
    "heads": "tensor",
    "kv_heads": "kv_heads",
    "mlp": "tensor",
    "vocab": "vocab",
}

#: The logical axis whose dimension is padded with zeros to a multiple of its ranks.
PADDED = "vocab"
#: Logical axes that stack layers; the others are those of one layer's parameter.
STACKS = ("chunks", "layers")

LogicalAxes = tuple[str | None, ...]


@dataclass(frozen=True)
class Layout:
    """How one parameter lies on the grid; a leaf of the tree of layouts.

    Attributes:
        axes: logical axis of every dimension.
        view: view of the module that owns the parameter.
    """

    axes: LogicalAxes
    view: View

    @property
    def mesh_axes(self) -> tuple[Axes, ...]:
        """Grid axes that shard each dimension."""
        return tuple(mesh_axes(name, self.view) for name in self.axes)

    @property
    def spec(self) -> PartitionSpec:
        """For example `("layers", "embed", "mlp")` gives `P(None, ("fsdp",), ("tensor",))`."""
        return PartitionSpec(*[axes or None for axes in self.mesh_axes])

    def padded(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """`shape` as it is stored: the vocabulary rounded up to a multiple of its ranks."""
        ranks = self.view.degree(self.view.vocab)
        return tuple(
            -(-size // ranks) * ranks if name == PADDED else size
            for name, size in zip(self.axes, shape, strict=True)
        )

    @property
    def sharded(self) -> Axes:
        """All grid axes that shard the parameter."""
        return tuple(axis for axes in self.mesh_axes for axis in axes)

    @property
    def replicated(self) -> Axes:
        """The other grid axes: every rank along them holds the same values."""
        return tuple(axis for axis in self.view.all if axis not in self.sharded)


def is_axes(node: object) -> bool:
    """Whether `node` is a leaf of a tree of logical axes."""
    return isinstance(node, tuple)


def mesh_axes(name: str | None, view: View) -> Axes:
    """Grid axes over which a dimension with logical axis `name` is sharded.

    Raises:
        ValueError: `name` has no rule.
    """
    if name is None:
        return ()
    if name not in RULES:
        raise ValueError(f"logical axis {name!r} has no rule; valid: {', '.join(RULES)}")
    axis = RULES[name]
    return getattr(view, axis) if axis else ()


def layouts(axes: Any, view: View) -> Any:
    """A tree of logical axes as a tree of `Layout`."""
    return jax.tree.map(lambda leaf: Layout(leaf, view), axes, is_leaf=is_axes)


def gather_parameters(params: Any, axes: Any, view: View, dtype: jnp.dtype | None = None) -> Any:
    """Local shards to shards that are whole along fsdp.

    Args:
        params: tree of local arrays.
        axes: tree of logical axes, one tuple a leaf, without `"layers"` where a scan has taken it.
        view: view of the module that owns the parameters.
        dtype: in which what is sharded goes over the network and is returned, as it is used; None
            for its own. Gradients are summed in float32 all the same.
    """

    def leaf(names: LogicalAxes, x: jax.Array) -> jax.Array:
        if "embed" not in names:
            return x
        return all_gather_as(x, view.fsdp, names.index("embed"), dtype or x.dtype)

    return jax.tree.map(leaf, axes, params, is_leaf=is_axes) if view.fsdp else params
