"""Moves of arrays from the devices of one group to those of another.

In one process the runtime copies. Between processes there is a program over the devices of both
layouts, which every process that has some of them starts: all must start the same moves in the same
order. Each device holds its shard, or zeros of that shape; in every round
(`mllm_jax.train.step.mpmd.block_rounds`) blocks are permuted::

    device         0       1       2       3
    arguments    [a b]   [c d]   [0 0]   [0 0]      source layout: devices 0 and 1
    results      [0 0]   [0 0]   [a b]   [c d]      target layout: devices 2 and 3

A process without any of an array's devices has the array nevertheless, without shards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mllm_jax.train.step.mpmd.block_rounds import BlockRounds, plan_rounds
from mllm_jax.train.step.mpmd.compile import runs_on_shapes
from sharding.in_order import shard_map

_AXIS = "device"
#: Programs of moves that are kept.
_KEPT = 1024


class _Move(NamedTuple):
    """An array's shape, its layout, and the one that it shall have."""

    shape: tuple[int, ...]
    source: NamedSharding
    target: NamedSharding

    @property
    def devices(self) -> tuple[jax.Device, ...]:
        """The devices of both layouts."""
        both = *self.source.mesh.devices.flat, *self.target.mesh.devices.flat
        return tuple(dict.fromkeys(both))

    @property
    def crosses(self) -> bool:
        """Whether the layouts have other devices each, and those of several processes."""
        differ = self.source.device_set != self.target.device_set
        return differ and len({device.process_index for device in self.devices}) > 1


def transfer_arrays(tree: Any, layouts: Any) -> Any:
    """A tree of arrays as `layouts` has them, on other devices or on the same.

    Args:
        tree: arrays.
        layouts: a layout for each array, or for each subtree.
    """
    if runs_on_shapes():
        return _transfer_shapes(tree, layouts)
    if jax.process_count() == 1:
        return jax.device_put(tree, layouts)
    spread = jax.tree.map(lambda x, part: jax.tree.map(lambda _: x, part), layouts, tree)
    arrays, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, _transfer_leaves(arrays, jax.tree.leaves(spread)))


def _transfer_shapes(tree: Any, layouts: Any) -> Any:
    """`transfer_arrays` of shapes."""

    def moved(layout: NamedSharding, part: Any) -> Any:
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=layout), part)

    return jax.tree.map(moved, layouts, tree)


def place_values(values: Any, layout: NamedSharding) -> Any:
    """A tree of numpy arrays that all processes have, as arrays on devices.

    Args:
        values: the arrays.
        layout: their layout.
    """
    return jax.tree.map(
        lambda x: jax.make_array_from_callback(x.shape, layout, x.__getitem__, dtype=x.dtype),
        values,
    )


def share_arrays(tree: Any, meshes: Sequence[Mesh]) -> Any:
    """Arrays that every process can read, of some that all devices of the first mesh have.

    Args:
        tree: arrays with the same values on all devices of the first mesh.
        meshes: meshes that have all devices together.
    """
    readers = {device.process_index for device in meshes[0].devices.flat}
    if len(readers) == jax.process_count():
        return tree
    copies = [transfer_arrays(tree, NamedSharding(mesh, PartitionSpec())) for mesh in meshes]
    devices = np.concatenate([mesh.devices.reshape(-1) for mesh in meshes])
    layout = NamedSharding(Mesh(devices, (_AXIS,)), PartitionSpec())

    def join_copies(*copies: jax.Array) -> jax.Array:
        shards = [shard.data for copy in copies for shard in copy.addressable_shards]
        return _join_shards(copies[0], layout, shards)

    return jax.tree.map(join_copies, *copies)


def _transfer_leaves(
    arrays: Sequence[jax.Array], layouts: Sequence[NamedSharding]
) -> list[jax.Array]:
    """`transfer_arrays` of several processes; what goes the same way goes at once."""
    results, crossing = [*arrays], dict[tuple[jax.Device, ...], list[int]]()
    for number, (array, layout) in enumerate(zip(arrays, layouts, strict=True)):
        move = _move_of(array, layout)
        if move.crosses:
            crossing.setdefault(move.devices, []).append(number)
        else:
            results[number] = _copy_array(array, layout)
    for numbers in crossing.values():
        moved = permute_blocks([arrays[n] for n in numbers], [layouts[n] for n in numbers])
        for number, array in zip(numbers, moved, strict=True):
            results[number] = array
    return results


