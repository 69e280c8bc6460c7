"""AdamW, LAMB and Muon on sharded parameters.

Everything here runs inside the train step's manual `shard_map`: leaves are local shards, and what
needs the whole array (the global norm, Muon's orthogonalization) says so with collectives.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from mllm_jax.config.load import LambConfig, MuonConfig, OptimizerConfig, TrainConfig
from mllm_jax.train.state.freeze import NOTHING_FROZEN, Frozen, group_of
from mllm_jax.train.state.lamb import scale_by_trust_ratio
from mllm_jax.train.state.loads import follow_loads, is_load
from sharding.axes import is_matrix, muon_role
from sharding.collectives import all_gather, axis_index, axis_size, psum, shard_slice, vary
from sharding.grid import Axes
from sharding.rules import Layout

#: Quintic Newton-Schulz coefficients of Muon (Jordan et al., 2024).
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)


def build_optimizer(
    config: TrainConfig, layouts: Any, frozen: Frozen = NOTHING_FROZEN, bias_rate: float = 0.0
) -> optax.GradientTransformation:
    """The configured optimizer for the parameters that lie as `layouts` says and have gradients.

    Args:
        config: section `train`.
        layouts: tree of `Layout` with the structure of all parameters.
        frozen: parameters without gradients.
        bias_rate: step of the biases that follow the load of experts.
    """
    chosen = config.optimizer
    trained, constant = frozen.apart(layouts)
    labels = jax.tree_util.tree_map_with_path(
        lambda path, leaf, still: "frozen" if still else _group(chosen, path, leaf),
        trained,
        frozen.mask(trained),
    )
    parts = {"adamw": _adamw(config, layouts)}
    if isinstance(chosen, MuonConfig):
        parts["muon"] = _muon(config, chosen, layouts)
    elif isinstance(chosen, LambConfig):
        parts["lamb"] = _lamb(config, chosen, layouts)
    used = {*jax.tree.leaves(labels)}
    if "load" in used:
        parts["load"] = follow_loads(bias_rate)
    optimizer: optax.GradientTransformation
    if len(parts) == 1 and not constant:
        optimizer = parts["adamw"]
    else:
        optimizer = optax.partition(parts | {"frozen": optax.set_to_zero()}, labels)
    clip = clip_by_global_norm(config.clip_norm, layouts)
    return optax.chain(clip, optimizer, _scale_groups(config))


def _scale_groups(config: TrainConfig) -> optax.GradientTransformation:
    """Updates times the group's learning rate over the usual one, to which they are linear."""

    def scale(path: tuple[Any, ...], leaf: jax.Array) -> jax.Array:
        group = None if is_load(path) else config.groups.get(group_of(path))
        return leaf if group is None else leaf * (group.learning_rate / config.learning_rate)

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del params
        return jax.tree_util.tree_map_with_path(scale, updates), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def _group(chosen: OptimizerConfig, path: tuple[Any, ...], layout: Layout) -> str:
    if is_load(path):
        return "load"
    if isinstance(chosen, MuonConfig) and is_matrix(layout.axes):
        return "muon"
    return "lamb" if isinstance(chosen, LambConfig) and decays(layout) else "adamw"


def _adamw(config: TrainConfig, layouts: Any) -> optax.GradientTransformation:
    chosen, schedule = config.optimizer, learning_rate(config)
    ratio = chosen.adam_learning_rate_ratio if isinstance(chosen, MuonConfig) else 1.0
    return optax.adamw(
        lambda step: ratio * schedule(step),
        b1=chosen.beta1,
        b2=chosen.beta2,
        eps=chosen.epsilon,
        weight_decay=config.weight_decay,
        mask=lambda params: _select(params, layouts, decays),
    )


