"""One table of logical axes: what reads it agrees, and an axis that is not in it is refused."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import PartitionSpec as P

from scheduling.costs.shares import local_elements
from scheduling.costs.work import ModulePart, ModuleProfile, ModuleWork
from sharding.axes import LOGICAL_AXES, LogicalAxes, is_matrix, logical_axis
from sharding.collectives import all_gather, psum, vary
from sharding.grid import JointGrid, MeshView
from sharding.mesh import make_mesh
from sharding.plan import AXES, ParallelPlan, divisors_of
from sharding.rules import ParameterSharding, gather_parameters, parameter_shardings

NOTHING = ModulePart(ModuleWork(0, 0), 0)
#: Of every named axis; only the vocabulary need not divide.
SIZES = {"experts": 24, "embed": 24, "heads": 24, "kv_heads": 4, "mlp": 48, "vocab": 31, None: 5}


def tower(parameters: dict[LogicalAxes, int]) -> ModuleProfile:
    values: dict[str, Any] = {"stride": 1, "reduction": 1, "features": 0, "blocks": 2, "heads": 24}
    values |= {"layers": 1, "width": 24, "head_dim": 2}
    values |= {"vocab": SIZES["vocab"], "kv_heads": SIZES["kv_heads"]}
    return ModuleProfile(
        **values,
        start=NOTHING,
        layer=NOTHING,
        end=NOTHING,
        layer_parameters=parameters,
        rest_parameters={},
    )


@st.composite
def plans(draw: st.DrawFn) -> ParallelPlan:
    left, degrees = 24, {}
    for axis in AXES:
        degrees[axis] = draw(st.sampled_from(divisors_of(left)))
        left //= degrees[axis]
    return ParallelPlan(**degrees)


@given(plans(), st.lists(st.sampled_from(list(SIZES)), min_size=1, max_size=4, unique=True))
def test_layouts_and_the_memory_model_count_the_same(plan: ParallelPlan, names: list[Any]) -> None:
    axes, shape = tuple(names), tuple(SIZES[name] for name in names)
    view = JointGrid.build({"decoder": plan}, kv_heads=SIZES["kv_heads"]).backbone
    if {"heads", "kv_heads", "mlp", "vocab"} & {*axes} and len(
        {"heads", "kv_heads", "mlp", "vocab"} & {*axes}
    ) > 1:
        return  # no parameter has two dimensions that tensor ranks share
    layout = ParameterSharding(axes, view)
    own = math.prod(
        size // view.degree_of(mesh_axes)
        for size, mesh_axes in zip(layout.padded_shape(shape), layout.mesh_axes, strict=True)
    )
    count = math.prod(shape)
    assert local_elements(tower({axes: count}), {axes: count}, plan) == pytest.approx(own)
    assert {*layout.sharded} | {*layout.replicated} == {*view.all_axes}
    assert ({*view.expert} <= {*layout.replicated}) == ("experts" not in axes or not view.expert)


def test_an_unknown_axis_is_an_error_that_names_it_and_the_valid_ones() -> None:
    view = MeshView()
    parameters: dict[LogicalAxes, int] = {("embed", "expertz"): 8}
    for read in (
        lambda: logical_axis("expertz"),
        lambda: ParameterSharding(("embed", "expertz"), view).spec,
        lambda: ParameterSharding(("embed", "expertz"), view).padded_shape((2, 4)),
        lambda: gather_parameters(jnp.ones(2), ("expertz",), MeshView(fsdp=("fsdp",))),
        lambda: local_elements(tower(parameters), parameters, ParallelPlan()),
        lambda: is_matrix(("embed", "expertz")),
    ):
        with pytest.raises(
            ValueError, match="'expertz' is unknown; valid: chunks, layers"
        ) as error:
            read()
        assert all(name in str(error.value) for name in LOGICAL_AXES)


ROWS, WIDTH, HIDDEN, EXPERTS = 8, 4, 6, 4
TREE = {"shared": ("embed", None), "experts": ("experts", "embed", "mlp")}


def mixture(params: Any, x: jax.Array, chosen: jax.Array, view: MeshView) -> jax.Array:
    """A layer of experts, all of them on every rank: sum of what each row's own makes of it."""
    gathered = gather_parameters(params, TREE, view)
    every = all_gather(gathered["experts"], view.expert, dim=0)
    hidden = jnp.einsum("rw,rwh->rh", jnp.tanh(x @ gathered["shared"]), every[chosen])
    return psum(jnp.sum(jnp.sin(hidden)), view.batch_axes + view.tensor)


def gradients(plan: ParallelPlan, params: Any, x: Any, chosen: Any) -> Any:
    view = JointGrid.build({"decoder": plan}).backbone
    layout = parameter_shardings(TREE, view)

    def body(params: Any, x: jax.Array, chosen: jax.Array) -> Any:
        varying = vary(params, view.all_axes)
        total, grads = jax.value_and_grad(mixture)(varying, x, chosen, view)
        return psum(total, ()), jax.tree.map(
            lambda g, leaf: psum(g, leaf.replicated), grads, layout
        )

    specs, rows = jax.tree.map(lambda leaf: leaf.spec, layout), P(view.batch_axes or None)
    grid = JointGrid.build({"decoder": plan})
    mesh = make_mesh(grid, jax.devices()[: grid.devices])
    run = jax.shard_map(body, mesh=mesh, in_specs=(specs, rows, rows), out_specs=(P(), specs))
    return jax.tree.map(np.asarray, jax.jit(run)(params, x, chosen))


def test_experts_are_split_and_all_else_is_replicated_over_their_ranks() -> None:
    """Rows are distributed over data, fsdp and expert ranks; gradients are those of one device."""
    rng = np.random.default_rng(0)
    shapes = {"shared": (WIDTH, WIDTH), "experts": (EXPERTS, WIDTH, HIDDEN)}
    params = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    x = rng.normal(size=(ROWS, WIDTH)).astype(np.float32)
    chosen = rng.integers(EXPERTS, size=ROWS)
    total, expected = gradients(ParallelPlan(), params, x, chosen)
    for plan in (ParallelPlan(data=2, expert=2, tensor=2), ParallelPlan(fsdp=2, expert=4)):
        loss, result = gradients(plan, params, x, chosen)
        np.testing.assert_allclose(loss, total, rtol=1e-6)
        for name, leaf in expected.items():
            np.testing.assert_allclose(result[name], leaf, rtol=2e-5, atol=1e-6)
