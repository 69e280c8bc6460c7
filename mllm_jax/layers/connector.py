"""The connector: encoder outputs to embeddings of the decoder.

    mlp       norm, stack, Linear, activation, Linear      LLaVA-1.5 (arXiv 2310.03744)
    linear    norm, stack, Linear                          LLaVA (arXiv 2304.08485)
    average   average, norm, Linear                        Qwen2-Audio (arXiv 2407.10759)

The norm is the encoder's, of the families that have one.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx

from mllm_jax.layers.config.connector import ConnectorConfig
from mllm_jax.layers.config.elements import Dims
from mllm_jax.layers.dense import Dense
from mllm_jax.layers.modules import MLP, LayerNorm, activate
from mllm_jax.layers.parameters import ParameterBlock
from sharding.collectives import shard_slice
from sharding.grid import MeshView


class Linear(nnx.Module):
    """A single linear layer; every rank computes its own share of the positions."""

    def __init__(self, inputs: int, outputs: int, rngs: nnx.Rngs, bias: bool) -> None:
        self.linear = Dense(((None, inputs),), (("embed", outputs),), rngs, bias)


class Head(nnx.Module):
    """One output of every sample to the features that an objective reads.

    Every rank computes all samples of its rows, so that nothing is split over tensor ranks.

    Args:
        width: features of the output.
        features: features of the result.
        connector: layers between them.
        norm_eps: of a LayerNorm before them; None without a norm.
    """

    def __init__(
        self,
        width: int,
        features: int,
        connector: ConnectorConfig,
        norm_eps: float | None,
        rngs: nnx.Rngs,
    ) -> None:
        self.norm = None if norm_eps is None else LayerNorm(width, norm_eps, rngs)
        self.activation, bias = connector.activation, connector.bias
        inputs: Dims = (("embed", width),)
        middle: Dims = ((None, connector.hidden or width),)
        has_hidden = connector.kind == "mlp"
        self.hidden = Dense(inputs, middle, rngs, bias) if has_hidden else None
        last = middle if has_hidden else inputs
        self.linear = Dense(last, ((None, features),), rngs, bias)

    def __call__(self, x: jax.Array) -> jax.Array:
        """`[.., width]` to `[.., features]`, float32."""
        x = x.astype(jnp.float32)
        x = x if self.norm is None else self.norm(x)
        x = x if self.hidden is None else activate(self.hidden(x), self.activation)
        return self.linear(x)


def connector_block(connector: ConnectorConfig, width: int, outputs: int) -> ParameterBlock:
    """The parameters between outputs of width `width` and of width `outputs`."""
    inputs = connector.input_width(width)
    if connector.kind != "mlp":
        return ParameterBlock(lambda rngs: Linear(inputs, outputs, rngs, connector.bias))
    widths = (inputs, connector.hidden or outputs, outputs)
    return ParameterBlock(
        lambda rngs: MLP(widths, rngs, activation=connector.activation, bias=connector.bias)
    )


def norm_block(width: int, eps: float) -> ParameterBlock:
    """The norm before the connector of an earlier layer than the last.

    It is a LayerNorm, as in DeepStack (arXiv 2406.04334) and Qwen3-VL.
    """
    return ParameterBlock(lambda rngs: LayerNorm(width, eps, rngs))


def connect_outputs(
    block: ParameterBlock,
    params: dict,
    x: jax.Array,
    segment_ids: jax.Array,
    connector: ConnectorConfig,
    norm: Callable[[jax.Array], jax.Array],
    view: MeshView,
) -> jax.Array:
    """Join positions and project them.

    Pixel shuffle is a stack, too: the loader orders patches so that those of one block are
    neighbours. Where a medium's last positions are too few, zeros take the place of the others.

    Args:
        x: `[rows, positions / shards, d_model]`, out of the last layer.
        segment_ids: `[rows, positions]`, replicated over the ranks of the row.
        norm: the encoder's last one.

    Returns:
        `[rows, positions / stack / shards, d_decoder]`.
    """
    module, stack = block.bind(params, view), connector.joined
    used = (shard_slice(segment_ids, view.sequence_axes, dim=1) > 0)[..., None]
    averaged = connector.kind == "average"
    x = jnp.where(used, x if averaged else norm(x), 0)
    rows, positions, width = x.shape
    if averaged:
        x = norm(jnp.mean(x.reshape(rows, positions // stack, stack, width), axis=2))
    else:
        x = x.reshape(rows, positions // stack, stack * width)
    return module.linear(x) if isinstance(module, Linear) else module(x, view)
