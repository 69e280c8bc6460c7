"""The optimizers on shards equal the optimizers on whole arrays."""

from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec as P

from mllm_jax.config.load import TrainConfig
from mllm_jax.config.sections import MuonConfig, OptimizerConfig
from mllm_jax.models.freeze import NOTHING_FROZEN, FrozenParameters
from mllm_jax.train.state.lamb import trust_ratios
from mllm_jax.train.state.loads import follow_loads
from mllm_jax.train.state.optimizer import (
    build_optimizer,
    global_norm,
    learning_rate,
    newton_schulz,
    orthogonalize_matrices,
)
from mllm_jax.train.step.step import specs_like
from sharding.grid import JointGrid, MeshView
from sharding.mesh import make_mesh
from sharding.plan import ParallelPlan
from sharding.rules import parameter_shardings

AXES = {
    "table": {"embedding": ("vocab", "embed")},
    "layers": {
        "q": {"kernel": ("layers", "embed", "heads", None)},
        "k": {"kernel": ("layers", "embed", "kv_heads", None)},
        "out": {"kernel": ("layers", "heads", None, "embed")},
        "up": {"kernel": ("layers", "embed", "mlp")},
        "experts": {"kernel": ("layers", "experts", "embed", "mlp")},
        "bias": {"bias": ("layers", "mlp")},
        "norm": {"scale": ("layers", "embed")},
    },
}
SHAPES = {
    "table": {"embedding": (8, 4)},
    "layers": {
        "q": {"kernel": (3, 4, 4, 4)},
        "k": {"kernel": (3, 4, 2, 3)},
        "out": {"kernel": (3, 4, 4, 4)},
        "up": {"kernel": (3, 4, 16)},
        "experts": {"kernel": (3, 4, 4, 8)},
        "bias": {"bias": (3, 16)},
        "norm": {"scale": (3, 4)},
    },
}
#: Which of them decay.
DECAYS = {
    "table": {"embedding": True},
    "layers": {
        **{name: {"kernel": True} for name in ("q", "k", "out", "up", "experts")},
        "bias": {"bias": False},
        "norm": {"scale": False},
    },
}


def arrays(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    found = jax.tree.map(
        lambda shape: jnp.asarray(rng.normal(size=shape), jnp.float32),
        SHAPES,
        is_leaf=lambda x: isinstance(x, tuple),
    )
    # Padding of the vocabulary.
    return found | {"table": {"embedding": found["table"]["embedding"].at[-1].set(0)}}


def updated(
    config: TrainConfig, plan: ParallelPlan, rounds: int = 3, start: Any = None
) -> tuple[Any, Any]:
    """Parameters and trust ratios after some updates with given gradients under `plan`."""
    grid = JointGrid.build({"decoder": plan}, kv_heads=2)
    layout = parameter_shardings(AXES, grid.backbone)
    optimizer = build_optimizer(config, layout)
    specs = jax.tree.map(lambda leaf: leaf.spec, layout)
    state_specs = specs_like(jax.eval_shape(optimizer.init, arrays(0)), layout)

    def update(params: Any, state: Any, grads: Any) -> tuple[Any, Any]:
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    step = jax.jit(
        jax.shard_map(
            update,
            mesh=make_mesh(grid, jax.devices()[: grid.devices]),
            in_specs=(specs, state_specs, specs),
            out_specs=(specs, state_specs),
        )
    )
    params = start or arrays(0)
    state = optimizer.init(params)
    for i in range(rounds):
        params, state = step(params, state, arrays(i + 1))
    ratios = trust_ratios(state)
    return jax.tree.map(np.asarray, params), ratios and {k: float(v) for k, v in ratios.items()}


def train_config(kind: str, **changes: Any) -> TrainConfig:
    values = {"steps": 10, "learning_rate": 0.1, "optimizer": {"kind": kind}} | changes
    return TrainConfig.model_validate(values)


@pytest.mark.parametrize("kind", ["adamw", "lamb", "muon"])
@pytest.mark.parametrize(
    "plan", [ParallelPlan(data=2, expert=2, tensor=2), ParallelPlan(fsdp=2, tensor=4)], ids=str
)
def test_sharded_updates_equal_those_of_one_device(kind, plan):
    config = train_config(kind)
    (got, ratios), (expected, wanted) = updated(config, plan), updated(config, ParallelPlan())
    assert (ratios or {}) == pytest.approx(wanted or {}, rel=1e-5)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)
    assert got["table"]["embedding"][:-1].all()
    assert not got["table"]["embedding"][-1].any()


