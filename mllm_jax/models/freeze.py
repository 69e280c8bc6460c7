"""Frozen parameters: those of `train.freeze` and beside adapters, and those that no model trains.

They have no gradients and no optimizer's state, and may be kept in fewer bits.
"""

from __future__ import annotations

from typing import Any

import jax

from mllm_jax.layers.trainable import ADAPTERS, FIXED, LOAD, FrozenParts
from mllm_jax.models.graph import HEAD, OBJECTIVE
from sharding.layerstack.partition import Path, partition_by


class Frozen(FrozenParts):
    """Frozen parts of the model, in trees of its parameters."""

    @classmethod
    def like(cls, parts: FrozenParts) -> Frozen:
        """The same parts."""
        return cls(parts.names, parts.adapted, parts.dtype)

    def kept(self, params: Any) -> Any:
        """All parameters, in the types in which a run keeps them."""

        def leaf(path: tuple[Any, ...], value: jax.Array) -> jax.Array:
            constant = path[-1].key in (FIXED, LOAD)
            return (
                value.astype(self.dtype) if self._frozen(_names(path)) and not constant else value
            )

        return jax.tree_util.tree_map_with_path(leaf, params)

    def mask(self, params: Any) -> Any:
        """True for every frozen leaf of a tree like the whole model's parameters."""
        return jax.tree_util.tree_map_with_path(lambda path, _: self._frozen(_names(path)), params)

    def apart(self, params: Any) -> tuple[Any, Any]:
        """The leaves of a tree like the whole model's parameters that have gradients, and others.

        A bias that follows the load of experts is among the first though it be frozen: the load
        takes the place of its gradient, and is to be known of frozen experts as well.
        """
        return partition_by(params, lambda path: path[-1] == LOAD or not self._frozen(path))

    def apart_of(self, module: str, params: Any) -> tuple[Any, Any]:
        """`apart` of the parameters of one module."""
        trained, constant = self.apart({module: params})
        return trained.get(module, {}), constant.get(module, {})

    def _frozen(self, path: Path) -> bool:
        part, leaf = _part(path), path[-1]
        if leaf == FIXED or part in self.names:
            return True
        return part in self.adapted and leaf not in ADAPTERS


#: All parameters train.
NOTHING_FROZEN = Frozen()


def group_of(path: tuple[Any, ...]) -> str:
    """The part of the model that holds a leaf, by its name in `ModelConfig.parts`."""
    return _part(_names(path))


def _names(path: tuple[Any, ...]) -> Path:
    return tuple(key.key for key in path)


def _part(path: Path) -> str:
    module, block, *_ = path
    if block == "extra_embedding":
        return f"{module}.extra"
    for begin in (HEAD, OBJECTIVE):
        if block.startswith(begin):
            return f"{module}.{HEAD}{block.removeprefix(begin)}"
    connects = block == "connector" or block.startswith("deepstack")
    return f"{module}.connector" if connects else module
