"""Outputs of tiled images: unpadded and resized, from what the connector makes of their tiles."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from sharding.collectives import all_gather, shard_slice
from sharding.grid import MeshView


def interpolate_outputs(
    x: jax.Array, indices: jax.Array, weights: jax.Array, view: MeshView
) -> jax.Array:
    """Sums of a few outputs of the connector each, `sum_k weights[j, k] * x[indices[j, k]]`.

    Args:
        x: `[rows, outputs / shards, d_model]`, out of the connector.
        indices, weights: `[rows, outputs, 4]`, replicated over the ranks of the row; indices are
            numbers of outputs within the row.
        view: view of the encoder.

    Returns:
        `[rows, outputs / shards, d_model]`; zero where all weights are.
    """
    full = all_gather(x, view.sequence_axes, dim=1)
    indices, weights = (
        shard_slice(array, view.sequence_axes, dim=1) for array in (indices, weights)
    )

    def weigh_output(number: int) -> jax.Array:
        index, weight = indices[..., number, None], weights[..., number, None]
        return weight * jnp.take_along_axis(full, index, axis=1).astype(jnp.float32)

    first, *others = (weigh_output(number) for number in range(indices.shape[-1]))
    return sum(others, first).astype(x.dtype)
