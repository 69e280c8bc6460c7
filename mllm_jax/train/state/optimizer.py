"""AdamW, LAMB and Muon on sharded parameters.

Everything here runs inside the train step's manual `shard_map`: leaves are local shards, and what
needs the whole array (the global norm, Muon's orthogonalization) says so with collectives.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from mllm_jax.config.load import LambConfig, MuonConfig, OptimizerConfig, TrainConfig
from mllm_jax.layers.roles import find_role
from mllm_jax.models.freeze import NOTHING_FROZEN, FrozenParameters, part_of_leaf
from mllm_jax.train.state.lamb import count_known_ratios, scale_by_trust_ratio
from mllm_jax.train.state.loads import follow_loads, is_load
from sharding.axes import is_matrix, muon_role
from sharding.collectives import all_to_all, axis_size, join_slices, psum, shard_slice
from sharding.grid import Axes
from sharding.rules import ParameterSharding

#: Quintic Newton-Schulz coefficients of Muon (Jordan et al., 2024).
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)


def build_optimizer(
    config: TrainConfig,
    shardings: Any,
    frozen: FrozenParameters = NOTHING_FROZEN,
    bias_rate: float = 0.0,
    modules: Collection[str] | None = None,
) -> optax.GradientTransformationExtraArgs:
    """The configured optimizer for the parameters with gradients, which have these `shardings`.

    Its update takes the norm of all gradients as `norm`, or computes it.

    Args:
        config: section `train`.
        shardings: tree of `ParameterSharding` with the structure of all parameters, modules in the
            order in which sums over parameters run.
        frozen: parameters without gradients.
        bias_rate: step of the biases that follow the load of experts.
        modules: modules whose parameters are updated; by default all.
    """
    chosen = config.optimizer
    trained, constant = frozen.partition(shardings)
    labels = jax.tree_util.tree_map_with_path(
        lambda path, leaf, still: "frozen" if still else _update_kind(chosen, path, leaf),
        trained,
        frozen.frozen_mask(trained),
    )
    parts = {"adamw": _build_adamw(config)}
    if isinstance(chosen, MuonConfig):
        parts["muon"] = _build_muon(config, chosen, shardings)
    elif isinstance(chosen, LambConfig):
        parts["lamb"] = _build_lamb(config, chosen, shardings)
    used = {*jax.tree.leaves(labels)}
    if modules is not None:
        labels = {name: labels[name] for name in labels if name in modules}
    if "load" in used:
        parts["load"] = follow_loads(bias_rate)
    optimizer: optax.GradientTransformation
    if len(parts) == 1 and not constant:
        optimizer = parts["adamw"]
    else:
        optimizer = optax.partition(parts | {"frozen": optax.set_to_zero()}, labels)
    clip = clip_by_global_norm(config.clip_norm, shardings)
    return optax.chain(clip, optimizer, _scale_groups(config))


def _scale_groups(config: TrainConfig) -> optax.GradientTransformation:
    """Updates times the group's learning rate over the usual one, to which they are linear."""

    def scale(path: tuple[Any, ...], leaf: jax.Array) -> jax.Array:
        group = None if is_load(path) else config.groups.get(part_of_leaf(path))
        return leaf if group is None else leaf * (group.learning_rate / config.learning_rate)

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del params
        return jax.tree_util.tree_map_with_path(scale, updates), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def _update_kind(
    chosen: OptimizerConfig, path: tuple[Any, ...], sharding: ParameterSharding
) -> str:
    if is_load(path):
        return "load"
    if isinstance(chosen, MuonConfig) and is_matrix(sharding.axes):
        return "muon"
    return "lamb" if isinstance(chosen, LambConfig) and has_decay(path) else "adamw"


def _build_adamw(config: TrainConfig) -> optax.GradientTransformation:
    chosen, schedule = config.optimizer, learning_rate(config)
    ratio = chosen.adam_learning_rate_ratio if isinstance(chosen, MuonConfig) else 1.0
    return optax.adamw(
        lambda step: ratio * schedule(step),
        b1=chosen.beta1,
        b2=chosen.beta2,
        eps=chosen.epsilon,
        weight_decay=config.weight_decay,
        mask=lambda params: jax.tree_util.tree_map_with_path(
            lambda path, _: has_decay(path), params
        ),
    )


