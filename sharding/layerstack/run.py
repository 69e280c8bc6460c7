"""Runs of layers, as loops of their forward and their backward.

A layer's backward is written out as a call of `jax.vjp`, from what the rematerialisation policy has
saved of its forward (`residuals.py`). `prefetch.py` runs layers without a pipeline.

The layers of a stack may differ, in a period that repeats. One iteration of a loop is a whole
period, so that every kind of layer is compiled once and nothing is chosen at run time. `kind` is
the number of a layer within its period (`spec.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from sharding.collectives import Axes, vary
from sharding.layerstack.loops import Loop, PyTree, read_slot
from sharding.layerstack.partition import combine, partition
from sharding.layerstack.residuals import from_residuals, with_residuals
from sharding.layerstack.spec import UNIFORM, Aux, LayerStackSpec
from sharding.layerstack.split_backward import SavedOperands, SplitLayer
from sharding.layerstack.stacked import StackedLeaves


@dataclass(frozen=True)
class LayerStack:
    """`count` successive layers of a stack, as loops of their forward and their backward.

    Attributes:
        layer: `(params, x, context, kind) -> (x, aux)`, where `kind` is the number of the layer
            in its period and `aux` has the auxiliary losses of the layer on this rank.
        stack: parameters with a leading dimension of layers, of those that have them. Gradients
            have this structure.
        count: layers of the run, whole periods.
        remat: `full`, `layer` or `none`.
        axes: all axes of the grid. All that a layer sees varies over all of them, because the
            residuals of its backward depend on the types of its inputs.
        exists: whether the layer with this index is one of the model and not padding.
        spec: how layers differ, and what else they take and give.
        deferred: numbers of the leaves of parameters whose gradients `weight_gradients` makes, and
            not `backward_loop` (`sharding.layerstack.split_backward`); None if the latter makes
            all.
        constant: further parameters like `stack`, which have no gradients
            (`sharding.layerstack.partition`).
    """

    layer: Callable[[PyTree, jax.Array, PyTree, int], tuple[jax.Array, Aux]]
    stack: PyTree
    count: int
    remat: str
    axes: Axes
    exists: Callable[[jax.Array], jax.Array] | None = None
    spec: LayerStackSpec = UNIFORM
    deferred: frozenset[int] | None = None
    constant: PyTree = field(default_factory=dict)

    @property
    def leaves(self) -> StackedLeaves:
        """The leaves of `stack`."""
        return StackedLeaves(self.stack, self.spec, self.deferred)

    def forward_loop(self, start: jax.Array, x: jax.Array, context: PyTree) -> Loop:
        """Carry: the activation, sums of auxiliary losses, and outputs of intermediate layers.

        Outputs: values of each layer of a period that the backward needs, none if it recomputes.

        Args:
            start: index of the first layer, the first of a period.
            x: with what `spec` says after its features.
        """
        x, side_inputs = self.split_features(x)

        def body(carry: PyTree, first: jax.Array) -> tuple[PyTree, tuple[PyTree, ...]]:
            (x, aux, intermediates, ready), residuals = carry, []
            for kind in range(self.spec.period):
                i = first + kind if kind else first
                params, ready = self.prefetch_next(kind, i, ready)
                (x, aux), layer_residuals = self._run_layer(kind, i, params, (x, aux), context)
                x, intermediates = (
                    self._add_input(i - start, x, side_inputs),
                    self._record_intermediate(i, x, intermediates),
                )
                residuals.append(layer_residuals)
            return (x, aux, intermediates, ready), tuple(residuals)

        intermediates = side_inputs if self.spec.intermediate_layers else ()
        ready = self.prefetch_first(0, start)
        return Loop(body, (x, self._zero_aux(x), intermediates, ready), self._first_layers(start))

    def outputs_of(self, carry: PyTree) -> tuple[jax.Array, Aux]:
        """The activation, with the outputs of intermediate layers, and sums of a last carry."""
        x, aux, intermediates, _ = carry
        if self.spec.intermediate_layers:
            x = jnp.concatenate([x, *intermediates], axis=-1)
        return x, aux

    def split_features(self, x: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """The activation, and the parts after its features."""
        parts = jnp.split(x, 1 + self._side_count, axis=-1) if self._side_count else [x]
        return parts[0], tuple(parts[1:])

    @property
    def _side_count(self) -> int:
        return max(self.spec.side_inputs, len(self.spec.intermediate_layers))

    def _add_input(
        self, number: jax.Array, x: jax.Array, inputs: tuple[jax.Array, ...]
    ) -> jax.Array:
        """The activation `x`, with the input of layer `number` of the run added if it has one."""
        layer_inputs = inputs[: self.spec.side_inputs]
        return sum((jnp.where(number == k, value, 0) for k, value in enumerate(layer_inputs)), x)

    def _record_intermediate(
        self, i: jax.Array, x: jax.Array, intermediates: tuple[jax.Array, ...]
    ) -> tuple[jax.Array, ...]:
        """Outputs of the intermediate layers up to layer `i`."""
        pairs = (
            zip(self.spec.intermediate_layers, intermediates, strict=True) if intermediates else ()
        )
        return tuple(jnp.where(i + 1 == number, x, tap) for number, tap in pairs)

    def _run_layer(
        self,
        kind: int,
        i: jax.Array,
        params: PyTree,
        carry: tuple[jax.Array, Aux],
        context: PyTree,
    ) -> tuple[tuple[jax.Array, Aux], list[Any]]:
        """Layer `i` of the forward: the new carry, and the saved values."""
        x, sums = carry
        if self.remat == "none":
            (y, aux), residuals = with_residuals(
                partial(self._layer_vjp, kind), x, (params, i, context)
            )
        else:
            y, aux = self._apply_layer(kind, i, params, x, context)
            residuals = [x] if self.remat == "layer" else []
        return (y, jax.tree.map(jnp.add, sums, aux)), residuals

    def _first_layers(self, start: jax.Array) -> jax.Array:
        """Index of the first layer of every period, `[periods]`."""
        return vary(start + jnp.arange(0, self.count, self.spec.period), self.axes)

    @property
    def periods(self) -> jax.Array:
        """Numbers of the periods, `[periods]`."""
        return vary(jnp.int32(0) + jnp.arange(self.count // self.spec.period), self.axes)

    def recompute_loop(self, start: jax.Array, x: jax.Array, context: PyTree) -> Loop:
        """The forward again, keeping the values that the backward needs."""
        return replace(self, remat="none").forward_loop(start, x, context)

    def backward_loop(
        self,
        start: jax.Array,
        residuals: PyTree,
        gradient: jax.Array,
        aux: Aux,
        context: PyTree,
        sums: PyTree,
    ) -> Loop:
        """Carry: gradients as in `gradients_of`, and `sums` with the parameters' gradients added.

        Outputs: what `weight_gradients` reads of each layer of a period; nothing without deferred
        parameters.

        Args:
            residuals: outputs of `forward_loop`, or of `recompute_loop` where the policy is `full`.
            gradient: gradient of the arrays that `outputs_of` returns for the forward's carry.
            aux: gradients of the sums of auxiliary losses.
            sums: tree like `stack`, or the first of `StackedLeaves.partition_sums`.
        """
        gradient, side_grads = self.split_gradient(gradient)

        def body(carry: PyTree, number: jax.Array) -> tuple[PyTree, tuple[Any, ...]]:
            (g, side_grads, sums), operands = carry, []
            # Saved values are read in place: reversing their order would copy all of them.
            period_residuals = read_slot(residuals, number)
            for kind in reversed(range(self.spec.period)):
                offset = self.layer_index(number, kind)
                i = start + offset
                g, side_grads = self.side_gradients(offset, i, g, side_grads)
                params = self.layer_params(kind, i)
                d_params, g, pairs = self.layer_gradients(
                    kind, i, params, period_residuals[kind], (g, aux), context
                )
                sums = self.leaves.add_gradients(kind, i, sums, d_params, deferred=False)
                operands.append(pairs)
            return (g, side_grads, sums), tuple(operands[::-1])

        return Loop(body, (gradient, side_grads, sums), self.periods[::-1])

    def weight_gradients(
        self,
        start: jax.Array,
        pairs: tuple[SavedOperands, ...],
        like: jax.Array,
        context: PyTree,
        sums: PyTree,
    ) -> Loop:
        """Carry: `sums` with the gradients of the deferred parameters added.

        Args:
            pairs: outputs of `backward_loop`.
            like: an array of the shape and type of the layers' input.
            sums: the second of `StackedLeaves.partition_sums`.
        """

        def body(
            sums: PyTree, inputs: tuple[jax.Array, tuple[SavedOperands, ...]]
        ) -> tuple[PyTree, tuple[()]]:
            number, pairs = inputs
            for kind in range(self.spec.period):
                i = start + self.layer_index(number, kind)
                params, constant = self.partition_params(self.layer_params(kind, i))
                cut = self._split_layer(kind, params, like, (i, constant, context))
                weight_grads = cut.weight_gradients(jax.tree.leaves(params), pairs[kind])
                sums = self.leaves.add_gradients(kind, i, sums, weight_grads, deferred=True)
            return sums, ()

        return Loop(body, sums, (self.periods[::-1], pairs))

    def split_backward(self, x: jax.Array, context: PyTree) -> LayerStack:
        """The run with the parameters that products alone read as deferred ones.

        Args:
            x, context: as of a layer.
        """
        immediate = set[int]()
        for kind in range(self.spec.period):
            numbers = self.leaves.numbers_of_kind(kind)
            i = jnp.int32(0)
            params, constant = self.partition_params(self.layer_params(kind, i))
            deferred = self._split_layer(kind, params, x, (i, constant, context)).deferred
            immediate |= {number for n, number in enumerate(numbers) if n not in deferred}
        return replace(self, deferred=frozenset(range(len(self.leaves.entries))) - immediate)

    def saved_operands(self, x: jax.Array, context: PyTree) -> tuple[SavedOperands, ...]:
        """The operands that `backward_loop` saves where the first layers of a stack run on `x`."""
        start, layers = jnp.int32(0), replace(self, remat="none")
        carry, residuals = layers.forward_loop(start, x, context).run_scan()
        immediate, _ = self.leaves.partition_sums(jax.tree.map(jnp.zeros_like, self.stack))
        operands: tuple[SavedOperands, ...] = layers.backward_loop(
            start, residuals, layers.outputs_of(carry)[0], self._zero_aux(x), context, immediate
        ).run_scan()[1]
        return operands

    def gradients_of(self, carry: PyTree) -> tuple[jax.Array, PyTree]:
        """The gradient of the forward's `x`, and the sums, of a backward's last carry."""
        g, side_grads, sums = carry
        return jnp.concatenate([g, *side_grads], axis=-1) if side_grads else g, sums

    def split_gradient(self, gradient: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Gradients of the activation, and of what comes after the features of the input."""
        if self.spec.intermediate_layers:
            return self.split_features(gradient)
        return gradient, (jnp.zeros_like(gradient),) * self.spec.side_inputs

    def side_gradients(
        self, number: jax.Array, i: jax.Array, g: jax.Array, side_grads: tuple[jax.Array, ...]
    ) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """The gradient of the output of layer `i` before its input was added, and of that input."""
        for k, side_grad in zip(self.spec.intermediate_layers, side_grads, strict=False):
            g = g + jnp.where(i + 1 == k, side_grad, 0)
        if not self.spec.side_inputs:
            return g, side_grads
        return g, tuple(
            jnp.where(number == k, g, side_grad) for k, side_grad in enumerate(side_grads)
        )

    def stack_gradients(
        self, residuals: PyTree, gradient: jax.Array, aux: Aux, context: PyTree
    ) -> tuple[PyTree, jax.Array]:
        """Gradients of the parameters and of the run's input, the run being the full stack.

        Args:
            residuals, aux: as for `backward_loop`.
            gradient: gradient of the last layer's output.
        """

        def body(carry: PyTree, inputs: tuple[jax.Array, PyTree]) -> tuple[PyTree, list[PyTree]]:
            (g, side_grads), (number, residuals), layer_grads = carry, inputs, []
            for kind in reversed(range(self.spec.period)):
                i = self.layer_index(number, kind)
                g, side_grads = self.side_gradients(i, i, g, side_grads)
                params = self.layer_params(kind, i)
                d_params, g, _ = self.layer_gradients(
                    kind, i, params, residuals[kind], (g, aux), context
                )
                layer_grads.append(d_params)
            return (g, side_grads), layer_grads[::-1]

        split = self.split_gradient(gradient)
        last_carry, layer_grads = lax.scan(body, split, (self.periods, residuals), reverse=True)
        return self.leaves.combine_kinds(layer_grads), self.gradients_of((*last_carry, ()))[0]

    def layer_index(self, number: jax.Array, kind: int) -> jax.Array:
        """Index of a layer in the run, by the number of its period."""
        return number if self.spec.period == 1 else number * self.spec.period + kind

    # ---- the stack -------------------------------------------------------------------------------

    def prefetch_first(self, kind: int, i: jax.Array) -> PyTree:
        """What the carry of a loop that begins with layer `i` holds of that layer's parameters."""
        del kind, i
        return ()

    def prefetch_next(self, kind: int, i: jax.Array, ready: PyTree) -> tuple[PyTree, PyTree]:
        """Parameters of layer `i` of a forward, and what the carry then holds of the next one's."""
        return self.layer_params(kind, i), ready

    def layer_params(self, kind: int, i: jax.Array) -> PyTree:
        """Parameters of layer `i`."""
        return self.combine_params(
            *(self.leaves.read_layer(params, kind, i) for params in (self.stack, self.constant))
        )

    def partition_params(self, params: PyTree) -> tuple[PyTree, PyTree]:
        """A layer's parameters that have gradients, and those that have none."""
        return partition(params, self.stack) if self.constant else (params, {})

    def combine_params(self, params: PyTree, constant: PyTree) -> PyTree:
        """Inverse of `partition_params`."""
        return combine(params, constant) if self.constant else params

    def _zero_aux(self, x: jax.Array) -> Aux:
        """Zeros that vary as the activation does."""
        return {name: _vary_like(jnp.zeros(()), x) for name in self.spec.aux}

    def _apply_layer(
        self, kind: int, i: jax.Array, params: PyTree, x: jax.Array, context: PyTree
    ) -> tuple[jax.Array, Aux]:
        y, aux = self.layer(params, x, context, kind)
        if tuple(sorted(aux)) != tuple(sorted(self.spec.aux)):
            raise TypeError(
                f"layer {kind} of a period gives the auxiliary losses {sorted(aux)}; valid: "
                f"{sorted(self.spec.aux)}, those that its stack names, from each of its layers"
            )
        outputs = y, {name: _vary_like(value, x) for name, value in aux.items()}
        if self.exists is None:
            return outputs
        exists, without = self.exists(i), (x, self._zero_aux(x))
        return jax.tree.map(lambda new, old: jnp.where(exists, new, old), outputs, without)

    def _layer_vjp(
        self, kind: int, x: jax.Array, others: tuple[PyTree, jax.Array, PyTree]
    ) -> tuple[tuple[jax.Array, Aux], Any]:
        """A layer and its backward, from gradients of its outputs to those of its inputs.

        Its inputs are its parameters that have gradients, and `x`; `rest` are all parameters, the
        number of the layer and the context. With deferred parameters the backward is what
        `SplitLayer.backward` takes.
        """
        all_params, i, context = others
        params, constant = self.partition_params(all_params)
        if self.deferred is not None:
            leaves, constants = jax.tree.leaves(params), (i, constant, context)
            return self._split_layer(kind, params, x, constants).linearize(leaves, x, constants)

        def layer(params: PyTree, x: jax.Array) -> tuple[jax.Array, Aux]:
            return self._apply_layer(kind, i, self.combine_params(params, constant), x, context)

        return jax.vjp(layer, params, x)

    def _split_layer(
        self, kind: int, params: PyTree, x: jax.Array, others: tuple[jax.Array, PyTree, PyTree]
    ) -> SplitLayer:
        """The layers of a kind, cut at their products, for arguments like these.

        Args:
            params: those that have gradients.
            others: number of the layer, its other parameters, and the context.
        """

        def layer(params: PyTree, x: jax.Array, others: tuple[jax.Array, PyTree, PyTree]) -> PyTree:
            i, constant, context = others
            return self._apply_layer(kind, i, self.combine_params(params, constant), x, context)

        deferred = (
            None
            if self.deferred is None
            else frozenset(
                n
                for n, number in enumerate(self.leaves.numbers_of_kind(kind))
                if number in self.deferred
            )
        )
        return SplitLayer.trace_layer(layer, params, x, others, deferred)

    def layer_gradients(
        self,
        kind: int,
        i: jax.Array,
        params: PyTree,
        residuals: list[Any],
        gradients: tuple[jax.Array, Aux],
        context: PyTree,
    ) -> tuple[PyTree, jax.Array, SavedOperands | tuple[()]]:
        """Gradients of the parameters and input of layer `i`, and what `weight_gradients` reads.

        Args:
            gradients: those of its outputs.
        """
        if self.remat == "layer":
            (x,) = residuals
            pull = self._layer_vjp(kind, x, (params, i, context))[1]
        else:
            linearized = partial(self._layer_vjp, kind)
            pull = from_residuals(linearized, residuals, gradients[0], (params, i, context))
        if self.deferred is not None:
            return SplitLayer.backward(pull, gradients)
        return (*pull(gradients), ())


def _vary_like(value: jax.Array, x: jax.Array) -> jax.Array:
    """`value`, varying over the axes that `x` varies over."""
    return vary(value, tuple(sorted(jax.typeof(x).mat.varying)))