def _move_of(array: jax.Array, layout: NamedSharding) -> _Move:
    assert isinstance(array.sharding, NamedSharding)
    return _Move(array.shape, array.sharding, layout)


def _copy_array(array: jax.Array, layout: NamedSharding) -> jax.Array:
    """The array in another layout on the same devices, or on others of the same process."""
    if layout.addressable_devices:
        copied: jax.Array = jax.device_put(array, layout)
        return copied
    return _join_shards(array, layout, [])


def permute_blocks(
    arrays: Sequence[jax.Array], layouts: Sequence[NamedSharding]
) -> list[jax.Array]:
    """Arrays in other layouts, by one program over the devices of both.

    Args:
        arrays: arrays on the same devices.
        layouts: their layouts on devices all of which, or some, are others.
    """
    moves = tuple(map(_move_of, arrays, layouts))
    mesh = Mesh(np.array(moves[0].devices), (_AXIS,))
    if not mesh.local_devices:
        pairs = zip(arrays, layouts, strict=True)
        return [_join_shards(array, layout, []) for array, layout in pairs]
    moved = _move_program(mesh, moves)([_stack_shards(array, mesh) for array in arrays])
    return [
        _join_shards(array, layout, _shards_on(layout, stacked))
        for array, layout, stacked in zip(arrays, layouts, moved, strict=True)
    ]


def _stack_shards(array: jax.Array, mesh: Mesh) -> jax.Array:
    """Shards of the array `[devices, ...]`; zeros on devices that have none."""
    layout = NamedSharding(mesh, PartitionSpec(_AXIS))
    shape = array.sharding.shard_shape(array.shape)
    local = {shard.device: shard.data for shard in array.addressable_shards}
    shards = [
        local[device][None]
        if device in local
        else jnp.zeros((1, *shape), array.dtype, device=device)
        for device in mesh.local_devices
    ]
    stacked: jax.Array = jax.make_array_from_single_device_arrays(
        (mesh.size, *shape), layout, shards
    )
    return stacked


def _shards_on(layout: NamedSharding, stacked: jax.Array) -> list[jax.Array]:
    """The shards `[...]` of an array `[devices, ...]` on the devices of a layout."""
    shards = stacked.addressable_shards
    return [shard.data[0] for shard in shards if shard.device in layout.device_set]


def _join_shards(like: jax.Array, layout: NamedSharding, shards: Sequence[jax.Array]) -> jax.Array:
    """An array of the shape of `like` of the shards of this process."""
    joined: jax.Array = jax.make_array_from_single_device_arrays(
        like.shape, layout, shards, dtype=like.dtype
    )
    return joined


@lru_cache(_KEPT)
def _move_program(
    mesh: Mesh, moves: tuple[_Move, ...]
) -> Callable[[list[jax.Array]], list[jax.Array]]:
    """A program from shards `[devices, ...]` of arrays to those in their other layouts."""
    devices = [*mesh.devices.flat]
    plans = [plan_rounds(*move, devices) for move in moves]

    def run(shards: list[jax.Array]) -> list[jax.Array]:
        return [
            _run_rounds(plan, shard[0], move.target.shard_shape(move.shape), mesh.size)[None]
            for plan, shard, move in zip(plans, shards, moves, strict=True)
        ]

    spec = PartitionSpec(_AXIS)
    return jax.jit(shard_map(run, mesh=mesh, in_specs=spec, out_specs=spec))


def _run_rounds(
    plan: BlockRounds, shard: jax.Array, shape: tuple[int, ...], devices: int
) -> jax.Array:
    """The shard of this device once all blocks have moved; zeros where it receives none."""
    rank = lax.axis_index(_AXIS)
    result = lax.pcast(jnp.zeros(shape, shard.dtype), _AXIS, to="varying")
    for moves in plan.rounds:
        read, write = np.zeros((2, devices, len(shape)), np.int32)
        receives = np.zeros(devices, bool)
        for move in moves:
            read[move.source], write[move.target] = move.read, move.write
            receives[move.target] = True
        block = lax.dynamic_slice(shard, [*jnp.asarray(read)[rank]], plan.block)
        block = lax.ppermute(block, _AXIS, [(move.source, move.target) for move in moves])
        written = lax.dynamic_update_slice(result, block, [*jnp.asarray(write)[rank]])
        result = jnp.where(jnp.asarray(receives)[rank], written, result)
    return result
