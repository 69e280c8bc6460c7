"""Encoder outputs from the encoder's ranks to the decoder's.

Rows of a batch are dealt over the leading axes of the grid by every plan, so one plan's share of
rows lies inside the other's. The *block* is the larger share: all rows that a decoder rank needs
are held by the ranks of its block. The exchange gathers the outputs within the block and picks,
for every multimodal position, the output that lands there::

    encoder data 4        row 0 | row 1 | row 2 | row 3
    decoder data 2             block 0  |    block 1

The backward (scatter-add, then reduce-scatter) is its transpose, written by JAX.

Where balancing has dealt encoder rows and decoder rows each for itself there are no such blocks:
`exchange_by_routes` moves every output from the device that made it straight to the one that needs
it, in one all-to-all.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from sharding.collectives import all_gather, all_to_all, axis_index, shard_slice
from sharding.grid import Axes, View


def exchange(outputs: jax.Array, index: jax.Array, source: View, target: View) -> jax.Array:
    """Move encoder outputs to the decoder positions where they belong.

    Args:
        outputs: `[encoder rows, outputs / source tensor, d_model]`, local to this rank and
            sharded along the row over the encoder's tensor axes.
        index: `[decoder rows, tokens]`, local rows; `row * outputs + offset` counted over the
            whole batch, or -1 where no encoder output lands.
        source: view of the encoder.
        target: view of the decoder.

    Returns:
        `[decoder rows, tokens / target tensor, d_model]`; zero where `index` is -1.
    """
    whole = all_gather(outputs, source.tensor, dim=1)
    block = all_gather(whole, _extra(source.batch, target.batch), dim=0)
    rows, length, width = block.shape
    shared = _common(source.batch, target.batch)
    offset = axis_index(shared) * rows * length
    local = shard_slice(index, target.tensor, dim=1)
    picked = block.reshape(rows * length, width)[jnp.maximum(local - offset, 0)]
    return jnp.where((local >= 0)[..., None], picked, 0)


def exchange_by_routes(
    outputs: jax.Array, send: jax.Array, receive: jax.Array, axes: Axes
) -> jax.Array:
    """Move encoder outputs from any device to any other; see `sharding.routes`.

    Args:
        outputs: `[encoder rows, outputs, d_model]`, those of this device.
        send: `[devices, capacity]`, which of them go to every device.
        receive: `[decoder rows, tokens]`, what of the `[devices, capacity]` received lands at every
            token of this device.
        axes: grid axes that number the devices.

    Returns:
        `[decoder rows, tokens, d_model]`; zero where nothing lands.
    """
    sent = _picked(outputs.reshape(-1, outputs.shape[-1]), send)
    received = all_to_all(sent, axes)
    return _picked(received.reshape(-1, outputs.shape[-1]), receive)


def _picked(values: jax.Array, index: jax.Array) -> jax.Array:
    """`values[index]`, zero where an index is beyond them."""
    return values.at[index].get(mode="fill", fill_value=0)


def _common(a: Axes, b: Axes) -> Axes:
    """Leading axes shared by `a` and `b`; one is a prefix of the other by construction."""
    return a if len(a) < len(b) else b


def _extra(source: Axes, target: Axes) -> Axes:
    """Axes that split the encoder's rows but not the decoder's."""
    return source[len(target) :]
