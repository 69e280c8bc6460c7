"""Runs of layers outside a pipeline, whose parameters are gathered while earlier layers compute.

A layer's parameters are gathered, and its gradients scattered, over ranks that share them. Where
both happen in the iteration of the layer itself, its first products wait for its gather, and its
scatter waits for its last products. Here an iteration of a loop gathers for the next one, whose
parameters its carry holds, and scatters for the one before::

    forward    gather 1 | layer 0      gather 2 | layer 1      gather 3 | layer 2
    backward   gather 1 | layer 2      gather 0 | layer 1 | scatter 2      layer 0 | scatter 1  ...

So a collective overlaps with the products of a layer. A forward and a backward gather once
more than there are layers, and a backward scatters once more, each under products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import lax

from sharding.layerstack.loops import PyTree
from sharding.layerstack.run import LayerStack
from sharding.layerstack.spec import Aux


@dataclass(frozen=True)
class PrefetchedLayerStack(LayerStack):
    """The whole stack of layers, whose parameters are gathered before a layer takes them.

    Attributes:
        gather: parameters of a layer as they are stored, to those that `layer` takes.
        prefetch: an iteration gathers the parameters of the next one.
        trailing_scatter: an iteration scatters the gradients of the one before.
    """

    gather: Callable[[PyTree], PyTree] = lambda params: params
    prefetch: bool = False
    trailing_scatter: bool = False

    def prefetch_first(self, kind: int, i: jax.Array) -> PyTree:
        """See `LayerStack.prefetch_first`."""
        return self.gather(self.layer_params(kind, i)) if self.prefetch else ()

    def prefetch_next(self, kind: int, i: jax.Array, ready: PyTree) -> tuple[PyTree, PyTree]:
        """See `LayerStack.prefetch_next`."""
        return self._gather_next(kind, i, ready, 1)

    def _gather_next(
        self, kind: int, i: jax.Array, ready: PyTree, step: int
    ) -> tuple[PyTree, PyTree]:
        """Parameters of layer `i`, and the carry for layer `i + step`, around the end."""
        if not self.prefetch:
            return self.gather(self.layer_params(kind, i)), ready
        following = (kind + step) % self.spec.period, (i + step) % self.count
        return ready, self.gather(self.layer_params(*following))

    def stack_gradients(
        self, residuals: PyTree, gradient: jax.Array, aux: Aux, context: PyTree
    ) -> tuple[PyTree, jax.Array]:
        """See `LayerStack.gradients`."""

        def body(carry: PyTree, inputs: tuple[jax.Array, PyTree]) -> tuple[PyTree, None]:
            (g, side_grads, sums, ready, waiting), (number, residuals) = carry, inputs
            for kind in reversed(range(self.spec.period)):
                i = self.layer_index(number, kind)
                g, side_grads = self.side_gradients(i, i, g, side_grads)
                params, ready = self._gather_next(kind, i, ready, -1)
                layer_grads, g, _ = self.layer_gradients(
                    kind, i, params, residuals[kind], (g, aux), context
                )
                sums, waiting = self._scatter_previous(kind, i, sums, layer_grads, waiting)
            return (g, side_grads, sums, ready, waiting), None

        last = self.spec.period - 1, self.periods[-1] * self.spec.period
        sums = jax.tree.map(jnp.zeros_like, self.stack)
        ready = self.prefetch_first(last[0], last[1] + last[0])
        waiting = (
            jax.tree.map(jnp.zeros_like, self._gathered_layer()) if self.trailing_scatter else ()
        )
        carry = (*self.split_gradient(gradient), sums, ready, waiting)
        (g, side_grads, sums, _, waiting), _ = lax.scan(
            body, carry, (self.periods, residuals), reverse=True
        )
        if self.trailing_scatter:
            sums = self._add_scattered(0, self.periods[0], sums, waiting)
        return sums, self.gradients_of((g, side_grads, ()))[0]

    def _scatter_previous(
        self, kind: int, i: jax.Array, sums: PyTree, layer_grads: PyTree, waiting: PyTree
    ) -> tuple[PyTree, PyTree]:
        """`sums` with gradients that are scattered now, and those that wait for the next layer.

        Zeros wait before the first layer of a backward, and are added to a layer of their kind.
        """
        if not self.trailing_scatter:
            return self._add_scattered(kind, i, sums, layer_grads), ()
        previous, period = (kind + 1) % self.spec.period, self.spec.period
        j = jnp.where(i + 1 < self.count, i + 1, self.count - period + previous)
        return self._add_scattered(previous, j, sums, waiting), layer_grads

    def _add_scattered(self, kind: int, i: jax.Array, sums: PyTree, gathered: PyTree) -> PyTree:
        """`sums` with the gradients of layer `i`, of which this rank has its shares of sums."""
        params, constant = self.partition_params(self.layer_params(kind, i))

        def gather(params: PyTree) -> PyTree:
            return self.partition_params(self.gather(self.combine_params(params, constant)))[0]

        (shards,) = jax.vjp(gather, params)[1](gathered)
        return self.leaves.add_gradients(kind, i, sums, shards, deferred=False)

    def _gathered_layer(self) -> PyTree:
        """Like the gradients of the first layer before they are scattered.

        Nothing but shapes and types is used of it.
        """
        return self.partition_params(self.gather(self.layer_params(0, self.periods[0])))[0]


def apply_layers(run: LayerStack, x: jax.Array, context: PyTree) -> tuple[jax.Array, Aux]:
    """All layers of `run` in order, outside a pipeline, and the sums of their auxiliary losses.

    Derivatives are those of `run`: what `run.remat` says of the forward is saved, and in no case
    what depends on parameters alone. There are none with respect to `context` and `run.constant`.
    """

    def start() -> jax.Array:
        # Made where it is used: the backward is traced outside a branch that holds the forward.
        return jnp.int32(0)

    @jax.custom_vjp
    def apply(
        stack: PyTree, x: jax.Array, constants: tuple[PyTree, PyTree]
    ) -> tuple[jax.Array, Aux]:
        constant, context = constants
        layers = replace(run, stack=stack, constant=constant, remat="full")
        return layers.outputs_of(layers.forward_loop(start(), x, context).run_scan()[0])

    def forward(
        stack: PyTree, x: jax.Array, constants: tuple[PyTree, PyTree]
    ) -> tuple[tuple[jax.Array, Aux], tuple[PyTree, ...]]:
        constant, context = constants
        layers = replace(run, stack=stack, constant=constant)
        carry, residuals = layers.forward_loop(start(), x, context).run_scan()
        return layers.outputs_of(carry), (stack, x if run.remat == "full" else residuals, constants)

    def backward(
        residuals: tuple[PyTree, ...], gradients: tuple[jax.Array, Aux]
    ) -> tuple[PyTree, jax.Array, None]:
        stack, saved, (constant, context) = residuals
        layers = replace(run, stack=stack, constant=constant)
        if run.remat == "full":
            _, saved = layers.recompute_loop(start(), saved, context).run_scan()
        return (*layers.stack_gradients(saved, *gradients, context), None)

    apply.defvjp(forward, backward)
    outputs: tuple[jax.Array, Aux] = apply(run.stack, x, (run.constant, context))
    return outputs
