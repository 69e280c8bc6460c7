"""What the executor needs of a model: its modules as functions, with their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from sharding.collectives import Axes, vary
from sharding.layerstack.loops import Tree
from sharding.layerstack.partition import combine
from sharding.layerstack.run import UNIFORM, Aux, LayerStack, LayerStackSpec


class DecoderFunctions(Protocol):
    """The decoder as pure functions on local shards; `params` is without the layers.

    Attributes:
        traits: how layers differ, and what else they take and give.
        aux: auxiliary losses that every layer gives, and their weights in the loss.
    """

    @property
    def traits(self) -> LayerStackSpec:
        """How layers differ, and which values they take and return beside the activation."""

    @property
    def aux(self) -> Mapping[str, float]:
        """The weight in the loss of every auxiliary loss that the layers return, by name."""

    def trained_apart(self, params: Tree) -> tuple[Tree, Tree]:
        """The tower's parameters that have gradients, and those that have none."""

    def embed(self, params: Tree, batch: Tree) -> jax.Array:
        """Tokens to `[rows, tokens / tensor, d_model]`: this stage's share of a sum over stages.

        Behind its features are zeros for inputs of the layers' own, which encoders give.
        """

    def context(self, batch: Tree) -> Tree:
        """The values of a microbatch that all layers read; they are not differentiated."""

    def layer(self, params: Tree, x: jax.Array, context: Tree, place: int) -> tuple[jax.Array, Aux]:
        """The layer at this `place` of its period, and its auxiliary losses.

        The losses are float32 scalars: this rank's shares of sums over all ranks.
        """

    def head(self, params: Tree, x: jax.Array, batch: Tree) -> jax.Array:
        """Loss of the local rows, a float32 scalar, equal on all stages and tensor ranks."""


class EncoderFunctions(Protocol):
    """A lane of an encoder as pure functions on local shards; `params` is without the layers.

    Attributes:
        encoder: encoder whose parameters the lane uses, and to whose gradients the lane adds.
        frozen: the layers and the embedding do not train; the connector may.
        traits: how layers differ, and what else they give.
    """

    encoder: str
    frozen: bool

    @property
    def traits(self) -> LayerStackSpec:
        """How layers differ, and which values they take and return beside the activation."""

    def trained_apart(self, params: Tree) -> tuple[Tree, Tree]:
        """The tower's parameters that have gradients, and those that have none."""

    def holds_media(self, batch: Tree) -> jax.Array:
        """Whether rows hold media, here or on a rank that the layers' collectives wait for."""

    def embed(self, params: Tree, batch: Tree) -> jax.Array:
        """Patches or frames to `[rows, positions / tensor, d_model]`.

        Behind its features is room for outputs of layers that are handed on.
        """

    def context(self, batch: Tree) -> Tree:
        """The values of a microbatch that all layers read; they are not differentiated."""

    def layer(self, params: Tree, x: jax.Array, context: Tree, place: int) -> tuple[jax.Array, Aux]:
        """A layer; all layers are alike, and have no auxiliary losses."""

    def connect(self, params: Tree, x: jax.Array, batch: Tree) -> jax.Array:
        """Norm and connectors: `[encoder rows, outputs / shards, d_decoder]`.

        Behind its features are the inputs of the decoder's layers.
        """

    def land(self, outputs: jax.Array, routes: Tree, decoder_batch: Tree) -> jax.Array:
        """Outputs where they land: `[decoder rows, tokens / tensor, d_decoder]`, else zero.

        Args:
            outputs: from `connect`; the result is linear in them.
            routes: routes of these outputs to these decoder rows, if the batch has routes.
            decoder_batch: the decoder's rows.
        """


class BoundModule:
    """A module's functions with its parameters, split into the stack of layers and the rest.

    Args:
        functions: functions of the module.
        params: local shards of its parameters.
        count: layers that one task runs.
        remat, axes, exists, traits: as in `LayerStack`.

    Attributes:
        layers: the stack of layers.
        rest: all other parameters.
        trained: those of `rest` that have gradients.
    """

    def __init__(
        self,
        functions: Any,
        params: Tree,
        count: int,
        remat: str,
        axes: Axes,
        exists: Callable[[jax.Array], jax.Array] | None = None,
        traits: LayerStackSpec = UNIFORM,
    ) -> None:
        self.functions = functions
        trained, constant = functions.trained_apart(params)
        (stack, self.trained), (fixed, self._constant) = _layers(trained), _layers(constant)
        self.rest = self.with_constant(self.trained)
        own = stack, count, remat, axes, exists, traits
        self.layers = LayerStack(functions.layer, *own, constant=fixed)

    def with_constant(self, trained: Tree) -> Tree:
        """`rest`, from those of it that have gradients."""
        return combine(trained, self._constant)

    def zero_sums(self) -> Tree:
        """Float32 zeros for the gradients."""
        zeros = partial(jax.tree.map, lambda p: jnp.zeros(p.shape, jnp.float32))
        sums = {"layers": zeros(self.layers.stack), "rest": zeros(self.trained)}
        return vary(sums, self.layers.axes)


def _layers(params: Tree) -> tuple[Tree, Tree]:
    """The stack of layers, and all else."""
    rest = {name: value for name, value in params.items() if name != "layers"}
    return params.get("layers", {}), rest
