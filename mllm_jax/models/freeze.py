"""Frozen parameters: of `train.freeze`, of layers with adapters, and those that no model trains.

They have no gradients and no optimizer state, and may be stored in fewer bits.
"""

from __future__ import annotations

from typing import Any

import jax

from mllm_jax.layers.trainable import ADAPTERS, FIXED, LOAD, FrozenParts
from mllm_jax.models.graph import HEAD, OBJECTIVE
from sharding.layerstack.partition import Path, partition_by


class FrozenParameters(FrozenParts):
    """Frozen parts of the model, in trees of its parameters."""

    @classmethod
    def from_parts(cls, parts: FrozenParts) -> FrozenParameters:
        """The same parts."""
        return cls(parts.names, parts.adapted, parts.dtype)

    def cast_frozen(self, params: Any) -> Any:
        """All parameters, in the types in which a run stores them."""

        def leaf(path: tuple[Any, ...], value: jax.Array) -> jax.Array:
            constant = path[-1].key in (FIXED, LOAD)
            return (
                value.astype(self.dtype)
                if self._is_frozen(_path_names(path)) and not constant
                else value
            )

        return jax.tree_util.tree_map_with_path(leaf, params)

    def frozen_mask(self, params: Any) -> Any:
        """True for every frozen leaf of a tree like the model's parameters."""
        return jax.tree_util.tree_map_with_path(
            lambda path, _: self._is_frozen(_path_names(path)), params
        )

    def partition(self, params: Any) -> tuple[Any, Any]:
        """The leaves of a tree like the model's parameters that have gradients, and others.

        A bias that follows the load of experts is among the first though it be frozen: the load
        takes the place of its gradient, and is to be known of frozen experts as well.
        """
        return partition_by(params, lambda path: path[-1] == LOAD or not self._is_frozen(path))

    def partition_module(self, module: str, params: Any) -> tuple[Any, Any]:
        """`partition` of the parameters of one module."""
        trained, constant = self.partition({module: params})
        return trained.get(module, {}), constant.get(module, {})

    def _is_frozen(self, path: Path) -> bool:
        part, leaf = _part_of_path(path), path[-1]
        if leaf == FIXED or part in self.names:
            return True
        return part in self.adapted and leaf not in ADAPTERS


#: All parameters train.
NOTHING_FROZEN = FrozenParameters()


def part_of_leaf(path: tuple[Any, ...]) -> str:
    """The part of the model that holds a leaf, by its name in `ModelConfig.parts`."""
    return _part_of_path(_path_names(path))


def _path_names(path: tuple[Any, ...]) -> Path:
    return tuple(key.key for key in path)


def _part_of_path(path: Path) -> str:
    module, block, *_ = path
    if block == "extra_embedding":
        return f"{module}.extra"
    for begin in (HEAD, OBJECTIVE):
        if block.startswith(begin):
            return f"{module}.{HEAD}{block.removeprefix(begin)}"
    connects = block == "connector" or block.startswith("deepstack")
    return f"{module}.connector" if connects else module
