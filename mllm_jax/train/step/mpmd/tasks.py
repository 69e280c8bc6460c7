"""The tasks of a step on groups of devices: forward and backward of a module's microbatch.

::

    encode (devices of the bucket)  ->  move  ->  decode, losses (devices of the backbone)

An objective of a step has its loss and gradients from the outputs of all microbatches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mllm_jax.layers.parameters import Params
from mllm_jax.models.model import Outputs
from mllm_jax.train.step.gradient_program import Batch, with_aux
from mllm_jax.train.step.mpmd.program import MpmdProgram
from mllm_jax.train.step.mpmd.split_gradient import Arguments, SavedForward, SplitGradient
from mllm_jax.train.step.plain import sum_losses
from scheduling.executor.step_batch import StepBatch
from sharding.collectives import psum, vary
from sharding.grid import Axes, MeshView
from sharding.in_order import shard_map
from sharding.layerstack.partition import combine
from sharding.layerstack.spec import Aux

_SCALAR = PartitionSpec()


def positions_spec(view: MeshView) -> PartitionSpec:
    """Layout of arrays `[rows, positions, ...]` of the ranks of a view."""
    return PartitionSpec(view.batch_axes or None, view.sequence_axes or None)


def pick_microbatch(tree: Any, number: jax.Array) -> Any:
    """Microbatch `number` of arrays `[microbatches, ...]`."""
    return jax.tree.map(lambda x: lax.dynamic_index_in_dim(x, number, axis=0, keepdims=False), tree)


class EncoderTasks:
    """Forward and backward of the microbatches of a bucket on its own devices."""

    def __init__(self, program: MpmdProgram, bucket: str, mesh: Mesh) -> None:
        self._model, self._bucket = program.encoders, bucket
        self.module = program.model.buckets[bucket]
        view = program.grid.views[bucket]
        self.layout, self._axes = NamedSharding(mesh, positions_spec(view)), view.all_axes
        trained, constant = program.frozen.partition({self.module: program.form.specs[self.module]})
        data = program.layout.rows[bucket], _SCALAR
        self._program = SplitGradient(
            self._encode, mesh, Arguments(trained, constant, {}, data), (self.layout.spec, ())
        )

    def forward(
        self, trained: Any, constant: Any, batch: Batch, number: jax.Array
    ) -> tuple[jax.Array, SavedForward]:
        """The outputs of microbatch `number`, `[rows, outputs, width]`."""
        data = batch.rows[self._bucket], number
        outputs, _, saved = self._program.forward(Arguments(trained, constant, {}, data))
        return outputs, saved

    def backward(self, saved: SavedForward, gradients: jax.Array, total: Any) -> Any:
        """Add the gradients of the module's parameters to `total`."""
        return self._program.backward(saved, gradients, total)[0]

    def zeros(self, trained: Any) -> Any:
        """Gradients of nothing."""
        return self._program.zeros(trained)

    def _encode(
        self, trained: Any, constant: Any, inputs: Any, data: Any
    ) -> tuple[jax.Array, tuple[()]]:
        del inputs
        rows, number = data
        params = combine(trained, constant)
        outputs = self._model.encode_bucket(self._bucket, params, pick_microbatch(rows, number))
        return vary(outputs, self._axes), ()


class _Decoded(NamedTuple):
    """What the backbone makes of a microbatch: outputs, auxiliary losses, samples of modules."""

    hidden: Any
    aux: Any
    samples: Any


class StepFactors(NamedTuple):
    """Scalars of a batch that its losses need.

    Attributes:
        divisors: divisors of the sums of losses, by objective.
        aux: factors of the sums of auxiliary losses, by name.
        tokens: number of tokens.
        targets: number of tokens or samples that have a loss.
    """

    divisors: dict[str, jax.Array]
    aux: dict[str, jax.Array]
    tokens: jax.Array
    targets: jax.Array


class SavedMicrobatch(NamedTuple):
    """What the forward of a microbatch leaves for its backward."""

    decode: SavedForward
    losses: SavedForward


