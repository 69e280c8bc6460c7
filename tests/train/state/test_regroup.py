"""Layers of several kinds in checkpoints: stored in groups, and from the groups of other plans."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from mllm_jax.config.pipeline_plan import StageLayers
from mllm_jax.train.state.regroup import LayerRegrouping, join_layers, split_layers
from mllm_jax.train.state.stored_names import StoredNames

#: Six layers of period two; some parameters are of every second layer alone.
STACKS = [None, StageLayers(6, 2, 1, 2), StageLayers(6, 2, 2, 2), StageLayers(6, 1, 1, 2)]
LAYOUT = NamedSharding(Mesh(np.array(jax.devices()[:1]), ("stage",)), P())


def stored(stack: StageLayers | None, leaf: jax.Array) -> jax.Array:
    return leaf if stack is None else split_layers(stack, leaf)


@pytest.mark.parametrize("layers", [3, 6])
@pytest.mark.parametrize("stack", STACKS[1:], ids=str)
def test_layers_that_are_split_and_joined_are_the_same(stack: StageLayers, layers: int) -> None:
    leaf = jnp.arange(1.0, 2 * layers + 1).reshape(layers, 2)
    split = split_layers(stack, leaf)
    assert split.shape[0] == stack.chunks
    assert split.shape[1] * stack.chunks * 6 == stack.stored_layers * layers
    np.testing.assert_array_equal(join_layers(stack, split), leaf)


@pytest.mark.parametrize("layers", [3, 6])
@pytest.mark.parametrize("target", STACKS, ids=str)
@pytest.mark.parametrize("source", STACKS, ids=str)
def test_checkpoints_of_one_grouping_become_those_of_another(
    source: StageLayers | None, target: StageLayers | None, layers: int
) -> None:
    leaf = jnp.arange(1.0, 2 * layers + 1).reshape(layers, 2)
    own, wanted = stored(source, leaf), stored(target, leaf)
    regrouping, name = (
        LayerRegrouping(1, target, names=StoredNames("text")),
        "params.modules.text.layers.q",
    )
    assert regrouping.can_become(name, own.shape, wanted.shape)
    assert not regrouping.can_become(name, (layers - 1, 2), wanted.shape)
    tree = {"params": {"modules": {"text": {"layers": {"q": jax.device_put(own, LAYOUT)}}}}}
    like = jax.ShapeDtypeStruct(wanted.shape, wanted.dtype, sharding=LAYOUT)
    found = regrouping.convert_state(tree, jax.tree.map(lambda _: like, tree))
    np.testing.assert_array_equal(found["params"]["modules"]["text"]["layers"]["q"], wanted)


VOCAB = LayerRegrouping(10, None, {"embed": 0, "head": 1}, StoredNames("decoder"))


@pytest.mark.parametrize(
    ("name", "stored", "wanted", "fits"),
    [
        # Padding alone may be cut or added; rows of the vocabulary are never lost.
        ("params.decoder.embed", (10, 4), (12, 4), True),
        ("params.decoder.embed", (16, 4), (12, 4), True),
        ("params.decoder.embed", (9, 4), (12, 4), False),
        ("params.decoder.embed", (9, 4), (9, 4), False),
        ("params.decoder.embed", (12, 5), (12, 4), False),
        ("params.decoder.embed", (12,), (12, 4), False),
        ("moments.params.decoder.head", (4, 10), (4, 12), True),
        ("moments.params.decoder.head", (4, 9), (4, 12), False),
        ("moments.params.decoder.head", (5, 10), (4, 12), False),
        ("moments.params.decoder.head", (4,), (4, 12), False),
        ("moments.params.decoder.head", (), (4, 12), False),
        ("moments.params.decoder.head", (4, 12, 2), (4, 12), False),
        # Only the vocabulary, and only layers, may have other shapes.
        ("params.decoder.norm", (4,), (4,), True),
        ("params.decoder.norm", (5,), (4,), False),
        ("params.decoder.layers.q", (2, 3, 4), (6, 4), True),
        ("params.decoder.layers.q", (2, 4, 4), (6, 4), True),
        ("params.decoder.layers.q", (5, 1, 4), (6, 4), False),
        ("params.decoder.layers.q", (2, 3, 5), (6, 4), False),
        ("params.decoder.layers.q", (7, 4), (6, 4), False),
    ],
)
def test_a_leaf_fits_where_only_its_grouping_or_padding_is_another(
    name: str, stored: tuple[int, ...], wanted: tuple[int, ...], fits: bool
) -> None:
    assert VOCAB.can_become(name, stored, wanted) == fits


def test_a_vocabulary_is_cut_and_padded_with_zeros_at_its_end() -> None:
    table = np.arange(1, 49, dtype=np.float32).reshape(12, 4)
    name = "params.decoder.embed"
    np.testing.assert_array_equal(VOCAB.convert_leaf(name, table, (10, 4)), table[:10])
    more = VOCAB.convert_leaf(name, table, (14, 4))
    np.testing.assert_array_equal(more, np.concatenate([table, np.zeros((2, 4))]))
    wide = VOCAB.convert_leaf("params.decoder.head", table.T, (4, 14))
    np.testing.assert_array_equal(wide, more.T)
    assert VOCAB.convert_leaf(name, table, (12, 4)) is table


@pytest.mark.parametrize(
    ("spec", "stored", "dim", "expected"),
    [
        # Two ranks of "a", two of "b". Whoever cannot share the vocabulary shares the other side.
        (P("a"), (12, 4), 0, P("a", None)),
        (P("a"), (11, 4), 0, P(None, "a")),
        (P("a", "b"), (11, 4), 0, P(None, ("b", "a"))),
        (P("a", "b"), (11, 6), 0, P(None, "b")),
        (P("a"), (11, 5), 0, P(None, None)),
        (P(None, "a"), (4, 11), 1, P("a", None)),
        (P(None, ("a", "b")), (4, 14), 1, P(("a", "b"), None)),
        (P(None, ("a", "b")), (4, 12), 1, P(None, ("a", "b"))),
    ],
)
def test_a_stored_vocabulary_is_read_by_as_many_ranks_as_can_share_it(
    spec: P, stored: tuple[int, ...], dim: int, expected: P
) -> None:
    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("a", "b"))
    shape = [4, 4]
    shape[dim] = 16
    name = "params.embed" if dim == 0 else "params.head"
    wanted = jax.ShapeDtypeStruct(tuple(shape), np.float32, sharding=NamedSharding(mesh, spec))
    tree = {"params": {name.rpartition(".")[2]: wanted}}
    found = VOCAB.on_disk(tree, {name: stored})
    (leaf,) = jax.tree.leaves(found)
    assert (leaf.shape, leaf.dtype) == (stored, np.float32)
    assert leaf.sharding == NamedSharding(mesh, expected)


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ((4, 2, 3), P("stage")),
        ((2, 4, 3), P("stage")),
        ((3, 3, 3), P()),
        ((6, 3), P("stage")),
        ((7, 3), P()),
    ],
)
def test_stored_layers_are_read_by_stages_where_these_divide_them(
    stored: tuple[int, ...], expected: P
) -> None:
    """The stages share the second of two grouping dimensions, as in memory."""
    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("stage", "tensor"))
    stack = StageLayers(8, 2, 2)
    layout = NamedSharding(mesh, P(None, "stage", "tensor"))
    wanted = jax.ShapeDtypeStruct((2, 4, 3), np.float32, sharding=layout)
    tree = {"params": {"decoder": {"layers": {"q": wanted}}}}
    found = LayerRegrouping(1, stack, names=StoredNames("decoder")).on_disk(
        tree, {"params.decoder.layers.q": stored}
    )
    (leaf,) = jax.tree.leaves(found)
    leading = [None] * (len(stored) - 2)
    grouped = P(*leading, *(expected or (None,)), "tensor")
    assert leaf.sharding.spec == (P(None, "stage", "tensor") if stored == (2, 4, 3) else grouped)


@given(
    st.sampled_from([("embed", 0), ("head", 1)]),
    st.lists(st.integers(1, 12), max_size=3).map(tuple),
    st.tuples(st.integers(1, 12), st.integers(1, 12)),
)
def test_only_padding_of_the_vocabulary_may_differ(
    leaf: tuple[str, int], stored: tuple[int, ...], wanted: tuple[int, int]
) -> None:
    """Of any stored shape: it differs in the vocabulary's dimension alone, and loses none of it."""
    name, dim = leaf
    expected = len(stored) == 2 and stored[1 - dim] == wanted[1 - dim] and stored[dim] >= 10
    assert VOCAB.can_become(f"params.decoder.{name}", stored, wanted) == expected