def apart(tree: Any) -> Any:
    """Every matrix of a stack as a leaf of its own."""

    def split(axes: Any, x: Any) -> Any:
        count = sum(name in ("layers", "experts") for name in axes)
        return [*x.reshape(-1, *x.shape[count:])]

    return jax.tree.map(split, AXES, tree, is_leaf=lambda x: isinstance(x, tuple))


def test_adamw_equals_optax_with_its_own_clipping():
    config = train_config("adamw", weight_decay=0.3)
    reference = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(
            learning_rate(config),
            b1=0.9,
            b2=0.95,
            weight_decay=0.3,
            mask=DECAYS,
        ),
    )
    params, state = arrays(0), reference.init(arrays(0))
    for i in range(3):
        updates, state = reference.update(arrays(i + 1), state, params)
        params = optax.apply_updates(params, updates)
    got, _ = updated(config, ParallelPlan())
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(params), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


#: A bound below all ratios.
BOUND = 1e-3


@pytest.mark.parametrize("bound", [None, BOUND])
def test_lamb_equals_optax_with_a_ratio_for_every_matrix(bound):
    own = {"kind": "lamb", "largest_ratio": bound}
    config = train_config("lamb", optimizer=own, weight_decay=0.3, clip_norm=None)
    params = apart(arrays(0))
    matrices = jax.tree.map(lambda decay, own: [decay] * len(own), DECAYS, params)
    trust = optax.scale_by_trust_ratio() if bound is None else optax.scale(bound)
    reference = optax.chain(
        optax.scale_by_adam(0.9, 0.999, 1e-6),
        optax.add_decayed_weights(0.3, matrices),
        optax.masked(trust, matrices),
        optax.scale_by_learning_rate(learning_rate(config)),
    )
    state = reference.init(params)
    for i in range(3):
        updates, state = reference.update(apart(arrays(i + 1)), state, params)
        params = optax.apply_updates(params, updates)
    got, ratios = updated(config, ParallelPlan())
    for a, b in zip(jax.tree.leaves(apart(got)), jax.tree.leaves(params), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    if bound is not None:
        assert ratios == pytest.approx(dict.fromkeys(ratios, bound))


def test_trust_ratios_of_matrices_that_are_zero_are_not_counted():
    start = arrays(0)
    start["layers"]["up"]["kernel"] = start["layers"]["up"]["kernel"].at[1].set(0)
    own = {"kind": "lamb", "epsilon": 1e-12}
    config = train_config("lamb", optimizer=own, weight_decay=0.0, warmup_steps=0, clip_norm=None)
    moved, ratios = updated(config, ParallelPlan(), rounds=1, start=start)
    # The first update of Adam is a sign; its ratio of 1 moves a matrix by the learning rate.
    np.testing.assert_allclose(np.abs(moved["layers"]["up"]["kernel"][1]), 0.1, rtol=1e-4)
    found = jax.tree.map(lambda decay, own: own if decay else [], DECAYS, apart(start))
    known = [each for each in jax.tree.leaves(found) if each.any()]
    sizes = [jnp.linalg.norm(each) / jnp.count_nonzero(each) ** 0.5 for each in known]
    expected = {"least": min(sizes), "mean": sum(sizes) / len(sizes), "greatest": max(sizes)}
    assert ratios == pytest.approx({k: float(v) for k, v in expected.items()}, rel=1e-4)


def test_muon_updates_are_nearly_orthogonal_and_scaled():
    config = train_config("muon", weight_decay=0.0, warmup_steps=0, clip_norm=None)
    moved = updated(config, ParallelPlan(data=2), rounds=1)[0]["layers"]["up"][
        "kernel"
    ] - np.asarray(arrays(0)["layers"]["up"]["kernel"])
    values = np.linalg.svd(moved / (0.1 * 0.2 * 16**0.5), compute_uv=False)
    assert values.min() > 0.5
    assert values.max() < 1.3


def test_newton_schulz_keeps_the_singular_vectors():
    matrix = np.random.default_rng(0).normal(size=(1, 4, 6)).astype(np.float32)
    u, _, v = np.linalg.svd(matrix, full_matrices=False)
    core = u.mT @ np.asarray(newton_schulz(jnp.asarray(matrix), 5)) @ v.mT
    off_diagonal = core - core * np.eye(4)
    assert np.abs(off_diagonal).max() < 1e-3
    assert np.abs(np.diagonal(core, axis1=1, axis2=2) - 1).max() < 0.4


def test_what_no_model_trains_stays_as_it_is():
    tree = {"positions": {"fixed": (None, "embed")}, "table": {"embedding": ("vocab", "embed")}}
    layout = parameter_shardings(tree, JointGrid.build({"decoder": ParallelPlan()}).backbone)
    optimizer = build_optimizer(TrainConfig(steps=3, learning_rate=0.1), layout)
    params = {"positions": {"fixed": jnp.ones((3, 4))}, "table": {"embedding": jnp.ones((3, 4))}}
    trained, constant = NOTHING_FROZEN.partition({"decoder": params})
    assert constant == {"decoder": {"positions": params["positions"]}}
    state = optimizer.init(trained["decoder"])
    updates, _ = optimizer.update(trained["decoder"], state, trained["decoder"])
    assert np.asarray(updates["table"]["embedding"]).all()
    # Nor are there moments of it.
    assert sum(leaf.ndim > 0 for leaf in jax.tree.leaves(state)) == 2


def test_a_bias_follows_the_load_of_its_expert_and_nothing_else():
    """Neither learning rate, weight decay nor clipping have a part in it, nor it in the norm."""
    tree = {"router": {"load_bias": ("layers", None)}, "up": {"kernel": ("layers", "embed", "mlp")}}
    layout = parameter_shardings(tree, JointGrid.build({"decoder": ParallelPlan()}).backbone)
    optimizer = build_optimizer(train_config("adamw"), layout, bias_rate=0.25)
    loads = jnp.array([[0.1, 0.9, 0.5], [0.5, 0.5, 0.5]])
    grads = {"router": {"load_bias": loads}, "up": {"kernel": jnp.ones((2, 4, 8))}}
    params = jax.tree.map(jnp.ones_like, grads)
    updates, _ = optimizer.update(grads, optimizer.init(params), params)
    np.testing.assert_array_equal(updates["router"]["load_bias"], [[0.25, -0.25, 0], [0, 0, 0]])
    assert float(global_norm(grads, layout)) == pytest.approx(8.0)


def test_a_bias_stays_where_the_load_is_no_number():
    loads = {"load_bias": jnp.array([[jnp.nan] * 3, [0.1, 0.9, 0.5]])}
    updates, _ = follow_loads(0.25).update(loads, optax.EmptyState())
    np.testing.assert_array_equal(updates["load_bias"], [[0, 0, 0], [0.25, -0.25, 0]])


@pytest.mark.parametrize("chosen", get_args(get_args(OptimizerConfig)[0]))
def test_the_memory_model_counts_the_moments_that_an_optimizer_keeps(chosen):
    """The number is that of a matrix, as all large parameters but tables are."""
    kind = get_args(chosen.model_fields["kind"].annotation)[0]
    layout = parameter_shardings({"decoder": {"kernel": ("layers", "embed", "mlp")}}, MeshView())
    params = {"decoder": {"kernel": jnp.ones((2, 4, 8))}}
    state = build_optimizer(train_config(kind), layout).init(params)
    assert sum(leaf.ndim > 0 for leaf in jax.tree.leaves(state)) == chosen.moments


def test_every_expert_has_matrices_of_its_own():
    """An expert is like a layer of a dense model, wherever the axis of experts stands."""
    experts = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4, 5, 8)), jnp.float32)
    leaves = {
        "experts": (("layers", "experts", "embed", "mlp"), experts),
        "down": (("layers", "mlp", "experts", "embed"), experts.transpose(0, 3, 1, 2)),
        "layers": (("layers", "embed", "mlp"), experts.reshape(12, 5, 8)),
    }
    layout = parameter_shardings({name: axes for name, (axes, _) in leaves.items()}, MeshView())
    update = orthogonalize_matrices(layout, 5).update
    done, _ = update({name: leaf for name, (_, leaf) in leaves.items()}, optax.EmptyState())
    np.testing.assert_array_equal(done["experts"].reshape(12, 5, 8), done["layers"])
    np.testing.assert_array_equal(done["down"].transpose(0, 2, 3, 1), done["experts"])


