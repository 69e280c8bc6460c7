"""Layers of several kinds in checkpoints: stored in groups, and from the groups of other plans."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mllm_jax.config.pipeline_plan import LayerStack
from mllm_jax.train.state.regroup import Regrouping, join_layers, split_layers

#: Six layers of period two; some parameters are of every second layer alone.
STACKS = [None, LayerStack(6, 2, 1, 2), LayerStack(6, 2, 2, 2), LayerStack(6, 1, 1, 2)]
LAYOUT = NamedSharding(Mesh(np.array(jax.devices()[:1]), ("stage",)), PartitionSpec())


def stored(stack: LayerStack | None, leaf: jax.Array) -> jax.Array:
    return leaf if stack is None else split_layers(stack, leaf)


@pytest.mark.parametrize("layers", [3, 6])
@pytest.mark.parametrize("stack", STACKS[1:], ids=str)
def test_layers_that_are_split_and_joined_are_the_same(stack: LayerStack, layers: int) -> None:
    leaf = jnp.arange(1.0, 2 * layers + 1).reshape(layers, 2)
    split = split_layers(stack, leaf)
    assert split.shape[0] == stack.chunks
    assert split.shape[1] * stack.chunks * 6 == stack.padded * layers
    np.testing.assert_array_equal(join_layers(stack, split), leaf)


@pytest.mark.parametrize("layers", [3, 6])
@pytest.mark.parametrize("target", STACKS, ids=str)
@pytest.mark.parametrize("source", STACKS, ids=str)
def test_checkpoints_of_one_grouping_become_those_of_another(
    source: LayerStack | None, target: LayerStack | None, layers: int
) -> None:
    leaf = jnp.arange(1.0, 2 * layers + 1).reshape(layers, 2)
    own, wanted = stored(source, leaf), stored(target, leaf)
    regrouping, name = Regrouping(1, target), "params.decoder.layers.q"
    assert regrouping.fits(name, own.shape, wanted.shape)
    assert not regrouping.fits(name, (layers - 1, 2), wanted.shape)
    tree = {"params": {"decoder": {"layers": {"q": jax.device_put(own, LAYOUT)}}}}
    like = jax.ShapeDtypeStruct(wanted.shape, wanted.dtype, sharding=LAYOUT)
    found = regrouping.convert(tree, jax.tree.map(lambda _: like, tree))
    np.testing.assert_array_equal(found["params"]["decoder"]["layers"]["q"], wanted)