def _build_lamb(
    config: TrainConfig, chosen: LambConfig, shardings: Any
) -> optax.GradientTransformation:
    return optax.chain(
        optax.scale_by_adam(chosen.beta1, chosen.beta2, chosen.epsilon),
        optax.add_decayed_weights(config.weight_decay),
        scale_by_trust_ratio(_by_path(shardings), chosen.largest_ratio),
        optax.scale_by_learning_rate(learning_rate(config)),
    )


def _build_muon(
    config: TrainConfig, chosen: MuonConfig, shardings: Any
) -> optax.GradientTransformation:
    return optax.chain(
        optax.trace(decay=chosen.momentum, nesterov=chosen.nesterov),
        orthogonalize_matrices(shardings, chosen.iterations),
        optax.add_decayed_weights(config.weight_decay),
        optax.scale_by_learning_rate(learning_rate(config)),
    )


def learning_rate(config: TrainConfig) -> optax.Schedule:
    """The learning rate of every update, by the number of updates before it.

    Linear warm-up to the peak, which the first update after it has, then cosine decay, so that the
    last update has `final_learning_rate_ratio` of the peak. An only update has the peak. A warm-up
    that is not shorter than the run is cut off.
    """
    peak, warmup, last = config.learning_rate, config.warmup_steps, config.steps - 1
    rise = optax.linear_schedule(peak / max(warmup, 1), peak, warmup)
    if last == 0 or last < warmup:
        return rise
    fall = optax.constant_schedule(peak * config.final_learning_rate_ratio)
    if last > warmup:
        fall = optax.cosine_decay_schedule(peak, last - warmup, config.final_learning_rate_ratio)
    return optax.join_schedules([rise, fall], [warmup])


def has_decay(path: tuple[Any, ...]) -> bool:
    """Whether weight decay applies to the parameter with this path: by its name, see `ROLES`."""
    return find_role(path[-1].key).decays


def count_trust_ratios(updates: Any, params: Any, shardings: Any) -> jax.Array:
    """Number of the matrices whose trust ratios were known in an update of LAMB.

    Args:
        updates, params: as of `count_known_ratios`.
        shardings: tree of `ParameterSharding` of all parameters.
    """
    by_path = _by_path(shardings).items()
    scaled = {path: leaf for path, leaf in by_path if has_decay(path) and not is_load(path)}
    return count_known_ratios(updates, params, scaled)


def part_norms(grads: Any, shardings: Any) -> dict[str, jax.Array]:
    """Euclidean norm of every part of the model over all shards of all leaves but loads.

    Returns:
        By name of the part (`part_of_leaf`), the same scalar on every rank.
    """
    local: dict[Axes, dict[str, jax.Array]] = defaultdict(dict)
    leaves = dict(jax.tree_util.tree_leaves_with_path(grads))
    for path, sharding in _by_path(shardings).items():
        if path not in leaves or is_load(path):
            continue
        sharded_axes, part = local[sharding.sharded], part_of_leaf(path)
        square = jnp.sum(jnp.square(leaves[path].astype(jnp.float32)))
        sharded_axes[part] = sharded_axes.get(part, jnp.zeros(())) + square
    total: dict[str, jax.Array] = defaultdict(lambda: jnp.zeros(()))
    for axes, squares in local.items():
        for part, square in zip(squares, psum(jnp.stack([*squares.values()]), axes), strict=True):
            total[part] += square
    return {part: jnp.sqrt(square) for part, square in total.items()}


def total_norm(norms: Mapping[str, jax.Array]) -> jax.Array:
    """Euclidean norm of all parts together."""
    return jnp.sqrt(sum((jnp.square(norm) for norm in norms.values()), jnp.zeros(())))