@pytest.mark.parametrize(
    "plan",
    [
        ParallelPlan(expert=4, fsdp=2),
        ParallelPlan(data=2, expert=2, tensor=2),
        ParallelPlan(fsdp=8),
    ],
    ids=str,
)
def test_no_rank_holds_more_than_its_share_of_whole_matrices(plan):
    """So the memory of an update is a multiple of what a rank stores, which the model knows."""
    axes = {
        "up": ("layers", "experts", "embed", "mlp"),
        "down": ("layers", "experts", "mlp", "embed"),
    }
    shapes = {"up": (2, 8, 32, 64), "down": (2, 8, 64, 32)}
    grid = JointGrid.build({"decoder": plan})
    layout = parameter_shardings(axes, grid.backbone)
    specs = {name: own.spec for name, own in layout.items()}
    update = jax.shard_map(
        lambda grads: orthogonalize_matrices(layout, 1).update(grads, optax.EmptyState())[0],
        mesh=make_mesh(grid),
        in_specs=(specs,),
        out_specs=specs,
    )
    grads = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()}
    found = jax.jit(update).lower(grads).compile().memory_analysis()
    workspace_per_element = MuonConfig.workspace_per_element * found.output_size_in_bytes
    assert 0.6 * workspace_per_element < found.temp_size_in_bytes < 1.01 * workspace_per_element


