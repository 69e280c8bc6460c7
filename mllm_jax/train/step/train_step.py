"""The train step: one manual `shard_map` over the joint grid, typed (`check_vma=True`).

Inside it every device holds its shards of the parameters and its rows of the batch::

    encode (encoder's view)  ->  exchange  ->  decode, loss (decoder's view)
        ->  gradients, summed over the axes that replicate a parameter  ->  optimizer

The loss is divided by the global sum of loss weights, so dealing samples differently changes no
gradient beyond the order of summation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.sharding import Mesh, PartitionSpec

from mllm_jax.config.pipeline_plan import PipelinePlan
from mllm_jax.models import multimodal
from mllm_jax.models.config.model import ModelConfig
from mllm_jax.runtime.together import compiled_together
from mllm_jax.train.state.freeze import Frozen
from mllm_jax.train.state.optimizer import global_norm
from mllm_jax.train.state.regroup import Regrouping, join_layers, leaf_name, resized, split_layers
from mllm_jax.train.step.media import Views, land, route_specs
from mllm_jax.train.step.pipeline import Dealing, PipelinedGradients
from sharding.axes import stored_dimension
from sharding.collectives import psum, vary
from sharding.grid import JointGrid, View
from sharding.mesh import laid_out, shardings
from sharding.rules import is_axes, layouts

#: Of a step without a pipeline.
NOTHING_DEALT: Mapping[str, Dealing] = MappingProxyType({})
NOTHING_FROZEN = Frozen()

State = dict[str, Any]


def padded_leaves(layout: Any) -> dict[str, int]:
    """Dotted names of the parameters that are padded, and the dimension of each."""
    return {
        leaf_name(path): dim
        for path, leaf in jax.tree_util.tree_leaves_with_path(layout)
        if (dim := stored_dimension(leaf.axes, "padded")) is not None
    }


def parameter_layouts(model: ModelConfig, grid: JointGrid, pipelined: bool = False) -> Any:
    """Tree of `Layout`, in the structure of the parameters.

    Args:
        pipelined: the decoder's layers are split into virtual chunks, see `LayerStack`.
    """
    _, axes = multimodal.abstract_parameters(model)
    decoder = axes["decoder"]
    if pipelined:
        chunked = jax.tree.map(lambda names: ("chunks", *names), decoder["layers"], is_leaf=is_axes)
        decoder = decoder | {"layers": chunked}
    return {
        "decoder": layouts(decoder, grid.decoder),
        "encoders": {
            name: layouts(tree, grid.views[name]) for name, tree in axes["encoders"].items()
        },
    }


def gather_media(params: Any, batch: Any, model: ModelConfig, views: Views) -> jax.Array | None:
    """Outputs of all encoders where they land: `[rows, tokens / shards, d_model]`, else zero.

    Args:
        params: local shards of the whole model.
        batch: local rows of one microbatch.
    """
    landed = []
    for name in model.encoders:
        encoder, view = params["encoders"][name], views[name]
        outputs = multimodal.encode(encoder, name, batch["encoders"][name], model, view)
        landed.append(land(outputs, name, batch["encoders"][name], batch["decoder"], views))
    return sum(landed[1:], landed[0]) if landed else None


def microbatch_loss(
    params: Any, batch: Any, weight: jax.Array, model: ModelConfig, views: Views
) -> jax.Array:
    """Loss of one microbatch divided by the global `weight`; the same scalar on every rank."""
    decoder, rows, view = params["decoder"], batch["decoder"], views["decoder"]
    media = gather_media(params, batch, model, views)
    hidden = multimodal.decode_hidden(decoder, rows, media, model, view)
    total = multimodal.loss(decoder, hidden, rows, model, view)
    return psum(total, view.tokens) / weight


def loss_and_gradients(
    params: Any,
    batch: Any,
    model: ModelConfig,
    views: Views,
    layout: Any,
    frozen: Frozen = NOTHING_FROZEN,
) -> tuple[jax.Array, Any]:
    """Loss and gradient of a batch, accumulated over its microbatches.

    Args:
        params: local shards.
        batch: packed batch whose leaves are `[microbatches, local rows, ...]`.
        layout: tree of `Layout` of the parameters.
        frozen: parameters whose gradients are zero.

    Returns:
        The loss, and gradients that lie as the parameters do.
    """
    axes = views["decoder"].all
    weight = psum(jnp.sum(batch["decoder"]["loss_weight"]), views["decoder"].batch)
    # All samples may turn out bad when they are read: then there is nothing to learn, not 0 / 0.
    weight = jnp.where(weight > 0, weight, 1)
    # Marked as varying, every device differentiates its own copy: sums over replicas are taken
    # once, after the last microbatch, and not inside the loops over layers and microbatches.
    own = vary(params, axes)

    def loss_of(params: Any, microbatch: Any) -> jax.Array:
        return microbatch_loss(frozen.stop(params), microbatch, weight, model, views)

    value_and_grad = jax.value_and_grad(loss_of)

    def add(carry: Any, microbatch: Any) -> tuple[Any, None]:
        loss, grads = value_and_grad(own, microbatch)
        return jax.tree.map(jnp.add, carry, (loss, grads)), None

    zeros = vary(jax.tree.map(jnp.zeros_like, own), axes)
    (loss, grads), _ = lax.scan(add, (jnp.zeros(()), zeros), batch)
    return loss, jax.tree.map(lambda g, leaf: psum(g, leaf.replicated), grads, layout)


class TrainStep:
    """Compiled programs of one model under one set of plans.

    Args:
        model: resolved model configuration.
        grid: joint grid of the plans.
        mesh: its mesh.
        optimizer: made by `build_optimizer` for the same layouts.
        pipeline: how the decoder's stages work together; None without stages.
        frozen: parameters that do not train.
        skips: a step whose loss or gradients are not finite leaves the state as it was.
    """

    def __init__(
        self,
        model: ModelConfig,
        grid: JointGrid,
        mesh: Mesh,
        optimizer: optax.GradientTransformation,
        pipeline: PipelinePlan | None = None,
        frozen: Frozen = NOTHING_FROZEN,
        *,
        skips: bool = False,
    ) -> None:
        self.model, self.grid, self.mesh, self.optimizer = model, grid, mesh, optimizer
        self.pipeline, self.frozen, self.skips = pipeline, frozen, skips
        self.layout = parameter_layouts(model, grid, pipeline is not None)
        self.state_specs = self._state_specs()
        params = self.state_specs["params"]
        scalar, carried = PartitionSpec(), self._carried_specs
        scalars = {"loss": scalar, "grad_norm": scalar, "targets": scalar, "carried": carried}
        self.step = jax.jit(
            self.shard(self._step, self.state_specs, (self.state_specs, scalars)), donate_argnums=0
        )
        self.gradients = jax.jit(self.shard(self._gradients, params, (params, scalar)))

    @property
    def ahead(self) -> int:
        """Microbatches of the next step that this one works ahead for."""
        if self.pipeline is None:
            return 0
        return max((cut.ahead for cut in self.pipeline.schedule.encoders), default=0)

    def primed(self, params: Any, batch: Any) -> Any:
        """`batch` with what the step before would have carried on, for a first step.

        Args:
            batch: whose following microbatches are its own, see `train.batch.place`.
        """
        if not self._carried_specs:
            return batch
        work_ahead = compiled_together("work ahead", jax.jit(self._work_ahead))
        return batch | {"carried": work_ahead(params, batch)}

    def abstract_primed(self, batch: Any) -> Any:
        """Shapes, types and layouts of what `primed` makes of a batch with those of `batch`."""
        if not self._carried_specs:
            return batch
        carried = jax.eval_shape(self._work_ahead, self.abstract["params"], batch)
        return batch | {"carried": laid_out(carried, self.mesh, self._carried_specs)}

    def _work_ahead(self, params: Any, batch: Any) -> Any:
        assert self.pipelined is not None
        body = self.pipelined.work_ahead
        return self.shard(body, self.state_specs["params"], self._carried_specs)(params, batch)

    @property
    def _carried_specs(self) -> dict[str, PartitionSpec]:
        return self.pipelined.carried_specs if self.pipelined else {}

    def init(self, key: jax.Array) -> State:
        """Fresh state, made shard by shard; its values do not depend on the plan."""
        make = jax.jit(self._init, out_shardings=shardings(self.mesh, self.state_specs))
        return make(key)

    @cached_property
    def abstract(self) -> State:
        """Shapes, types and layouts of the state."""
        shapes = jax.eval_shape(self._init, jax.random.key(0))
        return laid_out(shapes, self.mesh, self.state_specs)

    @cached_property
    def pipelined(self) -> PipelinedGradients | None:
        """The pipeline of the step, if it has one."""
        if self.pipeline is None:
            return None
        return PipelinedGradients(self.model, self.grid, self.pipeline, self.layout, self.frozen)

    @property
    def dealings(self) -> Mapping[str, Dealing]:
        """Encoders whose microbatches are dealt to the stages of a pipeline."""
        return self.pipelined.dealings if self.pipelined else {}

    @property
    def views(self) -> Views:
        """Views of the modules where encoder outputs meet the decoder: inside a stage, if any."""
        return self.pipelined.inside.views if self.pipelined else self.grid.views

    def shard(self, body: Callable[..., Any], specs: Any, out_specs: Any) -> Callable[..., Any]:
        """`body(tree, batch)` over the mesh; `tree` lies as `specs` says, the batch by rows."""

        def run(tree: Any, batch: Any) -> Any:
            return jax.shard_map(
                body,
                mesh=self.mesh,
                in_specs=(specs, self.batch_specs(batch)),
                out_specs=out_specs,
            )(tree, batch)

        return run

    def batch_specs(self, batch: Any) -> Any:
        """Layouts of a batch as `train.batch.place` makes it."""
        modules = batch_specs(batch, self.grid, self.dealings)
        return modules | {"carried": {name: self._carried_specs[name] for name in batch["carried"]}}

    def _init(self, key: jax.Array) -> State:
        params = self.stored(multimodal.init_parameters(self.model, key))
        return {
            "step": jnp.zeros((), jnp.int32),
            "params": params,
            "optimizer": self.optimizer.init(params),
        }

    @property
    def regrouping(self) -> Regrouping:
        """How checkpoints of other plans become this step's."""
        stack = self.pipeline.stack(self.model) if self.pipeline else None
        layers, vocab = self.model.decoder.layers, self.model.decoder.vocab_size
        return Regrouping(layers, vocab, stack, padded_leaves(self.layout))

    def stored(self, params: Any) -> Any:
        """The model's parameters as this step keeps them, with zeros where it pads them."""
        grouped = self._on_layers(split_layers, params)
        return jax.tree.map(
            lambda leaf, layout: resized(leaf, layout.padded(leaf.shape)), grouped, self.layout
        )

    def canonical(self, params: Any) -> Any:
        """The inverse of `stored`: layers stacked in their order, and no padding."""
        stacked, (shapes, _) = self._on_layers(join_layers, params), self._abstract_model
        return jax.tree.map(lambda leaf, own: resized(leaf, own.shape), stacked, shapes)

    @cached_property
    def _abstract_model(self) -> tuple[Any, Any]:
        return multimodal.abstract_parameters(self.model)

    def _on_layers(self, change: Callable[..., Any], params: Any) -> Any:
        if self.pipeline is None:
            return params
        stack, decoder = self.pipeline.stack(self.model), params["decoder"]
        layers = jax.tree.map(lambda leaf: change(stack, leaf), decoder["layers"])
        return params | {"decoder": decoder | {"layers": layers}}

    def _state_specs(self) -> State:
        abstract = jax.eval_shape(self._init, jax.random.key(0))
        return {
            "step": PartitionSpec(),
            "params": jax.tree.map(lambda leaf: leaf.spec, self.layout),
            "optimizer": specs_like(abstract["optimizer"], self.layout),
        }

    def _step(self, state: State, batch: Any) -> tuple[State, dict[str, jax.Array]]:
        loss, grads, carried = self._loss_and_gradients(state["params"], batch)
        updates, optimizer = self.optimizer.update(grads, state["optimizer"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        new = {"step": state["step"] + 1, "params": params, "optimizer": optimizer}
        norm = global_norm(grads, self.layout)
        if self.skips:
            finite = jnp.isfinite(loss) & jnp.isfinite(norm)
            new = jax.tree.map(lambda new, old: jnp.where(finite, new, old), new, state)
        scalars = {"loss": loss, "grad_norm": norm, "targets": self._targets(batch)}
        return new, scalars | {"carried": carried}

    def _targets(self, batch: Any) -> jax.Array:
        """Tokens of the step that have a loss."""
        own = batch["decoder"]["loss_weight"]
        if self.pipeline is not None:
            own = own[: self.pipeline.schedule.microbatches]
        return psum(jnp.count_nonzero(own), self.grid.decoder.batch)

    def _gradients(self, params: Any, batch: Any) -> tuple[Any, jax.Array]:
        loss, grads, _ = self._loss_and_gradients(params, batch)
        return grads, loss

    def _loss_and_gradients(self, params: Any, batch: Any) -> tuple[jax.Array, Any, Any]:
        """Loss, gradients and what is carried on to the next step."""
        if self.pipelined is not None:
            return self.pipelined(params, batch)
        modules = {name: batch[name] for name in ("decoder", "encoders")}
        loss, grads = loss_and_gradients(
            params, modules, self.model, self.grid.views, self.layout, self.frozen
        )
        return loss, grads, {}


def specs_like(optimizer: Any, layout: Any) -> Any:
    """Specs of an optimizer's state: a moment lies like the parameter whose path ends its own."""
    by_path = dict(jax.tree_util.tree_leaves_with_path(layout))

    def spec(path: tuple[Any, ...], _: Any) -> PartitionSpec:
        tails = (path[i:] for i in range(len(path)))
        return next((by_path[tail].spec for tail in tails if tail in by_path), PartitionSpec())

    return jax.tree_util.tree_map_with_path(spec, optimizer)


def batch_specs(
    batch: Any, grid: JointGrid, dealings: Mapping[str, Dealing] = NOTHING_DEALT
) -> Any:
    """Layouts of `[microbatches, rows, ...]`: rows dealt over each module's batch axes.

    Args:
        dealings: by name, encoders whose microbatches are dealt to stages.
    """

    send, receive = route_specs(grid.decoder)

    def rows(spec: PartitionSpec, tree: Any) -> Any:
        return jax.tree.map(lambda _: spec, tree)

    def encoder(name: str, tree: Any) -> Any:
        spec = dealings[name].spec if name in dealings else batch_spec(grid.views[name])
        layout = rows(spec, tree)
        if "send" in tree:
            layout["send"] = rows(PartitionSpec(spec[0], *send), tree["send"])
        return layout

    decoder = rows(batch_spec(grid.decoder), batch["decoder"])
    if "receive" in decoder:
        decoder["receive"] = rows(receive, decoder["receive"])
    return {
        "decoder": decoder,
        "encoders": {name: encoder(name, tree) for name, tree in batch["encoders"].items()},
    }


def batch_spec(view: View) -> PartitionSpec:
    """Layout of one array `[microbatches, rows, ...]` of the module with `view`."""
    return PartitionSpec(None, view.batch or None)
