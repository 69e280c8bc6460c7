"""Trust ratios of single matrices, whatever the size of their updates."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

from mllm_jax.train.state.lamb import (
    count_known_ratios,
    join_trust_ratios,
    scale_by_trust_ratio,
    trust_ratios,
)
from sharding.grid import JointGrid
from sharding.plan import ParallelPlan
from sharding.rules import parameter_shardings

AXES = {"up": {"kernel": ("layers", "embed", "mlp")}, "out": {"kernel": ("heads", None, "embed")}}
SHAPES = {"up": {"kernel": (2, 3, 4)}, "out": {"kernel": (2, 2, 3)}}


def drawn(seed: int, scale: float) -> dict[str, dict[str, jax.Array]]:
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda shape: jnp.asarray(scale * rng.normal(size=shape), jnp.float32),
        SHAPES,
        is_leaf=lambda own: isinstance(own, tuple),
    )


@pytest.mark.parametrize("largest", [None, 2.0])
@pytest.mark.parametrize("update", [1e-6, 1e-2, 1.0, 1e3])
@pytest.mark.parametrize("weight", [1e-3, 1.0])
def test_updates_of_any_size_get_the_norm_of_their_matrices(
    weight: float, update: float, largest: float | None
) -> None:
    """By hand, each matrix by itself."""
    layout = parameter_shardings(AXES, JointGrid.build({"decoder": ParallelPlan()}).backbone)
    paths = dict(jax.tree_util.tree_leaves_with_path(layout))
    weights, updates = drawn(0, weight), drawn(1, update)
    scaling = scale_by_trust_ratio(paths, largest)

    def scaled(updates: object, weights: object) -> tuple[object, object]:
        found, state = scaling.update(updates, scaling.init(weights), weights)
        return found, trust_ratios(state)

    mesh = Mesh(np.array(jax.devices()[:1]), ("data",))
    own = jax.shard_map(scaled, mesh=mesh, in_specs=PartitionSpec(), out_specs=PartitionSpec())
    found, told = jax.jit(own)(updates, weights)
    ratios = []
    for name, rows in (("up", 2), ("out", 1)):
        parts = [tree[name]["kernel"].reshape(rows, -1) for tree in (found, updates, weights)]
        for own, before, matrix in zip(*parts, strict=True):
            ratio = float(jnp.linalg.norm(matrix) / jnp.linalg.norm(before))
            ratios.append(ratio if largest is None else min(ratio, largest))
            np.testing.assert_allclose(own, ratios[-1] * before, rtol=1e-5)
    expected = {"least": min(ratios), "mean": sum(ratios) / 3, "greatest": max(ratios)}
    assert {name: float(own) for name, own in told.items()} == pytest.approx(expected, rel=1e-5)


def test_groups_of_parameters_tell_the_ratios_of_all() -> None:
    """A matrix of zeros has no known ratio, and a group of them none at all."""
    layout = parameter_shardings(AXES, JointGrid.build({"decoder": ParallelPlan()}).backbone)
    weights, updates = drawn(0, 1.0), drawn(1, 0.1)
    weights["up"]["kernel"] = weights["up"]["kernel"].at[0].set(0)

    def told(names: tuple[str, ...]) -> tuple[Any, jax.Array]:
        paths = dict(jax.tree_util.tree_leaves_with_path({n: layout[n] for n in names}))
        scaling = scale_by_trust_ratio(paths, None)
        own = [{name: tree[name] for name in names} for tree in (updates, weights)]
        scaled, state = scaling.update(own[0], scaling.init(own[1]), own[1])
        return trust_ratios(state), count_known_ratios(scaled, own[1], paths)

    def run(_: jax.Array) -> object:
        return told(("up", "out"))[0], join_trust_ratios([told(("up",)), told(("out",)), told(())])

    mesh = Mesh(np.array(jax.devices()[:1]), ("data",))
    own = jax.shard_map(run, mesh=mesh, in_specs=PartitionSpec(), out_specs=PartitionSpec())
    whole, joined = jax.tree.map(float, jax.jit(own)(jnp.zeros(())))
    assert joined == pytest.approx(whole, rel=1e-6)
