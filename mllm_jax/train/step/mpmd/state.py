"""The state of a step by groups of devices: parts for their programs, joined in one tree.

What is of no module, such as the number of the step, is the first group's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
