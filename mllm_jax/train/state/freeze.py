"""Frozen parameters: those of `train.freeze`, and those that no model trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
from jax import lax

from mllm_jax.models.frozen import FIXED, LOAD, FrozenParts


@dataclass(frozen=True)
class Frozen(FrozenParts):
    """Frozen parts of the model, in trees of its parameters."""

    def mask(self, params: Any) -> Any:
        """True for every frozen leaf of a tree like the whole model's parameters."""
        return jax.tree_util.tree_map_with_path(
            lambda path, _: path[-1].key == FIXED or group_of(path) in self.names, params
        )

    def stop(self, params: Any) -> Any:
        """The model's parameters, the frozen ones as constants.

        A bias that follows the load of experts is none: the load takes the place of its gradient,
        and is to be known of frozen experts as well.
        """
        if not self.names:
            return params
        return jax.tree_util.tree_map_with_path(_stop, params, self.mask(params))

    def stop_encoder(self, name: str, params: Any) -> Any:
        """Parameters of one encoder, the frozen ones as constants."""
        return self.stop({"encoders": {name: params}})["encoders"][name]

    def stop_decoder(self, params: Any) -> Any:
        """Parameters of the decoder, or of one layer of it, the frozen ones as constants."""
        return self.stop({"decoder": params})["decoder"]


#: All parameters train.
NOTHING_FROZEN = Frozen()


def group_of(path: tuple[Any, ...]) -> str:
    """The part of the model that holds a leaf, by its name in `ModelConfig.parts`."""
    keys = tuple(key.key for key in path)
    if keys[0] != "encoders":
        return "decoder.extra" if "extra_embedding" in keys else "decoder"
    _, encoder, block, *_ = keys
    connects = block == "connector" or block.startswith("deepstack")
    return f"{encoder}.connector" if connects else str(encoder)


def _stop(path: tuple[Any, ...], leaf: jax.Array, frozen: bool) -> jax.Array:
    return lax.stop_gradient(leaf) if frozen and path[-1].key != LOAD else leaf
