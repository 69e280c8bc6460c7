"""The connector: encoder outputs to embeddings of the decoder."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from mllm_jax.models.config import EncoderConfig
from mllm_jax.models.layers import MLP, gathered
from mllm_jax.models.parameters import Block
from sharding.collectives import shard_slice
from sharding.grid import View


def connector_block(config: EncoderConfig, d_decoder: int) -> Block:
    """Linear, GELU, Linear from `stack` encoder outputs to the decoder's width."""
    hidden = config.connector.hidden or d_decoder
    widths = (config.stack * config.d_model, hidden, d_decoder)
    return Block(lambda rngs: MLP(widths, rngs))


def connect(
    block: Block, params: dict, x: jax.Array, segment_ids: jax.Array, stack: int, view: View
) -> jax.Array:
    """Stack and project.

    Pixel shuffle is a stack, too: the loader orders patches so that those of one block are
    neighbours.

    Args:
        x: `[rows, positions / shards, d_model]`.
        segment_ids: `[rows, positions]`, whole on every rank of the row.

    Returns:
        `[rows, positions / stack / shards, d_decoder]`.
    """
    module = block.bind(params, view)
    local = shard_slice(segment_ids, view.sequence, dim=1)
    # Slack behind a medium is zero, so that an output depends on its own medium alone.
    x = jnp.where((local > 0)[..., None], x, 0)
    rows, positions, width = x.shape
    stacked = x.reshape(rows, positions // stack, stack * width)
    return module(gathered(stacked, view), view)
