"""What a gradient program needs of a module of a model: pure functions on local shards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import jax

from sharding.exchange import RouteArrays
from sharding.grid import MeshView
from sharding.layerstack.loops import PyTree
from sharding.layerstack.spec import Aux, LayerStackSpec

RowsT = TypeVar("RowsT", contravariant=True)

#: Outputs of a module moved to where they are merged into the rows of another, and zero elsewhere,
#: `[rows, positions / shards, width]`, or None if nothing is merged; and a tree of what losses read
#: of them: `(outputs, routes, rows) -> (merged, samples)`, linear in the outputs. Routes are those
#: of these outputs to these rows, if the batch has routes.
Merge = Callable[[jax.Array, RouteArrays | None, Any], tuple[jax.Array | None, PyTree]]
#: A loss of the outputs of a module: `(params, outputs, samples, rows)` to a float32 scalar, this
#: rank's share of a sum. Parameters are by module, without layers; samples are what other modules
#: bring, summed. Ranks that share a loss, as stages share that of tokens, have the same value;
#: of a loss that is not shared all ranks but one of these have zero.
Loss = Callable[[PyTree, jax.Array, PyTree, Any], jax.Array]


class Module(Protocol[RowsT]):
    """A module: something is embedded, goes through a stack of layers, and comes out.

    Every method takes the local shards of all of the module's parameters, but `layer`, which takes
    those of a layer.

    Attributes:
        name: name of the module, whose parameters it uses. Modules of one name, one for each
            length of rows, add to the same gradients.
        view: ranks of the module; a row lies on all ranks that share its positions.
        spec: how layers differ, and what else they take and give.
        aux: auxiliary losses that every layer gives, and their weights in the loss.
        frozen: the layers and the embedding do not train; connectors may.
    """

    @property
    def name(self) -> str:
        """The module whose parameters are used."""

    @property
    def view(self) -> MeshView:
        """The ranks that share the module."""

    @property
    def spec(self) -> LayerStackSpec:
        """How layers differ, and which values they take and return besides the activation."""

    @property
    def aux(self) -> Mapping[str, float]:
        """The weight in the loss of every auxiliary loss that the layers return, by name."""

    @property
    def frozen(self) -> bool:
        """Whether the layers and the embedding have no gradients."""

    def partition_trained(self, params: PyTree) -> tuple[PyTree, PyTree]:
        """The parameters that have gradients, and those that have none."""

    def embed(self, params: PyTree, rows: RowsT) -> jax.Array:
        """Inputs of rows to `[rows, positions / shards, width]`.

        After the features is space for inputs and outputs of single layers. Of a module whose
        embedding is split over stages this is a stage's part of a sum over them.
        """

    def context(self, rows: RowsT) -> PyTree:
        """The values of rows that all layers read; they are not differentiated."""

    def layer(
        self, params: PyTree, x: jax.Array, context: PyTree, kind: int
    ) -> tuple[jax.Array, Aux]:
        """The layer at this `kind` of its period, and its auxiliary losses.

        The losses are float32 scalars: this rank's part of sums over all ranks.
        """

    def output(self, params: PyTree, x: jax.Array, rows: RowsT) -> jax.Array:
        """What comes out of the module: the last norm, and connectors to other modules.

        After the features of outputs for another module are the inputs of its layers.
        """

    def has_inputs(self, rows: RowsT) -> jax.Array:
        """Whether rows have inputs, here or on a rank that the layers' collectives wait for."""
