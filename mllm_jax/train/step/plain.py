"""The plainest gradient program: microbatch by microbatch, with all layers on every device.

::

    encode (encoder's view)  ->  exchange  ->  decode, loss (decoder's view)  ->  gradients
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from mllm_jax.train.step.gradient_program import Batch, GradientProgram, Gradients, with_aux
from sharding.collectives import vary
from sharding.layerstack.partition import combine
from sharding.layerstack.run import Aux


class PlainProgram(GradientProgram):
    """The program of a decoder without stages."""

    def shares(self, params: Any, batch: Batch, weight: jax.Array, aux: Aux) -> Gradients:
        """The gradients of one microbatch after the other, added up."""
        axes = self.grid.backbone.all_axes

        def loss_of(trained: Any, rows: Any, routes: Any) -> tuple[jax.Array, Aux]:
            loss, sums = self.modules.loss(combine(trained, constant), rows, routes)
            return with_aux(loss / weight, sums, aux), sums

        def add(carry: Any, microbatch: Any) -> tuple[Any, None]:
            made = jax.value_and_grad(loss_of, has_aux=True)(trained, *microbatch)
            return jax.tree.map(jnp.add, carry, made), None

        trained, constant = self.frozen.apart(vary(params, axes))
        zeros = vary(jax.tree.map(jnp.zeros_like, trained), axes)
        nothing = jax.tree.map(jnp.zeros_like, dict(aux))
        start, microbatches = ((jnp.zeros(()), nothing), zeros), (batch.rows, batch.routes)
        ((loss, sums), grads), _ = lax.scan(add, start, microbatches)
        return Gradients(loss, grads, {}, sums)