def _lamb(config: TrainConfig, chosen: LambConfig, layouts: Any) -> optax.GradientTransformation:
    return optax.chain(
        optax.scale_by_adam(chosen.beta1, chosen.beta2, chosen.epsilon),
        optax.add_decayed_weights(config.weight_decay),
        scale_by_trust_ratio(_by_path(layouts), chosen.largest_ratio),
        optax.scale_by_learning_rate(learning_rate(config)),
    )


def _muon(config: TrainConfig, chosen: MuonConfig, layouts: Any) -> optax.GradientTransformation:
    return optax.chain(
        optax.trace(decay=chosen.momentum, nesterov=chosen.nesterov),
        orthogonalize(layouts, chosen.iterations),
        optax.add_decayed_weights(config.weight_decay),
        optax.scale_by_learning_rate(learning_rate(config)),
    )


def learning_rate(config: TrainConfig) -> optax.Schedule:
    """Linear warm-up, then cosine decay to `final_learning_rate_ratio` of the peak."""
    peak = config.learning_rate
    return optax.warmup_cosine_decay_schedule(
        init_value=peak / max(config.warmup_steps, 1),
        peak_value=peak,
        warmup_steps=config.warmup_steps,
        decay_steps=max(config.steps, config.warmup_steps + 1),
        end_value=peak * config.final_learning_rate_ratio,
    )


def decays(layout: Layout) -> bool:
    """Whether weight decay applies: every leaf but vectors (norms and biases)."""
    roles = [muon_role(name) for name in layout.axes]
    matrix = "model" in roles or "adapter" in roles
    return matrix and len(roles) - roles.count("stack") > 1


def global_norm(grads: Any, layouts: Any) -> jax.Array:
    """Euclidean norm over all shards of all leaves but loads, the same scalar on every rank."""
    total: dict[Any, jax.Array] = defaultdict(lambda: jnp.zeros(()))
    by_path = _by_path(layouts)
    for path, grad in jax.tree_util.tree_leaves_with_path(grads):
        if is_load(path):
            continue
        total[by_path[path].sharded] += jnp.sum(jnp.square(grad.astype(jnp.float32)))
    return jnp.sqrt(sum(psum(square, axes) for axes, square in total.items()))


def clip_by_global_norm(limit: float | None, layouts: Any) -> optax.GradientTransformation:
    """Scale the gradient down to global norm `limit`; None leaves it as it is."""
    if limit is None:
        return optax.identity()

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del params
        scale = jnp.minimum(1.0, limit / (global_norm(updates, layouts) + 1e-12))
        return jax.tree.map(lambda g: g * scale.astype(g.dtype), updates), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def orthogonalize(layouts: Any, iterations: int) -> optax.GradientTransformation:
    """Replace every matrix by its nearest semi-orthogonal one, scaled like an Adam update.

    Matrices of one shape are stacked and dealt over all devices, so that each is orthogonalized
    once in the cluster. Scale 0.2 sqrt(max(rows, columns)): Liu et al., "Muon is scalable for LLM
    training" (2025), section 2.2.
    """
    by_path = _by_path(layouts)

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del params
        paths, leaves, tree = _flatten(updates)
        lays = [by_path[path] for path in paths]
        whole = [_gather(leaf, layout) for leaf, layout in zip(leaves, lays, strict=True)]
        stacks = [_to_matrices(x, layout) for x, layout in zip(whole, lays, strict=True)]
        done = _orthogonalize_by_shape(stacks, lays[0].view.all, iterations) if lays else []
        out = [
            _own_shard(_from_matrices(stack, x.shape, layout), layout)
            for stack, x, layout in zip(done, whole, lays, strict=True)
        ]
        return jax.tree.unflatten(tree, out), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def newton_schulz(matrices: jax.Array, iterations: int) -> jax.Array:
    """Orthogonalize `[n, rows, columns]`, rows <= columns, by a quintic iteration."""
    a, b, c = NEWTON_SCHULZ
    x = matrices / (jnp.linalg.norm(matrices, axis=(1, 2), keepdims=True) + 1e-7)
    for _ in range(iterations):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


