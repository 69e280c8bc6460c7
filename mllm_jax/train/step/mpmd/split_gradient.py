"""A function of shards whose forward and backward are two programs on one mesh.

::

    forward     trained, constant, inputs, data          ->  outputs, others, residuals
    backward    residuals, gradients of outputs, total   ->  total, gradients of inputs

Between the two the devices are free for other work. Residuals are what the backward needs besides
the arguments of the forward, which it is given again: arrays of each device, which no other device
reads. The last backward of a step sums the total over replicas, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh, PartitionSpec

from mllm_jax.train.step.mpmd.compile import compile_on
from mllm_jax.train.step.mpmd.sums import (
    GradientSums,
    OtherSums,
    SummedGradients,
    Total,
    add_to_total,
)
from sharding.collectives import vary
from sharding.grid import Axes
from sharding.in_order import shard_map


class Arguments(NamedTuple):
    """Arguments of a function with two programs.

    Attributes:
        trained: parameters that have gradients.
        constant: parameters that have none.
        inputs: arrays that have gradients.
        data: arrays that have none.
    """

    trained: Any
    constant: Any
    inputs: Any
    data: Any


class SavedForward(NamedTuple):
    """What a forward leaves for its backward.

    Attributes:
        arguments: those of the forward.
        residuals: arrays `[devices, ...]`.
    """

    arguments: Arguments
    residuals: tuple[jax.Array, ...]


class _ResidualTypes(NamedTuple):
    """How residuals make a backward.

    Attributes:
        tree: tree of everything that the backward holds.
        argument: of each of its leaves, the number of the leaf of the arguments that it is; None:
            it is a residual.
        varying: of each residual, the axes over which its type varies.
    """

    tree: Any
    argument: tuple[int | None, ...]
    varying: tuple[Axes, ...]

    @property
    def specs(self) -> tuple[PartitionSpec, ...]:
        """Layouts of the residuals."""
        return tuple(PartitionSpec(axes or None) for axes in self.varying)


class SplitGradient:
    """Forward and backward of a function as two programs.

    Args:
        function: `(trained, constant, inputs, data)` to `(outputs, others)`, trees of shards. There
            are gradients of the outputs; the others have none.
        mesh: the mesh.
        specs: layouts of the arguments.
        output_specs: layouts of outputs and others.
        sums: sums of the gradients of the trained parameters; without them no backward.
    """

    def __init__(
        self,
        function: Callable[..., tuple[Any, Any]],
        mesh: Mesh,
        specs: Arguments,
        output_specs: tuple[Any, Any],
        sums: GradientSums | None,
    ) -> None:
        self._function, self._mesh, self._sums = function, mesh, sums
        self._specs, self._output_specs = specs, output_specs
        self._axes: Axes = tuple(mesh.axis_names)
        self._types: _ResidualTypes | None = None

    def forward(self, arguments: Arguments) -> tuple[Any, Any, SavedForward]:
        """Outputs, others, and what the backward needs."""
        if self._types is None:
            self._trace_types(arguments)
        outputs, others, residuals = self._forward(arguments)
        return outputs, others, SavedForward(arguments, residuals)

    def backward(self, saved: SavedForward, gradients: Any, total: Total) -> tuple[Total, Any]:
        """Add the gradients of trained parameters to `total`, whose memory is taken.

        Args:
            saved: from `forward`.
            gradients: gradients of the outputs, which lie as these.
            total: of the backwards before.

        Returns:
            The new total, and the gradients of the inputs.
        """
        added: tuple[Total, Any] = self._backward(*saved, gradients, total)
        return added

    def last_backward(
        self, saved: SavedForward, gradients: Any, total: Total, others: OtherSums
    ) -> tuple[SummedGradients, Any]:
        """`backward` with the sums over replicas in the place of the new total."""
        summed: tuple[SummedGradients, Any] = self._last_backward(*saved, gradients, total, others)
        return summed

    def _trace_types(self, arguments: Arguments) -> None:
        """Find the types of the residuals, on which the layouts of the forward's results depend."""

        def outputs_alone(arguments: Arguments) -> Any:
            return self._run_forward(arguments)[:2]

        typed = jax.shard_map(
            outputs_alone, mesh=self._mesh, in_specs=(self._specs,), out_specs=self._output_specs
        )
        jax.eval_shape(typed, arguments)

    @cached_property
    def _forward(self) -> Callable[..., Any]:
        assert self._types is not None
        out_specs = (*self._output_specs, self._types.specs)
        mapped = shard_map(
            self._run_forward, mesh=self._mesh, in_specs=(self._specs,), out_specs=out_specs
        )
        return compile_on(self._mesh, mapped, out_specs)

    @cached_property
    def _backward(self) -> Callable[..., Any]:
        assert self._sums is not None
        stacked = self._sums.stacked
        return self._compile_backward(self._run_backward, stacked, (stacked,), donated=(3,))

    @cached_property
    def _last_backward(self) -> Callable[..., Any]:
        assert self._sums is not None
        in_specs = self._sums.stacked, self._sums.other_specs
        return self._compile_backward(self._run_last_backward, self._sums.specs, in_specs)

    def _compile_backward(
        self,
        body: Callable[..., Any],
        out_spec: Any,
        in_specs: tuple[Any, ...],
        donated: tuple[int, ...] = (),
    ) -> Callable[..., Any]:
        assert self._types is not None
        specs = self._specs, self._types.specs, self._output_specs[0], *in_specs
        out_specs = out_spec, self._specs.inputs
        mapped = shard_map(body, mesh=self._mesh, in_specs=specs, out_specs=out_specs)
        return compile_on(self._mesh, mapped, out_specs, donated=donated)

    def _run_forward(self, arguments: Arguments) -> tuple[Any, Any, tuple[jax.Array, ...]]:
        here = self._vary_parameters(arguments)

        def run(trained: Any, inputs: Any) -> tuple[Any, Any]:
            return self._function(trained, here.constant, inputs, here.data)

        outputs, pull_back, others = jax.vjp(run, here.trained, here.inputs, has_aux=True)
        leaves, tree = jax.tree.flatten(pull_back)
        numbers = {id(leaf): number for number, leaf in enumerate(jax.tree.leaves(here))}
        argument = tuple(numbers.get(id(leaf)) for leaf in leaves)
        residuals = [x for x, number in zip(leaves, argument, strict=True) if number is None]
        varying = tuple(tuple(sorted(jax.typeof(x).mat.varying)) for x in residuals)
        self._types = _ResidualTypes(tree, argument, varying)
        return outputs, others, tuple(x[None] for x in residuals)

    def _run_backward(
        self, arguments: Arguments, residuals: tuple[jax.Array, ...], gradients: Any, total: Total
    ) -> tuple[Total, Any]:
        by_trained, by_inputs = self._differentiate(arguments, residuals, gradients)
        return add_to_total(total, by_trained), by_inputs

    def _run_last_backward(
        self,
        arguments: Arguments,
        residuals: tuple[jax.Array, ...],
        gradients: Any,
        total: Total,
        others: OtherSums,
    ) -> tuple[SummedGradients, Any]:
        assert self._sums is not None
        by_trained, by_inputs = self._differentiate(arguments, residuals, gradients)
        return self._sums.sum_total(add_to_total(total, by_trained), others), by_inputs

    def _differentiate(
        self, arguments: Arguments, residuals: tuple[jax.Array, ...], gradients: Any
    ) -> tuple[Any, Any]:
        """Gradients of trained parameters, of this device, and of inputs."""
        assert self._types is not None
        known = jax.tree.leaves(self._vary_parameters(arguments))
        saved = (x[0] for x in residuals)
        leaves = [next(saved) if n is None else known[n] for n in self._types.argument]
        both: tuple[Any, Any] = jax.tree.unflatten(self._types.tree, leaves)(gradients)
        return both

    def _vary_parameters(self, arguments: Arguments) -> Arguments:
        """Parameters as of each device: sums over replicas are taken once, after all backwards."""
        trained, constant = vary((arguments.trained, arguments.constant), self._axes)
        return arguments._replace(trained=trained, constant=constant)
