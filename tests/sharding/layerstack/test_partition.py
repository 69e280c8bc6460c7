"""Parameters with and without gradients, apart and together."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sharding.layerstack.partition import combine, partition, select_like

NAMES = st.sampled_from("abc")
TREES = st.recursive(
    st.dictionaries(NAMES, st.integers(), min_size=1, max_size=3),
    lambda inner: st.dictionaries(NAMES, inner | st.integers(), min_size=1, max_size=3),
    max_leaves=12,
)


def leaves(tree: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], int]:
    found: dict[tuple[str, ...], int] = {}
    for name, value in tree.items():
        own = (*path, name)
        found |= leaves(value, own) if isinstance(value, dict) else {own: value}
    return found


def nested(chosen: dict[tuple[str, ...], int]) -> Any:
    tree: dict[str, Any] = {}
    for path, value in chosen.items():
        node = tree
        for name in path[:-1]:
            node = node.setdefault(name, {})
        node[path[-1]] = value
    return tree


@given(tree=TREES, data=st.data())
def test_both_parts_together_are_the_whole(tree: Any, data: st.DataObject) -> None:
    every = leaves(tree)
    trains = {path: value for path, value in every.items() if data.draw(st.booleans())}
    own, others = partition(tree, nested(trains))
    assert leaves(own) == trains
    assert leaves(others) == {path: every[path] for path in every.keys() - trains.keys()}
    assert combine(own, others) == tree
    assert select_like(tree, own) == own


def test_places_of_other_trees_do_not_matter() -> None:
    assert partition({"a": {"b": 1}}, {"a": {"b": 0, "c": 0}, "d": 0}) == ({"a": {"b": 1}}, {})
    assert partition({"a": {"b": 1}}, {}) == ({}, {"a": {"b": 1}})