class BackboneTasks:
    """Forward and backward of the backbone's microbatches, and the losses.

    Args:
        program: what all groups have in common.
        mesh: mesh of the backbone's group.
        batch: the batch, or its shapes.
    """

    def __init__(self, program: MpmdProgram, mesh: Mesh, batch: Batch) -> None:
        self._program, self._mesh, self._model = program, mesh, program.sharded_model
        self.layout = NamedSharding(mesh, positions_spec(program.grid.backbone))
        params = {name: program.form.specs[name] for name in program.modules_of(0)}
        self._trained, self._constant = program.frozen.partition(params)
        merged = program.model.graph.merged
        self._merged = {n for n in program.remote if program.model.buckets[n] in merged}
        specs = program.layout.specs(batch)
        self._data = {name: specs.rows[name] for name in program.local}, specs.routes, _SCALAR
        self._names = self._model.step_objectives

    def forward(
        self,
        trained: Any,
        constant: Any,
        batch: Batch,
        number: jax.Array,
        encoded: Mapping[str, jax.Array],
        heads: Params,
        factors: StepFactors,
    ) -> tuple[jax.Array, Aux, Outputs, SavedMicrobatch]:
        """The losses of microbatch `number`, and what objectives of the step read of it.

        Args:
            encoded: outputs of remote buckets, on these devices.
            heads: parameters of remote modules' heads, on these devices.
            factors: from `factors`.

        Returns:
            The divided losses, sums of auxiliary losses, and what objectives of the step read.
        """
        merged = {name: x for name, x in encoded.items() if name in self._merged}
        others = {name: x for name, x in encoded.items() if name not in self._merged}
        data = {name: batch.rows[name] for name in self._program.local}, batch.routes, number
        decoded, _, decode = self._decode.forward(Arguments(trained, constant, merged, data))
        arguments = Arguments(trained, constant, (decoded, others, heads), (data, factors))
        (loss, outputs), aux, losses = self._losses.forward(arguments)
        return loss, aux, outputs, SavedMicrobatch(decode, losses)

    def backward(
        self, saved: SavedMicrobatch, gradients: Outputs, total: Any
    ) -> tuple[Any, dict[str, jax.Array], Params]:
        """Add the gradients of parameters to `total`; also those of outputs and heads of others.

        Args:
            gradients: of the outputs that objectives of the step read.
        """
        one = jnp.ones((), jnp.float32)
        total, by_inputs = self._losses.backward(saved.losses, (one, gradients), total)
        by_decoded, others, heads = by_inputs
        total, merged = self._decode.backward(saved.decode, by_decoded, total)
        return total, {**merged, **others}, heads

    def zeros(self, trained: Any) -> Any:
        """Gradients of nothing."""
        return self._decode.zeros(trained)

    def factors(self, batch: Batch) -> StepFactors:
        """What losses are divided by, and the like, of the rows of a batch."""
        return self._factors({name: batch.rows[name] for name in self._program.local})

    @cached_property
    def _factors(self) -> Callable[[Any], StepFactors]:
        def run(rows: Any) -> StepFactors:
            batch: Batch = StepBatch(rows)
            tokens = self._program.count_tokens(batch)
            factors = self._program.loss_factors(batch, tokens)
            return StepFactors(*factors, tokens, self._program.count_targets(batch))

        mapped = shard_map(run, mesh=self._mesh, in_specs=(self._data[0],), out_specs=_SCALAR)
        return jax.jit(mapped)

    def step_losses(
        self,
        trained: Any,
        constant: Any,
        batch: Batch,
        factors: StepFactors,
        read: Sequence[Outputs],
        total: Any,
    ) -> tuple[jax.Array, Any, list[Outputs]]:
        """The losses of objectives of the step.

        Args:
            factors: from `factors`.
            read: what they read of every microbatch.
            total: gradients to which those of parameters are added, whose memory is taken.

        Returns:
            The divided losses, the new total, and the gradients of what is read.
        """
        rows = {name: batch.rows[name] for name in self._program.local}
        results: tuple[jax.Array, Any, list[Outputs]] = self._step_losses(
            trained, constant, rows, factors, [*read], total
        )
        return results

    @cached_property
    def _step_losses(self) -> Callable[..., Any]:
        stacked, outputs = PartitionSpec(self._axes), self._outputs_spec
        in_specs = (self._trained, self._constant, self._data[0], _SCALAR, outputs, stacked)
        mapped = shard_map(
            self._run_step_losses,
            mesh=self._mesh,
            in_specs=in_specs,
            out_specs=(_SCALAR, stacked, outputs),
        )
        return jax.jit(mapped, donate_argnums=5)

    def _run_step_losses(
        self, trained: Any, constant: Any, rows: Any, factors: StepFactors, read: Any, total: Any
    ) -> Any:
        trained, constant = vary((trained, constant), self._axes)
        targets = rows[self._program.model.backbone].targets
        flat_targets = jax.tree.map(
            lambda x: x.reshape(-1, *x.shape[3:]), {name: targets[name] for name in self._names}
        )

        def loss_of(trained: Any, read: Any) -> jax.Array:
            flat = jax.tree.map(lambda *x: jnp.stack(x).reshape(-1, x[0].shape[-1]), *read)
            losses = self._model.compute_losses(combine(trained, constant), flat, flat_targets)
            return sum_losses(losses, factors.divisors)

        loss, (grads, by_read) = jax.value_and_grad(loss_of, argnums=(0, 1))(trained, read)
        grads = vary(grads, self._axes)
        return loss, jax.tree.map(lambda x, g: x + g[None], total, grads), by_read

    @property
    def _axes(self) -> Axes:
        return self._program.grid.backbone.all_axes

    @property
    def _outputs_spec(self) -> PartitionSpec:
        """Layout of one output of every sample, which all ranks of a row have."""
        return self.layout.spec

    @cached_property
    def _decode(self) -> SplitGradient:
        arguments = Arguments(self._trained, self._constant, self.layout.spec, self._data)
        decoded = _Decoded(self.layout.spec, PartitionSpec(self._axes), self._outputs_spec)
        return SplitGradient(self._run_decode, self._mesh, arguments, (decoded, ()))

    def _run_decode(
        self, trained: Any, constant: Any, merged: Any, data: Any
    ) -> tuple[_Decoded, tuple[()]]:
        rows, routes, number = data
        rows, routes = pick_microbatch((rows, routes), number)
        params = combine(trained, constant)
        hidden, aux, samples = self._model.decode(params, rows, routes, merged)
        decoded = _Decoded(hidden, jax.tree.map(lambda x: x[None], aux), samples)
        return vary(decoded, self._axes), ()

    @cached_property
    def _losses(self) -> SplitGradient:
        decoded = _Decoded(self.layout.spec, PartitionSpec(self._axes), self._outputs_spec)
        inputs = decoded, self.layout.spec, self._program.head_specs
        arguments = Arguments(self._trained, self._constant, inputs, (self._data, _SCALAR))
        results = (_SCALAR, self._outputs_spec), _SCALAR
        return SplitGradient(self._run_losses, self._mesh, arguments, results)

    def _run_losses(
        self, trained: Any, constant: Any, inputs: tuple[_Decoded, Any, Any], data: Any
    ) -> tuple[Any, Any]:
        (rows, routes, number), factors = data
        decoded, others, heads = inputs
        rows, routes = pick_microbatch((rows, routes), number)
        params = combine(trained, constant) | heads
        read = self._model.objective_inputs(
            params, rows, routes, decoded.hidden, decoded.samples, others
        )
        of_step = {name: read.pop(name) for name in self._names}
        targets = rows[self._program.model.backbone].targets
        losses = self._model.compute_losses(params, read, targets)
        aux = psum(
            jax.tree.map(lambda x: x[0], decoded.aux), self._program.grid.backbone.position_axes
        )
        loss = with_aux(sum_losses(losses, factors.divisors), aux, factors.aux)
        return (loss, vary(of_step, self._axes)), aux
