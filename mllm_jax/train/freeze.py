"""Which parameters keep their values: `train.freeze`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
from jax import lax


@dataclass(frozen=True)
class Frozen:
    """Frozen parts of the model.

    Attributes:
        names: `<encoder>` for an encoder without its connector, `<encoder>.connector`.
    """

    names: tuple[str, ...] = ()

    def trunk(self, encoder: str) -> bool:
        """Whether the encoder is frozen but for its connector."""
        return encoder in self.names

    def connector(self, encoder: str) -> bool:
        """Whether the encoder's connector is frozen."""
        return f"{encoder}.connector" in self.names

    def mask(self, params: Any) -> Any:
        """True for every frozen leaf of a tree like the whole model's parameters."""
        return jax.tree_util.tree_map_with_path(lambda path, _: self._holds(_keys(path)), params)

    def stop(self, params: Any) -> Any:
        """The model's parameters, the frozen ones as constants."""
        return jax.tree.map(_stop, params, self.mask(params)) if self.names else params

    def stop_encoder(self, name: str, params: Any) -> Any:
        """Parameters of one encoder, the frozen ones as constants."""
        return self.stop({"encoders": {name: params}})["encoders"][name]

    def _holds(self, keys: tuple[str, ...]) -> bool:
        if keys[0] != "encoders":
            return False
        _, encoder, block, *_ = keys
        return self.connector(encoder) if block == "connector" else self.trunk(encoder)


def _keys(path: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(key.key for key in path)


def _stop(leaf: jax.Array, frozen: bool) -> jax.Array:
    return lax.stop_gradient(leaf) if frozen else leaf