def global_norm(grads: Any, shardings: Any) -> jax.Array:
    """Euclidean norm over all shards of all leaves but loads, the same scalar on every rank."""
    return total_norm(part_norms(grads, shardings))


def clip_by_global_norm(limit: float | None, shardings: Any) -> optax.GradientTransformation:
    """Scale the gradient down to global norm `limit`; None leaves it as it is.

    The update takes the norm as `norm`, where other devices have a part of the gradient.
    """
    if limit is None:
        return optax.identity()

    def update(
        updates: Any, state: Any, params: Any = None, *, norm: Any = None, **others: Any
    ) -> tuple[Any, Any]:
        del params, others
        norm = global_norm(updates, shardings) if norm is None else norm
        scale = jnp.minimum(1.0, limit / (norm + 1e-12))
        return jax.tree.map(lambda g: g * scale.astype(g.dtype), updates), state

    return optax.GradientTransformationExtraArgs(lambda params: optax.EmptyState(), update)


def orthogonalize_matrices(shardings: Any, iterations: int) -> optax.GradientTransformation:
    """Replace every matrix by its nearest semi-orthogonal one, scaled like an Adam update.

    Each matrix is orthogonalized once in the cluster, by one of the ranks that have it or a block
    of it; see `_orthogonalize_shared`. The scale is 0.2 sqrt(max(rows, columns)): Liu et al., "Muon
    is scalable for LLM training" (2025), section 2.2.
    """
    by_path = _by_path(shardings)

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del params
        leaves = dict(jax.tree_util.tree_leaves_with_path(updates))
        present = [path for path in by_path if path in leaves]
        sides = {path: _MatrixStack.from_shard(leaves[path], by_path[path]) for path in present}
        stacks = [side.to_matrices(leaves[path]) for path, side in sides.items()]
        done = _by_kind(stacks, [side.kind for side in sides.values()], iterations)
        out = {
            path: side.from_matrices(x) for (path, side), x in zip(sides.items(), done, strict=True)
        }
        return jax.tree_util.tree_map_with_path(lambda path, _: out[path], updates), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


@dataclass(frozen=True)
class _MatrixKind:
    """The properties that matrices share which are orthogonalized together.

    Attributes:
        shape: rows and columns of a rank's block; whole matrices have no more rows than columns.
        rows: grid axes that share the rows of a matrix.
        columns: grid axes that share its columns.
        replicas: grid axes along which ranks have the same blocks.
    """

    shape: tuple[int, int]
    rows: Axes
    columns: Axes
    replicas: Axes


@dataclass(frozen=True)
class _MatrixStack:
    """How a rank's shard of a parameter is a stack of blocks of matrices.

    Layers and experts have matrices of their own. The model width is one side, all other dimensions
    together are the other; in which order ranks share these does not matter, as orthogonalization
    commutes with permutations of columns.

    Attributes:
        order: dimensions of the shard: those of the stack, the model width, the others.
        front: its shape in this order.
        stacks: number of the dimensions of the stack.
        flipped: whether the model width is the columns.
        kind: of the matrices.
    """

    order: tuple[int, ...]
    front: tuple[int, ...]
    stacks: int
    flipped: bool
    kind: _MatrixKind

    @classmethod
    def from_shard(cls, x: jax.Array, sharding: ParameterSharding) -> _MatrixStack:
        """Make it for the shard `x` of a parameter with this sharding."""
        rank = {"stack": 0, "model": 1}
        roles = [muon_role(name) for name in sharding.axes]
        order = tuple(sorted(range(x.ndim), key=lambda dim: rank.get(roles[dim] or "", 2)))
        stacks = roles.count("stack")
        front = tuple(x.shape[dim] for dim in order)
        width, *others = (sharding.mesh_axes[dim] for dim in order[stacks:])
        axes = width, tuple(axis for dim_axes in others for axis in dim_axes)
        shape = front[stacks], math.prod(front[stacks + 1 :])
        full_shape = [
            size * axis_size(dim_axes) for size, dim_axes in zip(shape, axes, strict=True)
        ]
        flipped = full_shape[0] > full_shape[1]
        if flipped:
            shape, axes = shape[::-1], axes[::-1]
        return cls(order, front, stacks, flipped, _MatrixKind(shape, *axes, sharding.replicated))

    def to_matrices(self, x: jax.Array) -> jax.Array:
        """The shard as `[blocks, rows, columns]`."""
        width, *others = self.front[self.stacks :]
        flat = jnp.transpose(x, self.order).reshape(-1, width, math.prod(others))
        return flat.mT if self.flipped else flat

    def from_matrices(self, blocks: jax.Array) -> jax.Array:
        """The inverse of `matrices`."""
        flat = blocks.mT if self.flipped else blocks
        return jnp.transpose(flat.reshape(self.front), np.argsort(self.order).tolist())


