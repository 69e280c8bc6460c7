"""Trees of parameters, some of which do not train and have no gradients.

Trees are nested dicts. Of those that train and of those that do not, each makes a tree of its own
without the leaves of the other::

    {"norm": {"scale": s}, "q": {"kernel": k, "lora_a": a}}
        trains      {"q": {"lora_a": a}}
        constant    {"norm": {"scale": s}, "q": {"kernel": k}}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

PyTree = Any


#: Names on the way to a leaf.
Path = tuple[str, ...]


def partition_by(
    tree: PyTree, chosen: Callable[[Path], bool], path: Path = ()
) -> tuple[PyTree, PyTree]:
    """The leaves of `tree` whose path is chosen, and all others; `path` leads to the tree."""
    nested: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, value in tree.items():
        if not isinstance(value, Mapping):
            (nested if chosen((*path, name)) else others)[name] = value
            continue
        inner, outer = partition_by(value, chosen, (*path, name))
        if inner or not value:  # an empty tree stays where it was
            nested[name] = inner
        if outer:
            others[name] = outer
    return nested, others


def partition(tree: PyTree, trains: PyTree) -> tuple[PyTree, PyTree]:
    """The leaves of `tree` that have a place in `trains`, and all others.

    Args:
        trains: tree of those that train, which may have more leaves.
    """
    return partition_by(tree, partial(_has_path, trains))


def _has_path(tree: PyTree, path: Path) -> bool:
    for name in path:
        if not isinstance(tree, Mapping) or name not in tree:
            return False
        tree = tree[name]
    return True


def combine(trains: PyTree, constant: PyTree) -> PyTree:
    """The inverse of `partition`."""
    combined = dict(constant)
    for name, value in trains.items():
        inner = isinstance(value, Mapping) and name in constant
        combined[name] = combine(value, constant[name]) if inner else value
    return combined


def select_like(tree: PyTree, like: PyTree) -> PyTree:
    """The leaves of `tree` in the structure of `like`, all of whose leaves it has."""
    return {
        name: select_like(tree[name], inner) if isinstance(inner, Mapping) else tree[name]
        for name, inner in like.items()
    }
