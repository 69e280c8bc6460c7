"""The linear layers of a model by name, known without making them.

Names are those of parameters without the dimension of layers: all copies of
`language.layers.self_attn.q_proj` are one entry. Embeddings, a head that is the embedding,
convolutions, routers and the experts that tokens choose are none of them. Tests compare the entries
with the modules.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.elements import Dims
from mllm_jax.layers.config.encoder import EncoderConfig

#: Name of the head of the vocabulary in its module, if it is no embedding.
VOCABULARY_HEAD = "lm_head"


@dataclass(frozen=True)
class LinearLayer:
    """A linear layer.

    Attributes:
        name: name of its parameters.
        part: part of the model, by its name in `ModelConfig.parts`.
        inputs, outputs: logical axes and sizes of its dimensions.
        share: share of the module's layers that have it.
    """

    name: str
    part: str
    inputs: Dims
    outputs: Dims
    share: float = 1.0

    @property
    def head(self) -> bool:
        """Whether it is the head of the vocabulary."""
        return self.name == f"{self.part}.{VOCABULARY_HEAD}"

    @property
    def width(self) -> int:
        """Elements of an input."""
        return math.prod(size for _, size in self.inputs)

    @property
    def height(self) -> int:
        """Elements of an output."""
        return math.prod(size for _, size in self.outputs)


def decoder_layers(name: str, config: DecoderConfig, *, writes: bool) -> Iterator[LinearLayer]:
    """Those of a decoder with this name, with its head if it learns to write."""
    width, hidden = _single_dim("embed", config.d_model), _single_dim("mlp", config.d_ff)
    heads = config.heads, config.kv_heads, config.head_dim
    every = list(_attention_layers(name, config.d_model, *heads))
    sparse = sum(kind.mlp == "experts" for kind in config.layer_kinds) / config.period
    if sparse < 1:
        kind = _gated_layers if config.parts.gated else _two_layers
        dense = kind(name, "layers.mlp", width, hidden, width)
        every += [replace(layer, share=1 - sparse) for layer in dense]
    experts = config.experts
    if experts is not None and experts.shared_d_ff:
        middle = _single_dim("mlp", experts.shared_d_ff)
        shared = list(_gated_layers(name, "layers.experts.shared", width, middle, width))
        if experts.shared_gate:
            gate = _single_dim(None, 1)
            shared.append(_make_layer(name, "layers.experts.shared_gate", width, gate))
        every += [replace(layer, share=sparse) for layer in shared]
    yield from every
    if writes and not config.tie_embeddings:
        vocab: Dims = (("vocab", config.vocab_size),)
        yield LinearLayer(f"{name}.{VOCABULARY_HEAD}", name, width, vocab)


def encoder_layers(
    name: str, config: EncoderConfig, d_decoder: int | None
) -> Iterator[LinearLayer]:
    """Those of an encoder and its connectors.

    Args:
        d_decoder: width of the module that outputs are merged into; None: into none.
    """
    width = _single_dim("embed", config.d_model)
    yield from _attention_layers(name, config.d_model, config.heads, config.heads, config.head_dim)
    yield from _two_layers(name, "layers.mlp", width, _single_dim("mlp", config.d_ff), width)
    if d_decoder is None:
        return
    connector, outputs = config.connector, _single_dim("embed", d_decoder)
    blocks = ["connector", *(f"deepstack{number}" for number in range(len(config.deepstack)))]
    for block in blocks:
        if connector.kind == "mlp":
            middle = _single_dim("mlp", connector.hidden or d_decoder)
            yield from _two_layers(
                name, block, _single_dim("embed", config.connected), middle, outputs
            )
        else:
            yield _make_layer(name, f"{block}.linear", _single_dim(None, config.connected), outputs)


def _single_dim(axis: Literal["embed", "mlp"] | None, size: int) -> Dims:
    return ((axis, size),)


def _make_layer(module: str, name: str, inputs: Dims, outputs: Dims) -> LinearLayer:
    part = module if name.startswith("layers.") else f"{module}.connector"
    return LinearLayer(f"{module}.{name}", part, inputs, outputs)


def _attention_layers(
    module: str, d_model: int, heads: int, kv_heads: int, head_dim: int
) -> Iterator[LinearLayer]:
    width = _single_dim("embed", d_model)
    queries: Dims = (("heads", heads), (None, head_dim))
    keys: Dims = (("kv_heads", kv_heads), (None, head_dim))
    for name, outputs in (("q", queries), ("k", keys), ("v", keys)):
        yield _make_layer(module, f"layers.self_attn.{name}_proj", width, outputs)
    yield _make_layer(module, "layers.self_attn.o_proj", queries, width)


def _two_layers(
    module: str, name: str, inputs: Dims, hidden: Dims, outputs: Dims
) -> Iterator[LinearLayer]:
    yield _make_layer(module, f"{name}.fc1", inputs, hidden)
    yield _make_layer(module, f"{name}.fc2", hidden, outputs)


def _gated_layers(
    module: str, name: str, inputs: Dims, hidden: Dims, outputs: Dims
) -> Iterator[LinearLayer]:
    for projection in ("gate_proj", "up_proj"):
        yield _make_layer(module, f"{name}.{projection}", inputs, hidden)
    yield _make_layer(module, f"{name}.down_proj", hidden, outputs)
