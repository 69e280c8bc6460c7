"""Names of modules in files, and sums that do not depend on the names in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from mllm_jax.train.state.optimizer import part_norms, total_norm
from mllm_jax.train.state.stored_names import StoredNames
from sharding.grid import MeshView
from sharding.rules import parameter_shardings

NAMES = StoredNames("decoder", frozenset({"vision", "audio"}))


def tree(modules: Sequence[str]) -> dict[str, Any]:
    """Parameters of these modules."""
    return {name: {"norm": {"scale": jnp.full(2, i)}} for i, name in enumerate(modules)}


def by_name(state: Any) -> dict[str, Any]:
    """The leaves of a state by dotted names."""
    keys = jax.tree_util.tree_leaves_with_path(state)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in keys}


@pytest.mark.parametrize("modules", [("decoder", "audio", "vision"), ("vision",), ("decoder",)])
def test_moments_are_named_like_parameters(modules: Sequence[str]) -> None:
    """Of all modules, and of those that train alone."""
    params = tree(modules)
    labels = jax.tree.map(lambda _: "adamw", params)
    optimizer = optax.partition({"adamw": optax.adamw(0.1), "frozen": optax.set_to_zero()}, labels)
    state = {"step": jnp.int32(3), "params": params, "optimizer": (optimizer.init(params), None)}
    stored = NAMES.to_stored(state)
    names = {f"{NAMES.on_disk(name)}.norm.scale" for name in modules}
    found = {name for name in by_name(stored) if name.endswith("scale")}
    assert found == {
        f"{start}.{name}"
        for name in names
        for start in (
            "params",
            "optimizer.0.inner_states.adamw.inner_state.0.mu",
            "optimizer.0.inner_states.adamw.inner_state.0.nu",
        )
    }
    again = NAMES.in_memory(stored)
    assert by_name(again).keys() == by_name(state).keys()
    assert all(jax.tree.leaves(jax.tree.map(lambda own, before: own is before, again, state)))


def test_a_model_of_one_module_keeps_its_empty_section() -> None:
    """As checkpoints of decoders alone have it."""
    own = StoredNames("decoder")
    assert [*own.to_stored(tree(["decoder"]))] == ["decoder", "encoders"]
    assert [*own.in_memory(own.to_stored(tree(["decoder"])))] == ["decoder"]


def test_names_of_parts_lie_in_their_module() -> None:
    for name, stored in {
        "decoder.layers": "decoder.layers",
        "vision.connector.fc1": "encoders.vision.connector.fc1",
    }.items():
        assert NAMES.on_disk(name) == stored
        assert NAMES.of_disk(stored) == name


def test_norms_add_up_in_the_order_of_the_graph() -> None:
    """Bit for bit, whatever the modules are called: JAX orders their trees by their names."""

    def norm(names: Sequence[str], values: np.ndarray) -> float:
        leaves = [{"scale": jnp.asarray(own)} for own in values]
        trees = dict(zip(names, leaves, strict=True))
        lay = {name: parameter_shardings({"scale": (None,)}, MeshView()) for name in names}
        return float(total_norm(part_norms(trees, lay)))

    for values in np.random.default_rng(5).normal(size=(12, 3, 1)).astype(np.float32):
        same = {norm(names, values) for names in ("abc", "cab", "bca")}
        assert len(same) == 1
