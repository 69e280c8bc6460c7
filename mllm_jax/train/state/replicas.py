"""Checkpoints are read once for all replicas, and sent to the others over the devices' network.

A leaf that several processes hold alike is read by the devices of one replica only, and the others
have zeros. The sum over the replicas, of the bits as whole numbers, then is the leaf everywhere::

    process 0, data 0    read   [ 1.5 -0.0 ]                   sum     [ 1.5 -0.0 ]
    process 1, data 1    zeros  [ 0    0   ]    of uint32  --------->  [ 1.5 -0.0 ]

Replicas take turns, leaf by leaf, so that all of them read. (MegaScale, NSDI 2024, section 4.4.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mllm_jax.runtime.compiled.synchronized import synchronize_program
from mllm_jax.train.state.regroup import leaf_name
from mllm_jax.train.state.snapshots.array_box import processes_by_part

#: Bytes of the smallest leaf that is sent: less is read sooner by all.
SMALLEST = 2**20


@dataclass(frozen=True)
class SharedLeaf:
    """A leaf that one replica reads.

    Attributes:
        leaf: the leaf as all devices are to hold it.
        axes: axes of the mesh along which it is repeated.
        turn: number of the replica that reads it.
    """

    leaf: jax.ShapeDtypeStruct
    axes: tuple[str, ...]
    turn: int

    @property
    def mesh(self) -> Mesh:
        """All devices."""
        mesh: Mesh = self.leaf.sharding.mesh
        return mesh

    @property
    def spec(self) -> PartitionSpec:
        """The spec of the leaf's sharding."""
        return PartitionSpec(*self.leaf.sharding.spec)

    @property
    def count(self) -> int:
        """Number of replicas."""
        return math.prod(self.mesh.shape[axis] for axis in self.axes)

    @property
    def reading_target(self) -> jax.ShapeDtypeStruct:
        """The leaf on the devices of the replica that reads it."""
        names = self.mesh.axis_names
        sizes = [self.mesh.shape[axis] for axis in self.axes]
        place = dict(zip(self.axes, np.unravel_index(self.turn, sizes), strict=True))
        devices = self.mesh.devices[tuple(place.get(axis, slice(None)) for axis in names)]
        left = Mesh(devices, tuple(axis for axis in names if axis not in self.axes))
        sharding = NamedSharding(left, self.spec)
        return jax.ShapeDtypeStruct(self.leaf.shape, self.leaf.dtype, sharding=sharding)

    @property
    def is_read_here(self) -> bool:
        """Whether devices of this process read it."""
        return bool(self.reading_target.sharding.addressable_devices)

    def stack_replicas(self, read: Any) -> jax.Array:
        """`[replicas, ...]`: the leaf as this process has read it, and zeros."""
        sharding = NamedSharding(self.mesh, PartitionSpec(self.axes, *self.spec))
        by_device = (
            {} if not self.is_read_here else {s.device: s.data for s in read.addressable_shards}
        )
        shape = (1, *self.leaf.sharding.shard_shape(self.leaf.shape))
        shards = [
            by_device[device].reshape(shape)
            if device in by_device
            else jax.device_put(np.zeros(shape, self.leaf.dtype), device)
            for device in self.mesh.local_devices
        ]
        stacked_shape = (self.count, *self.leaf.shape)
        return jax.make_array_from_single_device_arrays(stacked_shape, sharding, shards)


def _spans_processes(leaf: jax.ShapeDtypeStruct) -> bool:
    """Whether several processes hold the same part of a leaf."""
    return any(len(processes) > 1 for processes in processes_by_part(leaf).values())


@dataclass(frozen=True)
class ReplicaReads:
    """The leaves of a state that each process reads.

    Attributes:
        target: tree of `jax.ShapeDtypeStruct`, as the devices are to hold it.
        shared: leaves that one replica reads, by name.
    """

    target: Any
    shared: dict[str, SharedLeaf]

    @classmethod
    def from_target(
        cls, target: Any, crosses: Callable[[jax.ShapeDtypeStruct], bool] = _spans_processes
    ) -> ReplicaReads:
        """The reading of a state.

        Args:
            crosses: whether several processes hold the same part of a leaf.
        """
        shared: dict[str, SharedLeaf] = {}
        for path, leaf in jax.tree_util.tree_leaves_with_path(target):
            axes = _repeated_axes(leaf)
            if axes and leaf.size * leaf.dtype.itemsize >= SMALLEST and crosses(leaf):
                shared_leaf = SharedLeaf(leaf, axes, 0)
                shared[leaf_name(path)] = SharedLeaf(leaf, axes, len(shared) % shared_leaf.count)
        return cls(target, shared)

    @property
    def local_target(self) -> Any:
        """The leaves that this process reads, with placeholders for all others."""

        def leaf(path: Any, target: jax.ShapeDtypeStruct) -> Any:
            shared_leaf = self.shared.get(leaf_name(path))
            if shared_leaf is None:
                return target
            return shared_leaf.reading_target if shared_leaf.is_read_here else ocp.PLACEHOLDER

        return jax.tree_util.tree_map_with_path(leaf, self.target)

    def send_to_all(self, read: Any) -> Any:
        """Send the leaves that each process has read to all devices; all processes call it."""
        if not self.shared:
            return read
        paths, tree = jax.tree_util.tree_flatten_with_path(read, is_leaf=_is_placeholder)
        leaves = {leaf_name(path): leaf for path, leaf in paths}
        stacked = {
            name: shared_leaf.stack_replicas(leaves[name])
            for name, shared_leaf in self.shared.items()
        }
        shardings = {name: shared_leaf.leaf.sharding for name, shared_leaf in self.shared.items()}
        program = jax.jit(
            partial(jax.tree.map, _sum_bits), out_shardings=shardings, donate_argnums=0
        )
        leaves |= synchronize_program("the sending of a checkpoint", program)(stacked)
        return jax.tree.unflatten(tree, list(leaves.values()))


def _repeated_axes(leaf: jax.ShapeDtypeStruct) -> tuple[str, ...]:
    """Axes of the mesh along which a leaf is repeated; none for those that cannot be summed."""
    if leaf.dtype.itemsize > 4:
        return ()
    sharding = leaf.sharding
    assert isinstance(sharding, NamedSharding), "as all of a run's state"
    used = {axis for entry in sharding.spec for axis in _axis_names(entry)}
    return tuple(
        a for a in sharding.mesh.axis_names if a not in used and sharding.mesh.shape[a] > 1
    )


def _axis_names(entry: Any) -> tuple[str, ...]:
    return (entry,) if isinstance(entry, str) else tuple(entry or ())


def _is_placeholder(leaf: Any) -> bool:
    return leaf is ocp.PLACEHOLDER


def _sum_bits(stacked: jax.Array) -> jax.Array:
    """The sum over replicas of the bits, all but one of which are zeros."""
    bits = jnp.dtype(f"uint{8 * stacked.dtype.itemsize}")
    sums = jax.lax.bitcast_convert_type(stacked, bits).astype(jnp.uint32).sum(0, jnp.uint32)
    return jax.lax.bitcast_convert_type(sums.astype(bits), stacked.dtype)
