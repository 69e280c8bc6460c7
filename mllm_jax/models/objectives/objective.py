"""The loss of an objective, from the outputs of its edges.

Of samples, outputs are `[samples, features]` float32: one of every slot for a sample in this rank's
rows, used or not. Ranks that share a row all have them; `weights_on_first_rank` makes one of them
count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from data.batch import NextTokenTargets, SampleTargets
from mllm_jax.layers.parameters import ParameterBlock, Params
from sharding.collectives import axis_index
from sharding.grid import Axes, MeshView

#: What a rank knows of what is learnt: of its rows, or of all microbatches of its rows.
Targets = NextTokenTargets | SampleTargets


class Objective(Protocol):
    """A loss; a class of it is called with the configuration of the objective."""

    def build_block(self) -> ParameterBlock | None:
        """Parameters besides those of its edges; None in most objectives."""

    def summed_axes(self, view: MeshView) -> Axes:
        """The axes over which the losses of ranks are added up."""

    def loss(
        self, params: Params, outputs: Mapping[str, Any], targets: Any, view: MeshView
    ) -> jax.Array:
        """This rank's part of the sum of losses, not divided, a float32 scalar.

        Args:
            params: parameters of `build_block`, empty without one.
            outputs: by the source of each edge, in the order of the edges: `[samples, features]`;
                of an objective that reads tokens what `NextToken` says.
            targets: `NextTokenTargets`, or `SampleTargets` of `[samples]`.
            view: ranks of the backbone.
        """


class SampleObjective:
    """What objectives of samples share."""

    def build_block(self) -> ParameterBlock | None:
        """See `Objective.build_block`."""
        return None

    def summed_axes(self, view: MeshView) -> Axes:
        """See `Objective.summed_axes`."""
        return view.all_axes


def weights_on_first_rank(weights: jax.Array, view: MeshView) -> jax.Array:
    """Weights of samples, which are zero but on the first of the ranks that share their rows.

    All stages have the outputs of the last one, and share its rows.
    """
    return jnp.where(axis_index(view.stage + view.sequence_axes) == 0, weights, 0)
