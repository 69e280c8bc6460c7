"""The modules of a model with their parameters, as the executor runs them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from sharding.collectives import Axes, vary
from sharding.layerstack.loops import PyTree
from sharding.layerstack.module import Module
from sharding.layerstack.partition import combine
from sharding.layerstack.run import LayerStack


class BoundModule:
    """A module's functions with its parameters, split into the stack of layers and its ends.

    Args:
        functions: functions of the module.
        params: local shards of its parameters.
        count: layers that one task runs.
        remat, axes, exists: as in `LayerStack`.

    Attributes:
        layers: the stack of layers.
        end_params: all other parameters, those of the embedding and the output.
        trained: those of `end_params` that have gradients.
    """

    def __init__(
        self,
        functions: Module[Any],
        params: PyTree,
        count: int,
        remat: str,
        axes: Axes,
        exists: Callable[[jax.Array], jax.Array] | None = None,
    ) -> None:
        self.functions = functions
        trained, constant = functions.partition_trained(params)
        (stack, self.trained), (fixed, self._constant) = (
            _split_layers(trained),
            _split_layers(constant),
        )
        self.end_params = self.with_constant(self.trained)
        settings = stack, count, remat, axes, exists, functions.spec
        self.layers = LayerStack(functions.layer, *settings, constant=fixed)

    def with_constant(self, trained: PyTree) -> PyTree:
        """`end_params`, from those of it that have gradients."""
        return combine(trained, self._constant)

    def zero_sums(self) -> PyTree:
        """Float32 zeros for the gradients."""
        zeros = partial(jax.tree.map, lambda p: jnp.zeros(p.shape, jnp.float32))
        sums = {"layers": zeros(self.layers.stack), "rest": zeros(self.trained)}
        return vary(sums, self.layers.axes)


def _split_layers(params: PyTree) -> tuple[PyTree, PyTree]:
    """The stack of layers, and all else."""
    others = {name: value for name, value in params.items() if name != "layers"}
    return params.get("layers", {}), others
