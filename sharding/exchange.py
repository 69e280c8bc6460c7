"""Encoder outputs from the encoder's ranks to the backbone's, by one of three exchanges.

Rows of a batch are split over the leading axes of the grid by every plan, so one plan's share of
rows lies inside the other's. The *block* is the larger share: all rows that a backbone rank needs
are held by the ranks of its block, as long as media are in the rows of their samples::

    encoder data 4        row 0 | row 1 | row 2 | row 3
    decoder data 2             block 0  |    block 1

If balancing has assigned source rows and target rows independently, all ranks are one block. Each
exchange takes the outputs of this rank to the tokens of this rank, and zero where none is merged:

- `gather`: the ranks of a block gather all of their outputs, and each picks those of its
  tokens. Bytes grow with the rows of the encoder.
- `reduce_scatter`: each rank puts its outputs into an array of all tokens of the block, which is
  zero elsewhere, and the arrays are summed and scattered. Bytes grow with the rows of the backbone.
- `all_to_all`: every output goes straight from the device that made it to the one that needs it, by
  routes from the host (`sharding.routes`). The all-to-all is ragged, so that only outputs are sent;
  on CPUs, which lack the ragged collective, every pair of devices has slots for the most outputs
  that it can move.

The backward of each is its transpose: the gradient of an output is picked where the output went;
gathers become reduce-scatters, and reduce-scatters gathers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from sharding import collectives
from sharding.collectives import all_gather, axis_index, axis_size, shard_slice
from sharding.grid import Axes, MeshView


def shared_axes(source: MeshView, target: MeshView) -> Axes:
    """Axes that number the blocks: the leading axes that split the rows of both modules."""
    a, b = source.batch_axes, target.batch_axes
    return a if len(a) < len(b) else b  # one is a prefix of the other by construction


def gather_outputs(
    outputs: jax.Array, index: jax.Array, source: MeshView, target: MeshView, shared: Axes
) -> jax.Array:
    """Move encoder outputs to their backbone positions by a gather of all outputs of a block.

    Args:
        outputs: `[source rows, outputs / source shards, d_model]`, local to this rank and
            sharded along the row over the encoder's sequence axes (context, then tensor).
        index: `[target rows, tokens]`, local rows; `row * outputs + offset` counted over the
            whole batch, none of them twice, or -1 where no output is merged.
        source: view of the encoder.
        target: view of the backbone.
        shared: `shared_axes` where outputs stay within blocks; none where all ranks are one block.

    Returns:
        `[target rows, tokens / target shards, d_model]`; zero where `index` is -1.
    """
    gathered = all_gather(outputs, source.sequence_axes, dim=1)
    block = all_gather(gathered, source.batch_axes[len(shared) :], dim=0)
    rows, length, width = block.shape
    offset = axis_index(shared) * rows * length
    local = shard_slice(index, target.sequence_axes, dim=1)
    picked = jnp.where(local >= 0, local - offset, rows * length)
    return _pick_rows(block.reshape(rows * length, width), picked)


def scatter_outputs(
    outputs: jax.Array, index: jax.Array, source: MeshView, target: MeshView, shared: Axes
) -> jax.Array:
    """Move encoder outputs to their backbone positions by sums over a block; see `gather`.

    At most one rank has an output for a token, so that the sums are exact.
    """
    rows, length, width = outputs.shape
    block = all_gather(index, target.batch_axes[len(shared) :], dim=0)
    row, offset = jnp.divmod(block, length * axis_size(source.sequence_axes))
    row = row - axis_index(source.batch_axes) * rows
    offset = offset - axis_index(source.sequence_axes) * length
    is_local = (block >= 0) & (row >= 0) & (row < rows) & (offset >= 0) & (offset < length)
    picked = jnp.where(is_local, row * length + offset, rows * length)
    sparse = _pick_rows(outputs.reshape(rows * length, width), picked)
    sums = collectives.reduce_scatter(sparse, target.sequence_axes, dim=1)
    return collectives.reduce_scatter(sums, target.batch_axes[len(shared) :], dim=0)


def is_ragged(mesh: Mesh, axes: Axes) -> bool:
    """Whether routes over `axes` of `mesh` are ragged: not on CPUs, which lack the collective.

    A single device has nothing to move; its slots have no padding either.
    """
    devices = math.prod(mesh.shape[axis] for axis in axes)
    return devices > 1 and mesh.devices.flat[0].platform != "cpu"


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RouteArrays:
    """Routes of the outputs of one bucket, int32; arrays that its exchange does not need are None.

    Attributes:
        count: `[]`, number of outputs that are merged.
        index: `[target rows, tokens]`, as of `gather`; None for an all-to-all.
        picks: `[devices, entries]`, indices of the outputs that a device sends, in the order of the
            receiving devices.
        slices: `[devices, 4, devices]`, see `ragged_all_to_all`; None unless routes are ragged.
        receive: `[target rows, tokens]`, index of the received output that is merged at every
            token of a device.
    """

    count: Any
    index: Any = None
    picks: Any = None
    slices: Any = None
    receive: Any = None

    @property
    def of_device(self) -> RouteArrays:
        """The routes of one device, of which local shards have one entry for devices."""
        slices = None if self.slices is None else self.slices[0]
        return replace(self, picks=self.picks[0], slices=slices)


def route_outputs(outputs: jax.Array, routes: RouteArrays, axes: Axes) -> jax.Array:
    """Move encoder outputs from any device to any other; see `sharding.routes`.

    Args:
        outputs: `[source rows, outputs, d_model]`, the outputs of this device.
        routes: routes of this device, see `RouteArrays.of_device`.
        axes: grid axes that number the devices.

    Returns:
        `[target rows, tokens, d_model]`; zero where nothing is merged.
    """
    flat = outputs.reshape(-1, outputs.shape[-1])
    sent = _pick_rows(flat, routes.picks)
    if routes.slices is not None:
        entries = min(routes.receive.size, axis_size(axes) * len(flat))
        received = collectives.ragged_all_to_all(sent, routes.slices, entries, axes)
    else:
        received = collectives.all_to_all(sent, axes)
    return _pick_rows(received, routes.receive)


@jax.custom_vjp
def _pick_rows(values: jax.Array, index: jax.Array) -> jax.Array:
    """`values[index]`, zero where an index is beyond them; no value is picked twice.

    Every output goes to one place, so that its gradient is picked as well: a sum over places,
    which accelerators make one by one, is not needed.
    """
    return values.at[index].get(mode="fill", fill_value=0)


def _pick_rows_forward(values: jax.Array, index: jax.Array) -> tuple[jax.Array, jax.Array]:
    places = jnp.arange(index.size, dtype=jnp.int32)
    nowhere = jnp.full(len(values), index.size, jnp.int32)
    inverse = nowhere.at[index.reshape(-1)].set(places, mode="drop")
    return _pick_rows(values, index), inverse


def _pick_rows_backward(inverse: jax.Array, gradient: jax.Array) -> tuple[jax.Array, None]:
    return _pick_rows(gradient.reshape(-1, gradient.shape[-1]), inverse), None


_pick_rows.defvjp(_pick_rows_forward, _pick_rows_backward)
