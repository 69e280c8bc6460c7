"""Parameters that follow the load of experts, among all others.

A router's bias has no gradient (`layers.experts.router`). In the tree of gradients its place holds
the load of the step, which has its own rule in the optimizer, and counts in no norm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from mllm_jax.layers.trainable import LOAD
from sharding.collectives import join_slices


def is_load(path: tuple[Any, ...]) -> bool:
    """Whether the leaf of this path follows a load."""
    return bool(path[-1].key == LOAD)


def on_loads(change: Callable[[jax.Array], jax.Array], gradients: Any) -> Any:
    """`gradients` with every load changed."""
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: change(leaf) if is_load(path) else leaf, gradients
    )


def load_table(gradients: Any, shardings: Any, layers: int) -> jax.Array:
    """Loads of all layers that have experts, `[layers, experts]` float32, the same on every rank.

    Args:
        gradients: of local shards, with loads in place of gradients.
        shardings: tree of `ParameterSharding` with the structure of the gradients.
        layers: layers that have experts, without padding.
    """
    pairs = jax.tree_util.tree_leaves_with_path(gradients)
    ((load, sharding),) = [
        (leaf, layer_load)
        for (path, leaf), layer_load in zip(pairs, jax.tree.leaves(shardings), strict=True)
        if is_load(path)
    ]
    for dim, axes in enumerate(sharding.mesh_axes):
        load = join_slices(load, axes, dim)
    return load.reshape(-1, load.shape[-1])[:layers]


def follow_loads(rate: float) -> optax.GradientTransformation:
    """Move every bias by `rate` up where the load is below the mean of the experts, else down.

    DeepSeek-V3 (arXiv 2412.19437), section 2.1.2. All leaves that it gets are loads,
    `[.., experts]`. Biases stay where the load is not a number.
    """

    def update(loads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del params
        return jax.tree.map(lambda layer_loads: rate * _update_direction(layer_loads), loads), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def _update_direction(load: jax.Array) -> jax.Array:
    missing = jnp.mean(load, axis=-1, keepdims=True) - load
    return jnp.where(jnp.isnan(missing), 0, jnp.sign(missing))
