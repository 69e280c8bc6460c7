"""The plainest gradient program: microbatch by microbatch, with all layers on every device.

::

    encode (encoder's view)  ->  exchange  ->  decode, loss (decoder's view)  ->  gradients

An objective that waits for a step has two passes: the first computes the outputs of all
microbatches, of which the loss and its gradients are then known; the second goes back from these,
microbatch by microbatch (gradient caching, arXiv 2101.06983).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from mllm_jax.train.step.gradient_program import Batch, GradientProgram, Gradients, with_aux
from sharding.collectives import psum, vary
from sharding.layerstack.partition import combine


class PlainProgram(GradientProgram):
    """The program of a decoder without stages."""

    def accumulate_gradients(
        self,
        params: Any,
        batch: Batch,
        divisors: Mapping[str, jax.Array],
        aux_factors: Mapping[str, jax.Array],
    ) -> Gradients:
        """The gradients of one microbatch after the other, added up."""
        axes = self.grid.backbone.all_axes

        def loss_of(
            trained: Any, rows: Any, routes: Any, step_gradients: Any
        ) -> tuple[jax.Array, Any]:
            params = combine(trained, constant)
            outputs, sums = self.sharded_model.forward(params, rows, routes)
            others = {n: output for n, output in outputs.items() if n not in step_gradients}
            targets = rows[self.model.backbone].targets
            losses = self.sharded_model.compute_losses(params, others, targets)
            loss, sums = sum_losses(losses, divisors), psum(sums, self.grid.backbone.position_axes)
            loss = with_aux(loss, sums, aux_factors)
            results = loss, sums
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
        targets = jax.tree.map(
            lambda leaf: leaf.reshape(-1, *leaf.shape[3:]),
            {name: batch.rows[self.model.backbone].targets[name] for name in names},
        )

        def make(_: Any, microbatch: Any) -> tuple[None, Any]:
            outputs, _ = self.sharded_model.forward(combine(trained, constant), *microbatch)
            return None, {name: output for name, output in outputs.items() if name in names}

        def loss_of(trained: Any, outputs: Any) -> jax.Array:
            flat = jax.tree.map(lambda leaf: leaf.reshape(-1, leaf.shape[-1]), outputs)
            return sum_losses(
                self.sharded_model.compute_losses(combine(trained, constant), flat, targets),
                divisors,
            )

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
