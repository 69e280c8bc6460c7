"""The linear layers of a model by name, known without making them.

Names are those of parameters without the dimension of layers: all copies of
`language.layers.self_attn.q_proj` are one entry. Embeddings, a head that is the embedding,
convolutions, routers and the experts that tokens choose are none of them. Tests compare the entries
with the modules.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from mllm_jax.layers.config.elements import Dims
from mllm_jax.layers.config.experts import ExpertsConfig

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


def single_dim(axis: Literal["embed", "mlp", "vocab"] | None, size: int) -> Dims:
    """The dimensions of a tensor that has one."""
    return ((axis, size),)


def make_layer(module: str, name: str, inputs: Dims, outputs: Dims) -> LinearLayer:
    """The linear layer of a module with this name in it; outside the layers one of a connector."""
    part = module if name.startswith("layers.") else f"{module}.connector"
    return LinearLayer(f"{module}.{name}", part, inputs, outputs)


def attention_layers(
    module: str, d_model: int, heads: int, kv_heads: int, head_dim: int
) -> Iterator[LinearLayer]:
    """The projections of attention."""
    width = single_dim("embed", d_model)
    queries: Dims = (("heads", heads), (None, head_dim))
    keys: Dims = (("kv_heads", kv_heads), (None, head_dim))
    for name, outputs in (("q", queries), ("k", keys), ("v", keys)):
        yield make_layer(module, f"layers.self_attn.{name}_proj", width, outputs)
    yield make_layer(module, "layers.self_attn.o_proj", queries, width)


def two_layers(
    module: str, name: str, inputs: Dims, hidden: Dims, outputs: Dims
) -> Iterator[LinearLayer]:
    """Those of an MLP that is not gated."""
    yield make_layer(module, f"{name}.fc1", inputs, hidden)
    yield make_layer(module, f"{name}.fc2", hidden, outputs)


def gated_layers(
    module: str, name: str, inputs: Dims, hidden: Dims, outputs: Dims
) -> Iterator[LinearLayer]:
    """Those of a gated MLP."""
    for projection in ("gate_proj", "up_proj"):
        yield make_layer(module, f"{name}.{projection}", inputs, hidden)
    yield make_layer(module, f"{name}.down_proj", hidden, outputs)


def shared_expert_layers(
    module: str, d_model: int, experts: ExpertsConfig
) -> Iterator[LinearLayer]:
    """Those of the expert that all tokens have, and of its gate; none without such an expert."""
    if not experts.shared_d_ff:
        return
    width, hidden = single_dim("embed", d_model), single_dim("mlp", experts.shared_d_ff)
    yield from gated_layers(module, "layers.experts.shared", width, hidden, width)
    if experts.shared_gate:
        yield make_layer(module, "layers.experts.shared_gate", width, single_dim(None, 1))
