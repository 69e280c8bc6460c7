"""The pipelined train step: the model's parts handed to the executor, gradients brought home.

::

    gather parameters (fsdp)  ->  prologue, ticks, epilogue  ->  scatter and sum gradients
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec

from mllm_jax.config.pipeline_plan import PipelinePlan
from mllm_jax.models import multimodal
from mllm_jax.models.config.model import ModelConfig
from mllm_jax.train.state.freeze import Frozen
from mllm_jax.train.step.media import land
from scheduling.executor.pipeline import Pipeline
from scheduling.programs.check import check_program
from scheduling.programs.compile import compile_program
from scheduling.programs.program import BundleKind, Program
from sharding.collectives import axis_index, psum, reduce_scatter, vary
from sharding.grid import Axes, JointGrid, View
from sharding.rules import Layout, gather_parameters
from sharding.stages import StageViews


@dataclass(frozen=True)
class Dealing:
    """Microbatches of an encoder on the stages that encode them.

    Attributes:
        order: `[pipelines * slots]`, the microbatch in every slot or -1; from the number of
            microbatches on it is one of the next step.
        pipelines: grid axes that number the encoder's pipelines.
        rows: grid axes over which the rows of a microbatch are dealt.
    """

    order: np.ndarray
    pipelines: Axes
    rows: Axes

    @property
    def spec(self) -> PartitionSpec:
        """Layout of an array `[pipelines * slots, rows, ...]`."""
        return PartitionSpec(self.pipelines or None, self.rows or None)


class PipelinedGradients:
    """Loss and gradients of a step by a pipeline, on local shards inside the `shard_map`.

    Args:
        model: its `remat` is the pipeline's policy.
        grid: joint grid of the plans.
        plan: what runs where and when.
        layout: tree of `Layout` of the parameters.
        frozen: parameters whose gradients are zero.
    """

    def __init__(
        self,
        model: ModelConfig,
        grid: JointGrid,
        plan: PipelinePlan,
        layout: Any,
        frozen: Frozen,
    ) -> None:
        self.model, self.grid, self.plan, self.layout = model, grid, plan, layout
        self.frozen = frozen
        self.program: Program = compile_program(plan.schedule, model.remat, plan.apart)
        check_program(self.program)
        self.inside = StageViews.build(grid, plan.gather)
        self.stack = plan.stack(model)

    def __call__(self, params: Any, batch: Any) -> tuple[jax.Array, Any, dict[str, jax.Array]]:
        """As `loss_and_gradients` of the step without a pipeline, and what is carried on.

        Raises:
            ValueError: `batch["carried"]` does not hold what the step before has left.
        """
        view, carried = self.grid.decoder, batch["carried"]
        if carried.keys() != self.carried_specs.keys():
            raise ValueError(
                f"carried: {sorted(carried)} is refused; valid: {sorted(self.carried_specs)}, see "
                "TrainStep.primed"
            )
        own = batch["decoder"]["loss_weight"][: self.plan.schedule.microbatches]
        weight = psum(jnp.sum(own), view.batch)
        weight = jnp.where(weight > 0, weight, 1)
        whole = vary(self._gathered(params), view.all)
        loss, grads, carried = self._pipeline.loss_and_gradients(
            self._stacked(whole), batch, weight, carried
        )
        if not self.plan.overlap_gather:
            grads = lax.optimization_barrier(grads)
        return psum(loss, view.tokens), self._home(grads, whole), carried

    def work_ahead(self, params: Any, batch: Any) -> dict[str, jax.Array]:
        """As `Pipeline.work_ahead`, on parameters as the step keeps them."""
        whole = vary(self._gathered(params), self.grid.decoder.all)
        return self._pipeline.work_ahead(self._stacked(whole), batch)

    @cached_property
    def carried_specs(self) -> dict[str, PartitionSpec]:
        """Layouts of what is carried on, `[stages * slots, rows, tokens, d_model]`, by encoder."""
        view = self.grid.decoder
        spec = PartitionSpec(view.stage or None, view.batch or None, view.sequence or None)
        return {name: spec for name, encoder in self.program.encoders.items() if encoder.carried}

    def rehearse(
        self, params: Any, batch: Any, kind: BundleKind, piece: int, together: bool, ticks: int
    ) -> jax.Array:
        """As `Pipeline.rehearse`, on parameters as the step keeps them."""
        whole = self._stacked(vary(self._gathered(params), self.grid.decoder.all))
        return self._pipeline.rehearse(whole, batch, kind, piece, together, ticks)

    @cached_property
    def dealings(self) -> dict[str, Dealing]:
        """How every encoder's microbatches lie on the stages."""
        return {name: self._dealing(name) for name in self.program.encoders}

    def _dealing(self, name: str) -> Dealing:
        encoder, pipelines = self.program.encoders[name], self.inside.pipelines[name]
        order = np.full((self.grid.decoder.degree(pipelines), encoder.slots), -1)
        for microbatch in range(self.plan.schedule.microbatches):
            ahead = microbatch < encoder.cut.ahead
            number = microbatch + ahead * self.plan.schedule.microbatches
            order[encoder.owners[microbatch], encoder.local[microbatch]] = number
        return Dealing(order.ravel(), pipelines, self.inside.views[name].batch)

    @cached_property
    def _pipeline(self) -> Pipeline:
        schedule, views = self.plan.schedule, self.inside.views
        decoder = StageDecoder(self.model, views["decoder"], self.frozen)
        encoders = {
            name: StageEncoder(self.model, name, views, self.frozen) for name in self.model.encoders
        }
        layers = {"decoder": self.stack.per_chunk}
        for cut in schedule.encoders:
            layers[cut.name] = self.model.encoders[cut.name].layers // cut.pieces
        return Pipeline(
            self.program,
            decoder,
            encoders,
            self.grid.decoder.stage,
            self.grid.decoder.all,
            layers,
            self._exists if self.stack.padded > self.stack.layers else None,
            self.plan.co_issue,
            self.plan.observe,
        )

    def _exists(self, index: jax.Array) -> jax.Array:
        """Whether layer `index` of this stage's stack is one of the model and not padding."""
        per_chunk, stages = self.stack.per_chunk, self.stack.stages
        chunk, layer = index // per_chunk, index % per_chunk
        run = chunk * stages + axis_index(self.grid.decoder.stage)
        return run * per_chunk + layer < self.stack.layers

    def _gathered(self, params: Any) -> Any:
        if self.plan.gather == "layer":
            return params
        dtype = multimodal.compute_dtype(self.model)
        whole = {
            name: _gather(tree, _module(self.layout, name), self.grid.views[name], dtype)
            for name, tree in _modules(params).items()
        }
        tree = _tree(whole)
        return tree if self.plan.overlap_gather else lax.optimization_barrier(tree)

    def _stacked(self, params: Any) -> Any:
        """Chunks of the decoder's layers one behind the other."""
        decoder = params["decoder"]
        layers = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), decoder["layers"])
        return params | {"decoder": decoder | {"layers": layers}}

    def _home(self, grads: Any, whole: Any) -> Any:
        """Sums over replicas, laid out and typed as the parameters."""

        def leaf(g: jax.Array, p: jax.Array, layout: Layout) -> jax.Array:
            g = g.reshape(p.shape)
            if self.plan.gather == "step" and "embed" in layout.axes:
                g = reduce_scatter(g, layout.view.fsdp, layout.axes.index("embed"))
            return psum(g, layout.replicated)

        return jax.tree.map(leaf, grads, whole, self.layout)


