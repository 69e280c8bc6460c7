"""Encoder outputs merged into the decoder's rows: within blocks of rows, or between any devices.

Where nothing is merged, nothing is exchanged. All ranks of a block agree on that: the host has
counted what is in routes, and ranks whose media are in the rows of their samples add up what they
have.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from mllm_jax.models.module_rows import ModuleRows
from sharding.collectives import psum, vary
from sharding.exchange import (
    RouteArrays,
    gather_outputs,
    route_outputs,
    scatter_outputs,
    shared_axes,
)
from sharding.exchange_kinds import DEFAULT_EXCHANGE, Exchange
from sharding.grid import Axes, MeshView


def merge_outputs(
    outputs: jax.Array,
    name: str,
    routes: RouteArrays | None,
    decoder_rows: ModuleRows,
    source: MeshView,
    target: MeshView,
    exchange: Exchange = DEFAULT_EXCHANGE,
) -> jax.Array:
    """Outputs of an encoder's bucket where they are merged into the decoder's rows, else zero.

    Args:
        outputs: `[source rows, outputs / shards, d_model]`, local to this rank.
        name: name of the bucket.
        routes: routes of this device; None if media are in the rows of their samples.
        decoder_rows: local rows of the decoder.
        source, target: views of the bucket and of the decoder.
        exchange: the bucket's exchange. Outputs without routes are gathered within blocks instead
            of an all-to-all.

    Returns:
        `[target rows, tokens / shards, d_model]`.
    """
    move = scatter_outputs if exchange == "reduce_scatter" else gather_outputs
    shared: Axes = shared_axes(source, target) if routes is None else ()
    if routes is None:
        index = decoder_rows.merges[name]
        count = psum(jnp.count_nonzero(index >= 0), target.batch_axes[len(shared) :])
    else:
        index, count = routes.index, routes.count
    exchanged = partial(move, index=index, source=source, target=target, shared=shared)
    if routes is not None and index is None:
        exchanged = partial(route_outputs, routes=routes.of_device, axes=target.position_axes)
    if target.degree_of(target.position_axes) == target.degree_of(shared):  # a rank alone
        return exchanged(outputs)
    return _exchange_if_any(exchanged, outputs, count)


def _exchange_if_any(
    exchange: Callable[[jax.Array], jax.Array], outputs: jax.Array, count: jax.Array
) -> jax.Array:
    """`exchange(outputs)`, or zeros without any collective if the count is zero."""
    expected = jax.eval_shape(exchange, outputs)
    varying = tuple(sorted(jax.typeof(expected).mat.varying))

    def make_zeros(outputs: jax.Array) -> jax.Array:
        del outputs
        return vary(jnp.zeros(expected.shape, expected.dtype), varying)

    return lax.cond(count > 0, exchange, make_zeros, outputs)
