"""What the backbone's programs have in common, and the programs of losses that do not wait.

If no losses wait for all microbatches of a step, a microbatch of the backbone is one program:
forward, losses and backward. Else `mllm_jax.train.step.mpmd.waiting` has its programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mllm_jax.layers.parameters import Params
from mllm_jax.models.model import Outputs
from mllm_jax.train.step.gradient_program import Batch, with_aux
from mllm_jax.train.step.mpmd.compile import compile_on
from mllm_jax.train.step.mpmd.program import MpmdProgram, pick_microbatch, positions_spec
from mllm_jax.train.step.mpmd.sums import (
    GradientSums,
    OtherSums,
    SummedGradients,
    Total,
    add_to_total,
)
from mllm_jax.train.step.plain import sum_losses
from scheduling.executor.step_batch import StepBatch
from sharding.collectives import psum, vary
from sharding.grid import Axes
from sharding.in_order import shard_map
from sharding.layerstack.partition import combine
from sharding.layerstack.spec import Aux

_SCALAR = PartitionSpec()


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


class Decoded(NamedTuple):
    """What the backbone makes of a microbatch: outputs, auxiliary losses, samples of modules."""

    hidden: Any
    aux: Any
    samples: Any


class StepLosses(NamedTuple):
    """Losses of a step, or of its microbatches so far.

    Attributes:
        loss: divided by the weight of the batch.
        aux: sums of auxiliary losses.
        factors: of the batch.
        heads: gradients of heads of remote modules.
    """

    loss: jax.Array
    aux: Aux
    factors: StepFactors
    heads: Params


def add_losses(losses: StepLosses, others: StepLosses) -> StepLosses:
    """Sums of the losses of different microbatches of a step."""
    return jax.tree.map(jnp.add, losses, others)._replace(factors=losses.factors)


class BackboneArguments(NamedTuple):
    """Arguments of all programs of the backbone.

    Attributes:
        trained, constant: parameters of its group that have gradients, and others.
        heads: parameters of heads of remote modules.
        rows, routes: of the batch.
    """

    trained: Any
    constant: Any
    heads: Params
    rows: Any
    routes: Any


class BackboneTasks:
    """What both kinds of a backbone's tasks have in common.

    Args:
        program: what all groups have in common.
        mesh: mesh of the backbone's group.
        batch: the batch, or its shapes.
        sums: sums of the gradients of its group.

    Attributes:
        layout: layout of outputs of remote buckets, `[rows, outputs, width]`.
        merged: remote buckets whose outputs are merged into rows of the backbone.
    """

    def __init__(self, program: MpmdProgram, mesh: Mesh, batch: Batch, sums: GradientSums) -> None:
        self._program, self._mesh, self._sums = program, mesh, sums
        self._model = program.sharded_model
        self.layout = NamedSharding(mesh, positions_spec(program.grid.backbone))
        trained, constant = program.frozen.partition(sums.parameter_specs)
        specs = program.batch_layout.specs(batch)
        rows = {name: specs.rows[name] for name in program.local}
        self._specs = BackboneArguments(trained, constant, program.head_specs, rows, specs.routes)
        scalars: Any = _SCALAR
        self._loss_specs = StepLosses(scalars, scalars, scalars, program.head_specs)
        merged = program.model.graph.merged
        self.merged = {n for n in program.remote if program.model.buckets[n] in merged}
        self._waiting = self._model.step_objectives
        self._count = len(batch.rows[program.model.backbone].inputs)

    @property
    def _axes(self) -> Axes:
        return self._program.grid.backbone.all_axes

    @property
    def _positions(self) -> PartitionSpec:
        return self.layout.spec

    def _split_encoded(self, encoded: Mapping[str, jax.Array]) -> tuple[Any, Any]:
        """Outputs of buckets that are merged, and of others."""
        merged = {name: x for name, x in encoded.items() if name in self.merged}
        return merged, {name: x for name, x in encoded.items() if name not in self.merged}

    def _vary_parameters(self, arguments: BackboneArguments) -> BackboneArguments:
        """Parameters as of each device: sums over replicas are taken once, after all backwards."""
        trained, constant = vary((arguments.trained, arguments.constant), self._axes)
        return arguments._replace(trained=trained, constant=constant)

    def _make_factors(self, rows: Any) -> StepFactors:
        batch: Batch = StepBatch(rows)
        tokens = self._program.count_tokens(batch)
        factors = self._program.loss_factors(batch, tokens)
        return StepFactors(*factors, tokens, self._program.count_targets(batch))

    def _decode(self, arguments: BackboneArguments, number: Any, merged: Any) -> Decoded:
        """The backbone on a microbatch."""
        params = combine(arguments.trained, arguments.constant)
        rows, routes = pick_microbatch((arguments.rows, arguments.routes), number)
        return Decoded(*self._model.decode(params, rows, routes, merged))

    def _read(
        self, arguments: BackboneArguments, number: Any, decoded: Decoded, others: Any
    ) -> Outputs:
        """What objectives read of a microbatch."""
        params = combine(arguments.trained, arguments.constant) | arguments.heads
        rows, routes = pick_microbatch((arguments.rows, arguments.routes), number)
        return self._model.objective_inputs(
            params, rows, routes, decoded.hidden, decoded.samples, others
        )

    def _microbatch_loss(
        self,
        arguments: BackboneArguments,
        factors: StepFactors,
        number: Any,
        decoded: Decoded,
        others: Any,
    ) -> tuple[jax.Array, Aux]:
        """The divided losses of objectives of a microbatch, and its auxiliary losses."""
        read = self._read(arguments, number, decoded, others)
        read = {name: value for name, value in read.items() if name not in self._waiting}
        rows = pick_microbatch(arguments.rows, number)
        params = combine(arguments.trained, arguments.constant) | arguments.heads
        losses = self._model.compute_losses(params, read, rows[self._backbone].targets)
        aux = psum(decoded.aux, self._program.grid.backbone.position_axes)
        return with_aux(sum_losses(losses, factors.divisors), aux, factors.aux), aux

    @property
    def _backbone(self) -> str:
        return self._program.model.backbone

    def _finish_losses(self, losses: StepLosses) -> StepLosses:
        """The losses of all microbatches, with means of auxiliary losses over the tokens."""
        return losses._replace(aux=jax.tree.map(lambda x: x / losses.factors.tokens, losses.aux))


class FusedBackbone(BackboneTasks):
    """Forward, losses and backward of a microbatch as one program."""

    def run(
        self,
        arguments: BackboneArguments,
        number: jax.Array,
        encoded: Mapping[str, jax.Array],
        total: Total,
        losses: StepLosses | None,
    ) -> tuple[Total, StepLosses, dict[str, jax.Array]]:
        """Losses and gradients of a microbatch, added to those before.

        Args:
            number: number of the microbatch.
            encoded: outputs of remote buckets, on these devices.
            total: gradients of the microbatches before, whose memory is taken.
            losses: of the microbatches before; None if there are none.

        Returns:
            The new total and losses, and the gradients of `encoded`.
        """
        results: tuple[Total, StepLosses, dict[str, jax.Array]] = self._program_of_one(
            arguments, number, encoded, total, losses
        )
        return results

    def run_last(
        self,
        arguments: BackboneArguments,
        number: jax.Array,
        encoded: Mapping[str, jax.Array],
        total: Total,
        losses: StepLosses | None,
    ) -> tuple[SummedGradients, StepLosses, dict[str, jax.Array]]:
        """`run` with the sums over replicas in the place of the total, and means of losses."""
        results: tuple[SummedGradients, StepLosses, dict[str, jax.Array]] = self._last_program(
            arguments, number, encoded, total, losses
        )
        return results

    @cached_property
    def _program_of_one(self) -> Callable[..., Any]:
        return self._compile(self._run, self._sums.stacked, donated=(3,))

    @cached_property
    def _last_program(self) -> Callable[..., Any]:
        return self._compile(self._run_last, self._sums.specs)

    def _compile(
        self, body: Callable[..., Any], out_spec: Any, donated: tuple[int, ...] = ()
    ) -> Callable[..., Any]:
        out_specs = out_spec, self._loss_specs, self._positions

        def run(*arguments: Any) -> Any:
            losses = None if arguments[-1] is None else self._loss_specs
            positions, stacked = self._positions, self._sums.stacked
            in_specs = self._specs, _SCALAR, positions, stacked, losses
            return shard_map(body, mesh=self._mesh, in_specs=in_specs, out_specs=out_specs)(
                *arguments
            )

        return compile_on(self._mesh, run, out_specs, donated=donated)

    def _run(
        self,
        arguments: BackboneArguments,
        number: jax.Array,
        encoded: Any,
        total: Total,
        losses: StepLosses | None,
    ) -> tuple[Total, StepLosses, Any]:
        here = self._vary_parameters(arguments)
        factors = self._make_factors(here.rows) if losses is None else losses.factors

        def loss_of(trained: Any, heads: Params, encoded: Any) -> tuple[jax.Array, Aux]:
            current = here._replace(trained=trained, heads=heads)
            merged, others = self._split_encoded(encoded)
            decoded = self._decode(current, number, merged)
            return self._microbatch_loss(current, factors, number, decoded, others)

        (loss, aux), (by_trained, by_heads, by_encoded) = jax.value_and_grad(
            loss_of, argnums=(0, 1, 2), has_aux=True
        )(here.trained, here.heads, encoded)
        added = StepLosses(loss, aux, factors, by_heads)
        if losses is not None:
            added = add_losses(losses, added)
        return add_to_total(total, by_trained), added, by_encoded

    def _run_last(self, *arguments: Any) -> tuple[SummedGradients, StepLosses, Any]:
        total, losses, by_encoded = self._run(*arguments)
        others = OtherSums({}, losses.loss, losses.factors.tokens)
        return self._sums.sum_total(total, others), self._finish_losses(losses), by_encoded
