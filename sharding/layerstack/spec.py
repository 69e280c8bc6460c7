"""How the layers of a stack differ, and what they take and return beyond the activation.

The layers of a stack may differ, in a period that repeats. `kind` is the number of a layer within
its period, from 0 to `period - 1`, and is known to the compiler::

    layer      0  1  2  3  4  5
    kind       0  1  2  0  1  2
    iteration  |-- 0 --||-- 1 --|
"""

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
        side_inputs: number of first layers to whose outputs an input is added. The inputs come
            after the features of the activation that enters a run::

                [rows, positions, width]  ->  [rows, positions, (1 + inputs) * width]

        intermediate_layers: numbers of layers, from 1, whose outputs are returned beside the last
            layer's. They come after the features of the activation, before and after a run. Every
            rank has all layers.
        without: of each kind of layer the entries of the stack that it does not have; the stack
            is a dict then. Empty if all layers have all entries.
    """

    period: int = 1
    aux: tuple[str, ...] = ()
    side_inputs: int = 0
    intermediate_layers: tuple[int, ...] = ()
    without: tuple[frozenset[str], ...] = ()

    def kinds_with(self, name: str) -> list[int]:
        """The kinds of layers that have this entry of the stack."""
        return [n for n in range(self.period) if not self.without or name not in self.without[n]]


#: Specification of layers of one kind that take and return nothing but the activation.
UNIFORM = LayerStackSpec()


def interleave_kinds(*kinds: jax.Array) -> jax.Array:
    """Values `[periods, ...]` of each kind as `[layers, ...]`, in the order of layers."""
    if len(kinds) == 1:
        return kinds[0]
    return jnp.stack(kinds, axis=1).reshape(-1, *kinds[0].shape[1:])