def newton_schulz(matrices: jax.Array, iterations: int) -> jax.Array:
    """Orthogonalize `[n, rows, columns]`, rows <= columns, by a quintic iteration."""
    a, b, c = NEWTON_SCHULZ
    x = matrices / (jnp.linalg.norm(matrices, axis=(1, 2), keepdims=True) + 1e-7)
    for _ in range(iterations):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


def _by_kind(
    stacks: Sequence[jax.Array], kinds: Sequence[_MatrixKind], iterations: int
) -> list[jax.Array]:
    """Pieces `[n, rows, columns]` of several kinds of matrices, those of a kind together."""
    members: dict[_MatrixKind, list[int]] = defaultdict(list)
    for i, kind in enumerate(kinds):
        members[kind].append(i)
    out = list(stacks)
    for kind, paths in members.items():
        ends = list(accumulate(stacks[i].shape[0] for i in paths))[:-1]
        done = _orthogonalize_shared(jnp.concatenate([stacks[i] for i in paths]), kind, iterations)
        for i, part in zip(paths, jnp.split(done, ends), strict=True):
            out[i] = part
    return out


def _orthogonalize_shared(blocks: jax.Array, kind: _MatrixKind, iterations: int) -> jax.Array:
    """Orthogonalize matrices of which every rank has a block, `[n, rows, columns]`.

    Replicas share the matrices out, and the ranks that share those of a replica give each of them
    whole to one of them, by an all-to-all; results go back likewise. A rank never holds more than
    its share of whole matrices, or one::

        rank 0   a0 b0 c0 d0        a0 a1 b0 b1        A0 B0 C0 D0
        rank 1   a1 b1 c1 d1   ->   c0 c1 d0 d1   ->   A1 B1 C1 D1
    """
    count = blocks.shape[0]
    mine = shard_slice(_pad_to_multiple(blocks, axis_size(kind.replicas)), kind.replicas, dim=0)
    share, sides = mine.shape[0], ((1, kind.rows), (2, kind.columns))
    padded = _pad_to_multiple(mine, axis_size((*kind.rows, *kind.columns)))
    for dim, axes in sides:
        padded = all_to_all(padded, axes, split=0, concat=dim)
    done = 0.2 * max(padded.shape[1:]) ** 0.5 * newton_schulz(padded, iterations)
    for dim, axes in reversed(sides):
        done = all_to_all(done, axes, split=dim, concat=0)
    return join_slices(done[:share], kind.replicas, dim=0)[:count]


def _pad_to_multiple(stack: jax.Array, ranks: int) -> jax.Array:
    """A stack with zeros after it, so that so many ranks have as many entries each."""
    return jnp.pad(stack, ((0, -stack.shape[0] % ranks), (0, 0), (0, 0)))


def _by_path(shardings: Mapping[str, Any]) -> dict[Any, ParameterSharding]:
    """All shardings by path, modules in their order here; JAX orders them by their names.

    Sums over leaves follow it, so that their bits do not depend on the names of modules.
    """
    modules = ({name: tree} for name, tree in shardings.items())
    return {
        path: sharding
        for module in modules
        for path, sharding in jax.tree_util.tree_leaves_with_path(module)
    }