def _orthogonalize_by_shape(
    stacks: list[jax.Array], axes: Axes, iterations: int
) -> list[jax.Array]:
    """Stacks `[n, rows, columns]` of several shapes, one call for each shape."""
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for i, stack in enumerate(stacks):
        groups[stack.shape[1:]].append(i)
    out = list(stacks)
    for members in groups.values():
        ends = list(accumulate(stacks[i].shape[0] for i in members))[:-1]
        joined = jnp.concatenate([stacks[i] for i in members])
        done = _dealt_newton_schulz(joined, axes, iterations)
        for i, part in zip(members, jnp.split(done, ends), strict=True):
            out[i] = part
    return out


def _dealt_newton_schulz(matrices: jax.Array, axes: Axes, iterations: int) -> jax.Array:
    """`newton_schulz` with the matrices dealt over `axes`, the same result on every rank."""
    ranks, count = axis_size(axes), matrices.shape[0]
    share = -(-count // ranks)
    padded = jnp.pad(matrices, ((0, share * ranks - count), (0, 0), (0, 0)))
    mine = newton_schulz(shard_slice(padded, axes, dim=0), iterations)
    # A sum of disjoint shares, not a gather: its result is typed the same on every rank.
    spread = vary(jnp.zeros_like(padded), axes)
    spread = lax.dynamic_update_slice_in_dim(spread, mine, axis_index(axes) * share, 0)
    return 0.2 * max(matrices.shape[1:]) ** 0.5 * psum(spread, axes)[:count]


def _by_path(layouts: Any) -> dict[Any, Layout]:
    return dict(jax.tree_util.tree_leaves_with_path(layouts))


def _flatten(tree: Any) -> tuple[list[Any], list[jax.Array], Any]:
    pairs, structure = jax.tree_util.tree_flatten_with_path(tree)
    return [path for path, _ in pairs], [leaf for _, leaf in pairs], structure


def _select(params: Any, layouts: Any, rule: Callable[[Layout], bool]) -> Any:
    """`rule` of every leaf of `params`, which may lack some leaves of `layouts`."""
    by_path = _by_path(layouts)
    return jax.tree_util.tree_map_with_path(lambda path, _: rule(by_path[path]), params)


def _gather(x: jax.Array, layout: Layout) -> jax.Array:
    for dim, axes in enumerate(layout.mesh_axes):
        x = all_gather(x, axes, dim)
    return x


def _own_shard(x: jax.Array, layout: Layout) -> jax.Array:
    for dim, axes in enumerate(layout.mesh_axes):
        x = shard_slice(x, axes, dim)
    return x


def _to_matrices(x: jax.Array, layout: Layout) -> jax.Array:
    """A whole leaf as `[matrices, rows, columns]`, rows <= columns; the model width is one side.

    Layers and experts have matrices of their own.
    """
    order, stacks = _matrix_order(layout)
    front = jnp.transpose(x, order)
    flat = front.reshape(-1, front.shape[stacks], math.prod(front.shape[stacks + 1 :]))
    return flat if flat.shape[1] <= flat.shape[2] else flat.mT


def _from_matrices(matrices: jax.Array, shape: tuple[int, ...], layout: Layout) -> jax.Array:
    """The inverse of `_to_matrices` for a leaf of `shape`."""
    order, stacks = _matrix_order(layout)
    front = tuple(shape[dim] for dim in order)
    flat = matrices if matrices.shape[1] == front[stacks] else matrices.mT
    return jnp.transpose(flat.reshape(front), np.argsort(order).tolist())


def _matrix_order(layout: Layout) -> tuple[list[int], int]:
    """Dimensions of a leaf, those that stack matrices first, then the model width; their number."""
    rank = {"stack": 0, "model": 1}
    roles = [muon_role(name) for name in layout.axes]
    order = sorted(range(len(roles)), key=lambda dim: rank.get(roles[dim] or "", 2))
    return order, roles.count("stack")
