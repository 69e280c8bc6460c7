"""LAMB's trust ratios on sharded parameters (You et al., arXiv 1904.00962, algorithm 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from sharding.axes import muon_role
from sharding.collectives import pmax, psum
from sharding.grid import Axes
from sharding.rules import ParameterSharding


class TrustRatios(NamedTuple):
    """The optimizer's state: the last step's trust ratios, float32 scalars.

    Attributes:
        least, mean, greatest: over all matrices whose ratio is known.
    """

    least: jax.Array
    mean: jax.Array
    greatest: jax.Array


def scale_by_trust_ratio(
    shardings: Mapping[Any, ParameterSharding], largest: float | None
) -> optax.GradientTransformation:
    """Scale the update u of every matrix w to the norm of the matrix: u times ||w|| / ||u||.

    Every layer of a stack and every expert has a ratio of its own. Where a norm is zero, as those
    of matrices that begin at zero and of padding, the ratio is 1 and is not counted.

    Args:
        shardings: sharding of every parameter, by path, in the order of sums over them; parameters
            without weight decay are scaled too, so leave them to another transformation.
        largest: bound of the ratios (phi in the paper); None for none.
    """

    def init(params: Any) -> TrustRatios:
        del params
        return TrustRatios(*[jnp.ones(()) for _ in TrustRatios._fields])

    def update(updates: Any, state: TrustRatios, params: Any) -> tuple[Any, TrustRatios]:
        del state
        ratios = jax.tree_util.tree_map_with_path(
            lambda path, u, w: _trust_ratio(w, u, shardings[path], largest), updates, params
        )
        scaled = jax.tree_util.tree_map_with_path(
            lambda path, u, ratio: (
                u * _expand_to_matrices(jnp.where(ratio > 0, ratio, 1), shardings[path])
            ),
            updates,
            ratios,
        )
        by_path = dict(jax.tree_util.tree_leaves_with_path(ratios))
        return scaled, _summarise_ratios(
            [(by_path[path], sharding) for path, sharding in shardings.items() if path in by_path]
        )

    return optax.GradientTransformation(init, update)


def trust_ratios(optimizer: Any) -> Mapping[str, jax.Array] | None:
    """The ratios of the last step in the state of an optimizer, by name; None if it has none."""
    nodes = jax.tree.leaves(optimizer, is_leaf=lambda node: isinstance(node, TrustRatios))
    states = [node for node in nodes if isinstance(node, TrustRatios)]
    return states[0]._asdict() if states else None


def with_trust_ratios(optimizer: Any, ratios: Mapping[str, jax.Array]) -> Any:
    """The state of an optimizer with other ratios of the last step."""
    return jax.tree.map(
        lambda node: TrustRatios(**ratios) if isinstance(node, TrustRatios) else node,
        optimizer,
        is_leaf=lambda node: isinstance(node, TrustRatios),
    )


def count_known_ratios(
    updates: Any, params: Any, shardings: Mapping[Any, ParameterSharding]
) -> jax.Array:
    """Number of the matrices whose ratios were known: norms of matrix and update are not zero.

    Args:
        updates: as they are added to the parameters, by learning rates above zero.
        params: the parameters before.
        shardings: shardings of the parameters that were scaled, by path.
    """
    weights, counts = dict(jax.tree_util.tree_leaves_with_path(params)), [jnp.zeros((), jnp.int32)]
    for path, update in jax.tree_util.tree_leaves_with_path(updates):
        if path in shardings:
            norms = [_matrix_norms(x, shardings[path]) for x in (weights[path], update)]
            known = jnp.sum((norms[0] > 0) & (norms[1] > 0), dtype=jnp.int32)
            counts.append(psum(known, _stack_axes(shardings[path])))
    return sum(counts[1:], counts[0])


def join_trust_ratios(
    groups: Sequence[tuple[Mapping[str, jax.Array], jax.Array]],
) -> dict[str, jax.Array]:
    """Ratios of all parameters, from those of groups of them and the number of known ones."""
    counts = jnp.stack([count for _, count in groups])
    least, mean, greatest = (
        jnp.stack([ratios[name] for ratios, _ in groups]) for name in TrustRatios._fields
    )
    joined = (
        jnp.min(jnp.where(counts > 0, least, jnp.inf)),
        jnp.sum(mean * counts) / jnp.maximum(jnp.sum(counts), 1),
        jnp.max(jnp.where(counts > 0, greatest, -jnp.inf)),
    )
    ends = (jnp.where(jnp.sum(counts) > 0, end, 1) for end in joined)
    return dict(zip(TrustRatios._fields, ends, strict=True))


def _trust_ratio(
    weights: jax.Array, update: jax.Array, sharding: ParameterSharding, largest: float | None
) -> jax.Array:
    """The trust ratio of every matrix of a leaf, `[stacks..]` float32; 0 where it is not known."""
    norms = [_matrix_norms(each, sharding) for each in (weights, update)]
    known = (norms[0] > 0) & (norms[1] > 0)
    ratio = norms[0] / jnp.where(known, norms[1], 1)
    return jnp.where(known, ratio if largest is None else jnp.minimum(ratio, largest), 0)


def _matrix_norms(x: jax.Array, sharding: ParameterSharding) -> jax.Array:
    """Euclidean norm of every matrix of a leaf, `[stacks..]` float32, over all of its shards."""
    dims = [dim for dim, stacked in enumerate(_stacked_dimensions(sharding)) if not stacked]
    squares = jnp.sum(jnp.square(x.astype(jnp.float32)), axis=dims)
    axes = tuple(axis for dim in dims for axis in sharding.mesh_axes[dim])
    return jnp.sqrt(psum(squares, axes))


def _expand_to_matrices(ratio: jax.Array, sharding: ParameterSharding) -> jax.Array:
    """`[stacks..]` with dimensions of size 1 for those of the matrices."""
    return jnp.expand_dims(
        ratio,
        [dim for dim, is_stacked in enumerate(_stacked_dimensions(sharding)) if not is_stacked],
    )


def _stacked_dimensions(sharding: ParameterSharding) -> list[bool]:
    """Whether every entry of a dimension has a matrix of its own, by dimension."""
    return [muon_role(name) == "stack" for name in sharding.axes]


def _summarise_ratios(ratios: list[tuple[jax.Array, ParameterSharding]]) -> TrustRatios:
    """Least, mean and greatest of all ratios that are known, the same on every rank."""
    if not ratios:
        return TrustRatios(*[jnp.ones(()) for _ in TrustRatios._fields])
    parts = [_of_leaf(ratio, _stack_axes(sharding)) for ratio, sharding in ratios]
    least, total, count, greatest = (jnp.stack(each) for each in zip(*parts, strict=True))
    known = jnp.sum(count)
    mean = jnp.sum(total) / jnp.maximum(known, 1)
    ends = jnp.min(least), mean, jnp.max(greatest)
    return TrustRatios(*[jnp.where(known > 0, end, 1) for end in ends])


def _of_leaf(ratio: jax.Array, axes: Axes) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Least, sum, number and greatest of the ratios of a leaf, over all ranks."""
    known = ratio > 0
    least = -pmax(jnp.max(jnp.where(known, -ratio, -jnp.inf)), axes)
    total, count = psum((jnp.sum(ratio), jnp.sum(known)), axes)
    return least, total, count, pmax(jnp.max(ratio), axes)


def _stack_axes(sharding: ParameterSharding) -> Axes:
    pairs = zip(sharding.mesh_axes, _stacked_dimensions(sharding), strict=True)
    return tuple(axis for axes, stacked in pairs if stacked for axis in axes)
