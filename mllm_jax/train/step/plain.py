"""The plainest gradient program: microbatch by microbatch, with all layers on every device.

::

    encode (encoder's view)  ->  exchange  ->  decode, loss (decoder's view)  ->  gradients

An objective that waits for a step needs the outputs of all microbatches before any backward. With
gradient caching (arXiv 2101.06983) there are two passes: the first computes the outputs, of which
the loss and its gradients are then known; the second computes them again, and goes back from these
gradients, microbatch by microbatch. Without it what backwards need is kept for all microbatches,
and no forward runs twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from mllm_jax.models.freeze import NOTHING_FROZEN, FrozenParameters
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.streams import NO_STREAMS
from mllm_jax.train.step.gradient_program import Batch, GradientProgram, Gradients, with_aux
from sharding.collectives import psum, vary
from sharding.exchange_kinds import DEFAULT_EXCHANGES, Exchanges
from sharding.grid import JointGrid
from sharding.layerstack.partition import combine


class PlainProgram(GradientProgram):
    """The program of a decoder without stages.

    Args:
        model, grid, frozen, exchanges, streams: as of `StepProgram`.
        gradient_caching: whether forwards before losses of a step run twice.
    """

    def __init__(
        self,
        model: ModelConfig,
        grid: JointGrid,
        frozen: FrozenParameters = NOTHING_FROZEN,
        exchanges: Exchanges = DEFAULT_EXCHANGES,
        *,
        gradient_caching: bool = True,
        streams: Mapping[str, int] = NO_STREAMS,
    ) -> None:
        super().__init__(model, grid, frozen, exchanges=exchanges, streams=streams)
        self.gradient_caching = gradient_caching

    def accumulate_gradients(
        self,
        params: Any,
        batch: Batch,
        divisors: Mapping[str, jax.Array],
        aux_factors: Mapping[str, jax.Array],
    ) -> Gradients:
        """The gradients of one microbatch after the other, added up."""
        if self.sharded_model.step_objectives and not self.gradient_caching:
            return self._differentiate_step(params, batch, divisors, aux_factors)
        axes = self.grid.backbone.all_axes

        def loss_of(
            trained: Any, rows: Any, routes: Any, step_gradients: Any
        ) -> tuple[jax.Array, Any]:
            params = combine(trained, constant)
            outputs, results = self._run_microbatch(
                params, rows, routes, divisors=divisors, aux_factors=aux_factors
            )
            loss, _ = results
            if step_gradients:
                loss = loss + psum(_product_with_gradients(outputs, step_gradients), axes)
            return loss, results

        def add(carry: Any, microbatch: Any) -> tuple[Any, None]:
            (_, results), grads = jax.value_and_grad(loss_of, has_aux=True)(trained, *microbatch)
            return jax.tree.map(jnp.add, carry, (results, grads)), None

        trained, constant = self.frozen.partition(vary(params, axes))
        loss, zeros, output_gradients = self._differentiate_step_objectives(
            trained, constant, batch, divisors
        )
        nothing = jax.tree.map(jnp.zeros_like, dict(aux_factors))
        start, microbatches = ((loss, nothing), zeros), (batch.rows, batch.routes, output_gradients)
        ((loss, sums), grads), _ = lax.scan(add, start, microbatches)
        return Gradients(loss, grads, {}, sums)

    def _run_microbatch(
        self,
        params: Any,
        rows: Any,
        routes: Any,
        *,
        divisors: Mapping[str, jax.Array],
        aux_factors: Mapping[str, jax.Array],
    ) -> tuple[Any, tuple[jax.Array, Any]]:
        """Outputs of a microbatch; its loss without objectives of the step, and auxiliary sums."""
        outputs, sums = self.sharded_model.forward(params, rows, routes)
        waiting, targets = self.sharded_model.step_objectives, rows[self.model.backbone].targets
        others = {name: output for name, output in outputs.items() if name not in waiting}
        losses = self.sharded_model.compute_losses(params, others, targets)
        sums = psum(sums, self.grid.backbone.position_axes)
        return outputs, (with_aux(sum_losses(losses, divisors), sums, aux_factors), sums)

    def _differentiate_step(
        self,
        params: Any,
        batch: Batch,
        divisors: Mapping[str, jax.Array],
        aux_factors: Mapping[str, jax.Array],
    ) -> Gradients:
        """The gradients of all microbatches at once, whose activations are all kept."""
        names = self.sharded_model.step_objectives

        def loss_of(trained: Any) -> tuple[jax.Array, Any]:
            params = combine(trained, constant)

            def run(results: Any, microbatch: Any) -> tuple[Any, Any]:
                outputs, added = self._run_microbatch(
                    params, *microbatch, divisors=divisors, aux_factors=aux_factors
                )
                waiting = {name: output for name, output in outputs.items() if name in names}
                return jax.tree.map(jnp.add, results, added), waiting

            start = jnp.zeros(()), jax.tree.map(jnp.zeros_like, dict(aux_factors))
            (loss, sums), outputs = lax.scan(run, start, (batch.rows, batch.routes))
            loss = loss + self._step_loss(params, outputs, batch, divisors)
            return loss, (loss, sums)

        trained, constant = self.frozen.partition(vary(params, self.grid.backbone.all_axes))
        (_, (loss, sums)), grads = jax.value_and_grad(loss_of, has_aux=True)(trained)
        return Gradients(loss, grads, {}, sums)

    def _step_loss(
        self, params: Any, outputs: Any, batch: Batch, divisors: Mapping[str, jax.Array]
    ) -> jax.Array:
        """The loss of objectives that wait for all microbatches.

        Args:
            outputs: by objective and source, `[microbatches, ..., width]`.
        """
        targets = jax.tree.map(
            lambda leaf: leaf.reshape(-1, *leaf.shape[3:]),
            {name: batch.rows[self.model.backbone].targets[name] for name in outputs},
        )
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, leaf.shape[-1]), outputs)
        return sum_losses(self.sharded_model.compute_losses(params, flat, targets), divisors)

    def _differentiate_step_objectives(
        self, trained: Any, constant: Any, batch: Batch, divisors: Mapping[str, jax.Array]
    ) -> tuple[jax.Array, Any, Any]:
        """The loss of objectives that wait for all microbatches, and its gradients.

        Returns:
            The loss; its gradients by parameters, of which those through outputs are no part; and
            those by the outputs of every microbatch, by objective and source.
        """
        axes, names = self.grid.backbone.all_axes, self.sharded_model.step_objectives
        if not names:
            return jnp.zeros(()), vary(jax.tree.map(jnp.zeros_like, trained), axes), {}

        def make(_: Any, microbatch: Any) -> tuple[None, Any]:
            outputs, _ = self.sharded_model.forward(combine(trained, constant), *microbatch)
            return None, {name: output for name, output in outputs.items() if name in names}

        def loss_of(trained: Any, outputs: Any) -> jax.Array:
            return self._step_loss(combine(trained, constant), outputs, batch, divisors)

        _, outputs = lax.scan(make, None, (batch.rows, batch.routes))
        loss, (grads, output_gradients) = jax.value_and_grad(loss_of, argnums=(0, 1))(
            trained, outputs
        )
        return loss, vary(grads, axes), output_gradients


def sum_losses(losses: Mapping[str, jax.Array], divisors: Mapping[str, jax.Array]) -> jax.Array:
    """Sum of the divided losses."""
    divided = [loss / divisors[name] for name, loss in losses.items()]
    return sum(divided[1:], divided[0]) if divided else jnp.zeros(())


def _product_with_gradients(outputs: Any, output_gradients: Any) -> jax.Array:
    """A sum of this rank whose gradients by these outputs are `output_gradients`."""
    selected = {name: outputs[name] for name in output_gradients}
    products = jax.tree.leaves(
        jax.tree.map(lambda x, g: jnp.sum(x * g), selected, output_gradients)
    )
    return jnp.sum(jnp.stack(products))