def test_global_norm_counts_every_entry_once():
    grid = JointGrid.build({"decoder": ParallelPlan(data=2, fsdp=2, tensor=2)})
    layout = parameter_shardings(AXES, grid.backbone)
    norm = jax.shard_map(
        lambda grads: global_norm(grads, layout),
        mesh=make_mesh(grid),
        in_specs=(jax.tree.map(lambda leaf: leaf.spec, layout),),
        out_specs=P(),
    )
    np.testing.assert_allclose(jax.jit(norm)(arrays(0)), optax.tree.norm(arrays(0)), rtol=1e-6)


@pytest.mark.parametrize("steps", [1, 2, 6, 100])
@pytest.mark.parametrize("warmup", [0, 1, 5, 99, 200])
@pytest.mark.parametrize("ratio", [0.0, 0.1])
def test_the_last_update_has_the_final_ratio(steps, warmup, ratio):
    """But for an only update, and for a warm-up that is not over, which have nothing to fall."""
    config = TrainConfig(
        steps=steps, learning_rate=0.2, warmup_steps=warmup, final_learning_rate_ratio=ratio
    )
    rates = np.asarray(learning_rate(config)(np.arange(steps))) / 0.2
    rising = (1 + (warmup - 1) * np.arange(steps) / max(warmup, 1)) / max(warmup, 1)
    if steps == 1 or warmup >= steps:
        np.testing.assert_allclose(rates, np.minimum(rising, 1), rtol=1e-5)
        return
    assert rates[-1] == pytest.approx(ratio, abs=1e-7)
    np.testing.assert_allclose(rates[:warmup], rising[:warmup], rtol=1e-5)
    if warmup + 1 < steps:
        assert rates[warmup] == pytest.approx(1)
    assert (np.diff(rates[warmup:]) <= 1e-6).all()


def test_learning_rates_of_more_steps_are_those_of_a_run_of_as_many():
    """A run that goes on with more steps has the rates of the longer run from there on."""
    short, long = (learning_rate(train_config("adamw", steps=n, warmup_steps=4)) for n in (8, 20))
    assert float(short(7)) == pytest.approx(0.01)
    assert float(long(7)) > 0.09
    assert float(long(19)) == pytest.approx(0.01)
    assert float(long(25)) == pytest.approx(0.01)  # beyond the end it stays


#: Parts of an encoder that train with its connector.
CONNECTORS = ("connector", "deepstack0", "deepstack0_norm")


def test_groups_train_at_their_own_rate() -> None:
    """Each part as if the whole model trained at its rate; frozen ones have no update."""
    parts = {"decoder": 0.01, "vision": 0.002, "vision.connector": 0.05}

    def whole(tree: Any) -> Any:
        connector = {"up": tree["layers"]["up"]}
        vision = {"layers": tree["layers"], **dict.fromkeys(CONNECTORS, connector)}
        return {"decoder": tree, "vision": vision, "audio": {"table": tree["table"]}}

    lay = parameter_shardings(whole(AXES), JointGrid.build({"decoder": ParallelPlan()}).backbone)
    params, grads = whole(arrays(0)), whole(arrays(1))

    def moved(rate: float, **changes: Any) -> Any:
        config = TrainConfig(steps=4, learning_rate=rate, clip_norm=None, **changes)
        frozen = FrozenParameters.from_config(config.freeze)
        optimizer, (own, _) = build_optimizer(config, lay, frozen), frozen.partition(params)
        return optimizer.update(frozen.partition(grads)[0], optimizer.init(own), own)[0]

    groups: dict[str, Any] = {name: {"learning_rate": rate} for name, rate in parts.items()}
    found = moved(0.03, groups=groups, freeze=("audio",))
    own = {name: moved(rate) for name, rate in parts.items()}
    expected = {
        "decoder": own["decoder"]["decoder"],
        "vision": {
            "layers": own["vision"]["vision"]["layers"],
            **{name: own["vision.connector"]["vision"][name] for name in CONNECTORS},
        },
    }
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), found, expected)
