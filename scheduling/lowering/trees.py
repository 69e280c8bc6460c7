"""Trees of dataclasses, mappings and tuples, whose leaves are tables or entries of tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

#: Names of fields and keys, and numbers of tuples, on the way to a leaf.
Path = tuple[str, ...]


def map_leaves(function: Callable[[Path, Any], Any], tree: Any, path: Path = ()) -> Any:
    """`tree` with `function(path, leaf)` in place of every leaf; None stays None."""
    if tree is None:
        return None
    if isinstance(tree, Mapping):
        return {key: map_leaves(function, subtree, (*path, key)) for key, subtree in tree.items()}
    if isinstance(tree, tuple):
        return tuple(
            map_leaves(function, subtree, (*path, str(n))) for n, subtree in enumerate(tree)
        )
    if not is_dataclass(tree) or isinstance(tree, type):
        return function(path, tree)
    values = {field.name: getattr(tree, field.name) for field in fields(tree)}
    return replace(tree, **map_leaves(function, values, path))


def flat_leaves(tree: Any) -> dict[Path, Any]:
    """The leaves by their paths."""
    flat: dict[Path, Any] = {}
    map_leaves(flat.setdefault, tree)
    return flat
