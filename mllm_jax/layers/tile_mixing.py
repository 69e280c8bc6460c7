"""Outputs of tiled images: unpadded and shrunk, from what the connector makes of their tiles."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from sharding.collectives import all_gather, shard_slice
from sharding.grid import MeshView


def mix_taps(x: jax.Array, taps: jax.Array, shares: jax.Array, view: MeshView) -> jax.Array:
    """Sums of a few outputs of the connector each, `sum_k shares[j, k] * x[taps[j, k]]`.

    Args:
        x: `[rows, outputs / shards, d_model]`, out of the connector.
        taps, shares: `[rows, outputs, 4]`, replicated over the ranks of the row; places are counted
            within the row.
        view: view of the encoder.

    Returns:
        `[rows, outputs / shards, d_model]`; zero where all shares are.
    """
    full = all_gather(x, view.sequence_axes, dim=1)
    taps, shares = (shard_slice(array, view.sequence_axes, dim=1) for array in (taps, shares))

    def weigh_tap(number: int) -> jax.Array:
        place, share = taps[..., number, None], shares[..., number, None]
        return share * jnp.take_along_axis(full, place, axis=1).astype(jnp.float32)

    first, *others = (weigh_tap(number) for number in range(taps.shape[-1]))
    return sum(others, first).astype(x.dtype)
