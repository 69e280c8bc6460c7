"""How the layers of a stack differ, and what they take and return beyond the activation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp

#: Auxiliary losses of layers by name, float32 scalars: this rank's shares of sums over all ranks.
Aux = Mapping[str, jax.Array]


@dataclass(frozen=True)
class LayerStackSpec:
    """How the layers of a stack differ, and what they take and give besides the activation.

    Attributes:
        period: layers after which kinds of layers repeat.
        aux: names of the auxiliary losses that every layer gives.
        side_inputs: number of first layers that have an input of their own, which is added after
            them. The inputs come after the features of the activation that enters a run::

                [rows, positions, width]  ->  [rows, positions, (1 + inputs) * width]

        tapped_layers: numbers of layers, from 1, whose outputs are handed on. They come after the
            features of the activation, before and after a run. Every rank has all
            layers.
        without: of each layer of a period the entries of the stack, a dict then, that it does not
            have; empty if all layers have all.
    """

    period: int = 1
    aux: tuple[str, ...] = ()
    side_inputs: int = 0
    tapped_layers: tuple[int, ...] = ()
    without: tuple[frozenset[str], ...] = ()

    def kinds_with(self, name: str) -> list[int]:
        """Places of a period whose layers have this entry of the stack."""
        return [n for n in range(self.period) if not self.without or name not in self.without[n]]


#: The traits of layers that are all alike, and take and return nothing but the activation.
UNIFORM = LayerStackSpec()


def interleave_kinds(*places: jax.Array) -> jax.Array:
    """Values `[periods, ...]` of each place of a period as `[layers, ...]`."""
    if len(places) == 1:
        return places[0]
    return jnp.stack(places, axis=1).reshape(-1, *places[0].shape[1:])
