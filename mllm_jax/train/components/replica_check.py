"""A microbatch is computed twice, by each replica and by its neighbour, and compared bit for bit.

The mesh is laid on the devices anew, so that each rank along the batch axes of the decoder lies on
the devices of the next one. The logical program, and with it every order of summation, is the same:
what a rank makes of its rows, before gradients are summed over replicas, must be the same in every
bit. Four replicas, of which the devices of replica 2 compute wrongly::

    rank                 0  1  2  3
    on its own devices   0  1  2  3      rank 2 differs: devices 2 or 3
    on the next ones     1  2  3  0      rank 1 differs: devices 1 or 2    -> devices 2

Parameters that replicas hold alike stay where they are, so that each uses its copy: a copy that
has changed shows, too. Which of two replicas is wrong is unknown. An exact comparison
needs collectives that sum by ranks, whatever devices these lie on; within a replica, those of one
host do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec
from numpy.typing import NDArray

from mllm_jax.runtime.compiled.synchronized import synchronize_program
from mllm_jax.runtime.folder import RunError
from mllm_jax.train.step.batch_placement import gather_to_host
from mllm_jax.train.step.build import rolled_step
from mllm_jax.train.step.gradient_program import Batch
from mllm_jax.train.step.plain import PlainProgram
from mllm_jax.train.step.step import TrainStep
from sharding.collectives import ppermute
from sharding.grid import Axes, JointGrid

#: Seeds of the two halves of a digest: binary digits of pi.
SEEDS = 0x243F6A88, 0x85A308D3


class CorruptionError(RunError):
    """Replicas that have computed different bits from the same rows."""


def check_replicas(check: ReplicaCheck, step: int, params: Any, batch: Batch) -> None:
    """Compare replicas before a step.

    Args:
        check: compares the replicas of the step.
        params, batch: those of the step, before it is taken.

    Raises:
        CorruptionError: they differ.
    """
    if difference := check(params, batch):
        raise CorruptionError(
            f"step {step}: {difference}. Take its machine out. What was trained since the look "
            "before (train.check_every) may be wrong: --from-step goes on from an earlier "
            "checkpoint"
        )


@dataclass(frozen=True)
class ReplicaDifference:
    """Ranks that differ, and the devices that may be at fault.

    Attributes:
        ranks: numbers of the ranks along the batch axes.
        suspects: the devices; all of one replica if these make their results together.
    """

    ranks: tuple[int, ...]
    suspects: tuple[jax.Device, ...]

    def __str__(self) -> str:
        names = [f"device {each.id} of process {each.process_index}" for each in self.suspects]
        ranks = f"rank{'s' * (len(self.ranks) > 1)} {', '.join(map(str, self.ranks))}"
        return (
            f"{' or '.join(names)} computes wrongly: what {ranks} computed from the "
            "same rows differs between replicas"
        )


class ReplicaCheck:
    """Compares the replicas of a step.

    Args:
        step: the step; its decoder is distributed over two ranks at least.
    """

    def __init__(self, step: TrainStep) -> None:
        self._step, self._axes = step, step.program.grid.backbone.batch_axes
        self._other = rolled_step(step, self._axes)

    def __call__(self, params: Any, batch: Batch) -> ReplicaDifference | None:
        """The difference of the replicas; None if all bits are equal.

        Args:
            params, batch: those of a step, before it is taken.
        """
        first = _first_microbatch(self._step, batch)
        digests = gather_to_host(self._digest_of(params, first))
        moved = self._move_to_neighbours(params, first)
        again = gather_to_host(self._digest_again(*moved))
        return self._find_difference(digests, again)

    @cached_property
    def _digest_of(self) -> Any:
        return synchronize_program("the check of replicas", _digest_program(self._step))

    @cached_property
    def _digest_again(self) -> Any:
        return synchronize_program(
            "the check of replicas by their neighbours", _digest_program(self._other)
        )

    @cached_property
    def _move_program(self) -> Any:
        """Moves what is distributed over replicas to the next one."""

        def move_leaf(params: Any, batch: Batch) -> Any:
            specs = self._input_specs(batch)
            return jax.tree.map(self._to_next, (params, batch), specs)

        def run_move(params: Any, batch: Batch) -> Any:
            specs = self._input_specs(batch)
            # Copies that were alike stay so, which types cannot tell; nothing is differentiated.
            return self._step.map_shards(move_leaf, specs, specs, typed=False)(params, batch)

        return synchronize_program("the move to the next replicas", jax.jit(run_move))

    def _input_specs(self, batch: Batch) -> Any:
        return self._step.state_specs["params"], self._step.program.batch_layout.specs(batch)

    def _to_next(self, x: jax.Array, spec: PartitionSpec) -> jax.Array:
        return ppermute(x, self._axes, 1) if _axis_names(spec) & {*self._axes} else x

    def _move_to_neighbours(self, params: Any, batch: Batch) -> Any:
        """The same logical arrays on the other mesh; no copy is taken from another replica."""
        specs, moved = self._input_specs(batch), self._move_program(params, batch)

        def place(array: jax.Array, moved: jax.Array, spec: PartitionSpec) -> jax.Array:
            source = moved if _axis_names(spec) & {*self._axes} else array
            shards = [shard.data for shard in source.addressable_shards]
            sharding = self._other.shardings(spec)
            return jax.make_array_from_single_device_arrays(source.shape, sharding, shards)

        return jax.tree.map(place, (params, batch), moved, specs)

    def _find_difference(
        self, digests: NDArray[np.uint32], again: NDArray[np.uint32]
    ) -> ReplicaDifference | None:
        """What differs between `[devices, leaves, halves]` digests of both meshes, in their order.

        The leaf that differs on the fewest ranks tells where: what one rank makes wrongly goes on
        to the encoders of others.
        """
        differs = (digests != again).any(-1)
        if not differs.any():
            return None
        counts = np.where(differs.any(0), differs.sum(0), len(differs) + 1)
        bad = np.flatnonzero(differs[:, counts.argmin()])
        first, second = self._step.devices, self._other.devices
        ranks = _ranks_of_devices(self._step.program.grid, self._axes)
        pairs = [{first[at], second[at]} for at in bad]
        common = _common_devices(pairs)
        suspects = sorted(common, key=lambda device: int(device.id))
        return ReplicaDifference(tuple(sorted({int(ranks[at]) for at in bad})), tuple(suspects))


def _common_devices(pairs: Sequence[set[jax.Device]]) -> set[jax.Device]:
    """Devices that explain the most differences."""
    counts = {device: sum(device in pair for pair in pairs) for device in set().union(*pairs)}
    most = max(counts.values())
    return {device for device, count in counts.items() if count == most}


def _first_microbatch(step: TrainStep, batch: Batch) -> Batch:
    """The first microbatch of a batch, where a program runs one after the other; else all."""
    if not isinstance(step.program, PlainProgram):
        return batch
    rows, routes = jax.tree.map(lambda x: x[:1], (batch.rows, batch.routes))
    return replace(batch, rows=rows, routes=routes)


def _axis_names(spec: PartitionSpec) -> set[str]:
    """Grid axes in a spec."""
    names = [axes if isinstance(axes, tuple) else (axes,) for axes in spec if axes is not None]
    return {name for axes in names for name in axes}


def _ranks_of_devices(grid: JointGrid, axes: Axes) -> NDArray[np.int64]:
    """By device in the order of the grid, its rank along `axes`."""
    names, sizes = zip(*grid.axes, strict=True)
    places = np.unravel_index(np.arange(grid.devices), sizes)
    ranks = np.zeros(grid.devices, np.int64)
    for axis in axes:
        number = names.index(axis)
        ranks = ranks * sizes[number] + places[number]
    return ranks


def _digest_program(step: TrainStep) -> Any:
    """`[devices, leaves, halves]`: digests of what every device makes of a batch, jitted."""
    everywhere = PartitionSpec(step.program.grid.backbone.all_axes)

    def digest_leaves(params: Any, batch: Batch) -> jax.Array:
        local = step.program.local_gradients(params, batch)
        leaves = jax.tree.leaves(local.gradients)  # the loss is a sum over replicas already
        return jnp.stack([_digest_leaf(leaf) for leaf in leaves])[None]

    return jax.jit(step.shard_over_mesh(digest_leaves, step.state_specs["params"], everywhere))


def _digest_leaf(x: jax.Array) -> jax.Array:
    """`[halves]`: 64 bits of all bits of `x` and their places, the same in any order of summation.

    A sum of products does not do: `2**31` times any odd number is the same modulo `2**32`, so that
    a second sign that flips undoes the first. What a place adds is no linear function of its bits.
    """
    bits = lax.bitcast_convert_type(x.astype(jnp.float32), jnp.uint32).reshape(-1)
    places = jnp.arange(bits.size, dtype=jnp.uint32)
    halves = [_mix_words(bits ^ _mix_words(places ^ jnp.uint32(seed))) for seed in SEEDS]
    return jnp.stack([jnp.sum(half, dtype=jnp.uint32) for half in halves])


def _mix_words(words: jax.Array) -> jax.Array:
    """Words of which each bit depends on all bits of the old ones (finalizer of MurmurHash3)."""
    words = (words ^ (words >> 16)) * jnp.uint32(0x85EBCA6B)
    words = (words ^ (words >> 13)) * jnp.uint32(0xC2B2AE35)
    return words ^ (words >> 16)
