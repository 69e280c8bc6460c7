"""The state of a step by groups of devices: parts for their programs, joined in one tree.

What is of no module, such as the number of the step, is the first group's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import jax


class ModuleTrees:
    """Trees in which dictionaries have an entry for each module.

    Args:
        modules: names of all modules.
    """

    def __init__(self, modules: Collection[str]) -> None:
        self._modules = frozenset(modules)

    def select(self, tree: Any, modules: Collection[str]) -> Any:
        """The tree with the entries of these modules."""

        def select_entries(node: Any) -> Any:
            if not self._is_by_module(node):
                return node
            return {name: node[name] for name in node if name in modules}

        return jax.tree.map(select_entries, tree, is_leaf=self._is_by_module)

    def join(self, trees: Sequence[Any]) -> Any:
        """The inverse of `select`: the first tree with the entries of all."""

        def join_entries(first: Any, *others: Any) -> Any:
            if not self._is_by_module(first):
                return first
            return {name: entry for node in (first, *others) for name, entry in node.items()}

        return jax.tree.map(join_entries, *trees, is_leaf=self._is_by_module)

    def _is_by_module(self, node: Any) -> bool:
        return isinstance(node, dict) and node.keys() <= self._modules


class TreeChange:
    """A change of the structure of trees that is found once, and then only moves leaves.

    Args:
        change: function of a tree that leaves the leaves as they are.
        like: a tree of the structure of those that will be changed.

    >>> swap = TreeChange(lambda tree: {"b": tree["a"], "a": tree["b"]}, {"a": 0, "b": 0})
    >>> swap([1, 2])
    {'a': 2, 'b': 1}
    """

    def __init__(self, change: Callable[[Any], Any], like: Any) -> None:
        structure: Any = jax.tree.structure(like)
        changed = change(structure.unflatten(range(structure.num_leaves)))
        self.numbers: list[int] = jax.tree.leaves(changed)
        self._structure: Any = jax.tree.structure(changed)

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """The changed tree, from the leaves of the other."""
        return self._structure.unflatten([leaves[number] for number in self.numbers])


class GroupStates:
    """Parts of the state for the programs of groups.

    Args:
        trees: selects and joins parts.
        modules: by group, names of its modules.
        like: the state, or its shapes.
    """

    def __init__(self, trees: ModuleTrees, modules: Sequence[Collection[str]], like: Any) -> None:
        self._selections = [TreeChange(partial(trees.select, modules=m), like) for m in modules]
        numbers = [{*selection.numbers} for selection in self._selections]
        self._shared = sorted(set.intersection(*numbers)) if len(numbers) > 1 else []
        parts = [trees.select(like, names) for names in modules]
        self._joined = TreeChange(trees.join, parts)

    def pick_shared(self, leaves: Sequence[Any]) -> list[Any]:
        """The leaves of a state that are of no module."""
        return [leaves[number] for number in self._shared]

    def select(self, group: int, leaves: Sequence[Any], shared: Sequence[Any]) -> Any:
        """The part of a group.

        Args:
            leaves: of the state.
            shared: takes the place of `pick_shared`; nothing if the group is the first, or does not
                change.
        """
        picked = [*leaves]
        for number, leaf in zip(self._shared, shared, strict=False):
            picked[number] = leaf
        return self._selections[group](picked)

    def join(self, parts: Sequence[Any]) -> Any:
        """The state, from the parts of all groups."""
        return self._joined(jax.tree.leaves([*parts]))