class StageDecoder(multimodal.Decoder):
    """The decoder's parts for the executor.

    Args:
        view: inside a stage.
        frozen: parameters whose gradients are zero.
    """

    def __init__(self, model: ModelConfig, view: View, frozen: Frozen) -> None:
        super().__init__(model, view)
        self._frozen = frozen

    def embed(self, params: Any, batch: Any) -> jax.Array:
        """As of any decoder."""
        return super().embed(self._frozen.stop_decoder(params), batch)

    def layer(self, params: Any, x: jax.Array, context: Any) -> jax.Array:
        """As of any decoder."""
        return super().layer(self._frozen.stop_decoder(params), x, context)

    def head(self, params: Any, x: jax.Array, batch: Any) -> jax.Array:
        """As of any decoder."""
        return super().head(self._frozen.stop_decoder(params), x, batch)


class StageEncoder:
    """An encoder's parts for the executor: `multimodal.Encoder` and the exchange to the decoder.

    Args:
        views: views inside a stage.
        frozen: parameters whose gradients are zero.
    """

    def __init__(
        self, model: ModelConfig, name: str, views: Mapping[str, View], frozen: Frozen
    ) -> None:
        self._encoder = multimodal.Encoder(model, name, views[name])
        self._name, self._views, self._frozen = name, views, frozen
        self.frozen = frozen.trunk(name)
        self.embed, self.context = self._encoder.embed, self._encoder.context
        self.layer = self._encoder.layer

    def finish(self, params: Any, x: jax.Array, batch: Any, decoder_batch: Any) -> jax.Array:
        """Norm, connector, and the outputs moved to where they land in the decoder's rows."""
        outputs = self._encoder.connect(self._frozen.stop_encoder(self._name, params), x, batch)
        landed = land(outputs, self._name, batch, decoder_batch, self._views)
        return landed.astype(self._encoder.dtype)


def _gather(params: Any, layout: Any, view: View, dtype: jnp.dtype) -> Any:
    """Whole along fsdp; what layers multiply by goes over the network in `dtype`, as it is used.

    Gradients of all else, such as embeddings, are added up in the type of the parameter.
    """
    axes = jax.tree.map(lambda leaf: leaf.axes, layout)
    return {
        name: gather_parameters(own, axes[name], view, dtype if name == "layers" else None)
        for name, own in params.items()
    }


def _modules(tree: Any) -> dict[str, Any]:
    return {"decoder": tree["decoder"], **tree["encoders"]}


def _module(tree: Any, name: str) -> Any:
    return tree["decoder"] if name == "decoder" else tree["encoders"][name]


def _tree(modules: dict[str, Any]) -> Any:
    encoders = {name: tree for name, tree in modules.items() if name != "decoder"}
    return {"decoder": modules["decoder"], "encoders": encoders}
