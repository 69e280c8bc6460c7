"""Elements of parameters by their logical axes, counted tensor by tensor.

What a plan needs to know of a model's parameters, known without making them: configurations of
encoders say what their layers are made of, and these are the parts. Tests compare the sums with the
modules in `layers.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

#: `(logical axis, size)` of each dimension.
Dims = tuple[tuple[str | None, int], ...]
#: Elements by logical axes (`sharding.rules`), without the axis that stacks layers.
Elements = Counter[tuple[str | None, ...]]


def tensor(dims: Dims) -> Elements:
    """Elements of one parameter."""
    return Elements({tuple(axis for axis, _ in dims): math.prod(size for _, size in dims)})


def vector(width: int) -> Elements:
    """A parameter over the model's width, which stays whole on every rank."""
    return tensor(((None, width),))


def dense(inputs: Dims, outputs: Dims, bias: bool = False) -> Elements:
    """A linear layer; `Dense` in `layers.py`."""
    kernel = tensor((*inputs, *outputs))
    bias_axes = tuple((None if axis == "embed" else axis, size) for axis, size in outputs)
    return kernel + tensor(bias_axes) if bias else kernel


def norm(width: int, layer_norm: bool) -> Elements:
    """A LayerNorm with a bias, or an RMSNorm."""
    return vector(width) + vector(width) if layer_norm else vector(width)


def attention(
    d_model: int, heads: int, kv_heads: int, head_dim: int, biases: str, qk_norm: bool = False
) -> Elements:
    """Projections `q`, `k`, `v` and `o`; `biases` names the projections that have a bias."""
    width: Dims = (("embed", d_model),)
    queries: Dims = (("heads", heads), (None, head_dim))
    keys: Dims = (("kv_heads", kv_heads), (None, head_dim))
    projections = dense(width, queries, "q" in biases) + dense(queries, width, "o" in biases)
    projections += dense(width, keys, "k" in biases) + dense(width, keys, "v" in biases)
    return projections + vector(2 * head_dim) if qk_norm else projections


def mlp(inputs: int, hidden: int, outputs: int, bias: bool = True) -> Elements:
    """Two linear layers."""
    middle: Dims = (("mlp", hidden),)
    first = dense((("embed", inputs),), middle, bias)
    return first + dense(middle, (("embed", outputs),), bias)


def gated_mlp(d_model: int, d_ff: int) -> Elements:
    """Three linear layers without biases: gate, up and down."""
    width: Dims = (("embed", d_model),)
    hidden: Dims = (("mlp", d_ff),)
    return dense(width, hidden) + dense(width, hidden) + dense(hidden, width)


def experts(count: int, d_model: int, d_ff: int) -> Elements:
    """`gated_mlp` of every expert."""
    width: Dims = (("embed", d_model),)
    hidden: Dims = (("mlp", d_ff),)
    stacked: Dims = (("experts", count),)
    inner, outer = (*stacked, *width, *hidden), (*stacked, *hidden, *width)
    return tensor(inner) + tensor(inner) + tensor(outer)


def mean(layers: Sequence[Elements]) -> Mapping[tuple[str | None, ...], float]:
    """Elements of a layer of several kinds, of each as many layers as stand there."""
    total = sum(layers, Elements())
    return {
        axes: count // len(layers) if count % len(layers) == 0 else count / len(layers)
        for axes, count in total.items()
    }


def table(entries: int, axis: str | None, d_model: int) -> Elements:
    """A table of embeddings, or of positions."""
    return tensor(((axis, entries), ("embed", d_model)))
