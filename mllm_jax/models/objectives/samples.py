"""One output of every sample, out of packed rows.

Products with matrices of zeros and ones, so that gradients are no sums of scattered rows::

    segment ids   1 1 1 2 2 0        last of 1   0 0 1 0 0 0
                                     last of 2   0 0 0 0 1 0
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp

from sharding.collectives import psum, reduce_scatter, shard_slice
from sharding.grid import MeshView

#: What is taken of the outputs of a segment: one of them, their mean or their sum.
Choice = Literal["first", "last", "mean", "sum"]


def select_samples(
    x: jax.Array, segment_ids: jax.Array, segments: int, choice: Choice, view: MeshView
) -> jax.Array:
    """One output of every segment, `[rows, segments, width]`, the same on all ranks of a row.

    Args:
        x: `[rows, positions / shards, width]`.
        segment_ids: `[rows, positions]`, complete on every rank of the row.
        segments: most segments of a row; slots without a segment are zero.
        choice: what is taken.
    """
    weights = _position_weights(segment_ids, choice)
    is_of = segment_ids[:, None] == 1 + jnp.arange(segments)[None, :, None]
    selection = shard_slice(jnp.where(is_of, weights[:, None], 0), view.sequence_axes, dim=2)
    selected = jnp.einsum("rsp,rpw->rsw", selection.astype(x.dtype), x, precision="highest")
    return psum(selected, view.sequence_axes)


def average_segments(x: jax.Array, segment_ids: jax.Array, view: MeshView) -> jax.Array:
    """The mean of each segment at its first position, and zero elsewhere; shapes as of `x`.

    Args:
        x, segment_ids: as of `select_samples`.
    """
    weights, begins = (
        _position_weights(segment_ids, "mean"),
        _position_weights(segment_ids, "first"),
    )
    same = segment_ids[:, :, None] == segment_ids[:, None]
    selection = jnp.where(same, begins[:, :, None] * weights[:, None], 0)
    selection = shard_slice(selection, view.sequence_axes, dim=2).astype(x.dtype)
    averages = jnp.einsum("rqp,rpw->rqw", selection, x, precision="highest")
    return reduce_scatter(averages, view.sequence_axes, dim=1)


def keep_first(x: jax.Array, segment_ids: jax.Array, view: MeshView) -> jax.Array:
    """What each segment has at its first position, and zero elsewhere; shapes as of `x`.

    Args:
        x, segment_ids: as of `select_samples`.
    """
    begins = shard_slice(_position_weights(segment_ids, "first"), view.sequence_axes, dim=1)
    return jnp.where(begins[..., None] > 0, x, 0)


def _position_weights(segment_ids: jax.Array, choice: Choice) -> jax.Array:
    """Weight of every position in what is selected of its segment, `[rows, positions]` float32."""
    real = segment_ids > 0
    if choice == "mean":
        same = (segment_ids[:, :, None] == segment_ids[:, None]) & real[:, None]
        return jnp.where(real, 1 / jnp.maximum(jnp.sum(same, axis=-1), 1), 0.0)
    if choice == "sum":
        return real.astype(jnp.float32)
    shift, edge = (1, 0) if choice == "first" else (-1, segment_ids.shape[1] - 1)
    other = jnp.roll(segment_ids, shift, axis=1).at[:, edge].set(0)
    return (real & (other != segment_ids)).astype(jnp.float32)
