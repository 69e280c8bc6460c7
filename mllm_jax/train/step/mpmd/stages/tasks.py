"""Programs of the stages of the backbone.

::

    first stage     rows, outputs of encoders  ->  activations
    other stages    activations                ->  activations
    last stage      activations                ->  losses, and their gradients, in one program
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mllm_jax.models.model import Model
from mllm_jax.train.step.gradient_program import Batch
from mllm_jax.train.step.mpmd.backbone import (
    BackboneArguments,
    BackboneTasks,
    Decoded,
    FusedBackbone,
)
from mllm_jax.train.step.mpmd.program import MpmdProgram, pick_microbatch, positions_spec
from mllm_jax.train.step.mpmd.split_gradient import Arguments, SavedForward, SplitGradient
from mllm_jax.train.step.mpmd.stages.split import LAYERS
from mllm_jax.train.step.mpmd.sums import GradientSums, OtherSums, Total
from sharding.collectives import vary
from sharding.layerstack.partition import combine

#: Name of the activations that a stage gets from the one before.
HIDDEN = "hidden"


class EarlierStage(BackboneTasks):
    """Forward and backward of a stage before the last.

    Args:
        program: the step with one stage on `mesh`.
        mesh: mesh of the stage.
        batch: the batch, or its shapes.
        sums: sums of the gradients of the stage.
        is_first: whether it embeds the rows; else it gets activations.

    Attributes:
        output_layout: layout of the activations that it makes, which vary over the one rank of the
            axis of stages, too.
    """

    def __init__(
        self,
        program: MpmdProgram,
        mesh: Mesh,
        batch: Batch,
        sums: GradientSums,
        *,
        is_first: bool,
    ) -> None:
        super().__init__(program, mesh, batch, sums)
        self._is_first, specs = is_first, self._specs
        data = specs.rows, specs.routes, PartitionSpec()
        arguments = Arguments(specs.trained, specs.constant, self._positions, data)
        view = program.grid.backbone
        outputs = positions_spec(replace(view, data=view.stage + view.data))
        self.output_layout = NamedSharding(mesh, outputs)
        self._split = SplitGradient(self._run, mesh, arguments, (outputs, ()), sums)

    def forward(
        self, arguments: BackboneArguments, number: jax.Array, inputs: Mapping[str, jax.Array]
    ) -> tuple[jax.Array, SavedForward]:
        """Activations of microbatch `number`.

        Args:
            inputs: on the first stage outputs of encoders by bucket, else activations as `HIDDEN`.
        """
        data = arguments.rows, arguments.routes, number
        outputs, _, saved = self._split.forward(
            Arguments(arguments.trained, arguments.constant, dict(inputs), data)
        )
        return outputs, saved

    def backward(
        self, saved: SavedForward, gradients: jax.Array, total: Total
    ) -> tuple[Total, dict[str, jax.Array]]:
        """Add the gradients of parameters to `total`; also those of the inputs."""
        return self._split.backward(saved, gradients, total)

    def last_backward(
        self, saved: SavedForward, gradients: jax.Array, total: Total
    ) -> tuple[Any, dict[str, jax.Array]]:
        """`backward` with the sums over replicas in the place of the new total."""
        return self._split.last_backward(saved, gradients, total, OtherSums({}))

    def _run(
        self, trained: Any, constant: Any, inputs: Any, data: Any
    ) -> tuple[jax.Array, tuple[()]]:
        *read, number = data
        params = combine(trained, constant)
        rows, routes = pick_microbatch(tuple(read), number)
        x = self._embed(params, rows, routes, inputs) if self._is_first else inputs[HIDDEN]
        x, _ = _run_layers(self._model, params, x, rows)
        return vary(x, self._axes), ()

    def _embed(self, params: Any, rows: Any, routes: Any, encoded: Any) -> jax.Array:
        module = self._model.backbone
        x = module.embed(params[module.name], rows[module.name])
        merged = self._model.merged_outputs(params, rows, routes, encoded)
        return x if merged is None else x + merged.astype(module.dtype)


class LastStage(FusedBackbone):
    """Forward of the last stage, losses and backward of a microbatch as one program."""

    def _split_encoded(self, encoded: Mapping[str, jax.Array]) -> tuple[Any, Any]:
        return dict(encoded), {}

    def _decode(self, arguments: BackboneArguments, number: Any, merged: Any) -> Decoded:
        """The backbone's outputs from the activations of the stage before."""
        params, module = combine(arguments.trained, arguments.constant), self._model.backbone
        rows = pick_microbatch(arguments.rows, number)
        x, aux = _run_layers(self._model, params, merged[HIDDEN], rows)
        return Decoded(module.output(params[module.name], x, rows[module.name]), aux, {})


def _run_layers(model: Model, params: Any, x: jax.Array, rows: Any) -> tuple[jax.Array, Any]:
    """The layers of a stage, whose parameters are `[chunks, layers, ...]`."""
    module = model.backbone
    stored = params[module.name][LAYERS]
    layers = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), stored)
    return module.run_layers(layers, x, module.context(rows[module.name]))
