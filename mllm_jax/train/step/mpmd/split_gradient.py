"""A function of shards whose forward and backward are two programs on one mesh.

::

    forward     trained, constant, inputs, data  ->  outputs, others, residuals
    backward    residuals, gradients of outputs  ->  gradients of trained and of inputs

Between the two the devices are free for other work. Residuals are what the backward needs besides
the arguments of the forward, which it is given again: arrays of each device, which no other device
reads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

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
    """

    def __init__(
        self,
        function: Callable[..., tuple[Any, Any]],
        mesh: Mesh,
        specs: Arguments,
        output_specs: tuple[Any, Any],
    ) -> None:
        self._function, self._mesh = function, mesh
        self._specs, self._output_specs = specs, output_specs
        self._axes: Axes = tuple(mesh.axis_names)
        self._types: _ResidualTypes | None = None

    def forward(self, arguments: Arguments) -> tuple[Any, Any, SavedForward]:
        """Outputs, others, and what the backward needs."""
        if self._types is None:
            self._trace_types(arguments)
        outputs, others, residuals = self._forward(arguments)
        return outputs, others, SavedForward(arguments, residuals)

    def backward(self, saved: SavedForward, gradients: Any, total: Any) -> tuple[Any, Any]:
        """Add the gradients of trained parameters to `total`, whose memory is taken.

        Args:
            saved: from `forward`.
            gradients: gradients of the outputs, which lie as these.
            total: as `zeros` makes it.

        Returns:
            The new total, and the gradients of the inputs.
        """
        added: tuple[Any, Any] = self._backward(*saved, gradients, total)
        return added

    def zeros(self, trained: Any) -> Any:
        """Gradients of nothing: of every device those of its shards, float32 `[devices, ...]`."""
        return self._zeros(trained)

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
        return jax.jit(
            shard_map(
                self._run_forward, mesh=self._mesh, in_specs=(self._specs,), out_specs=out_specs
            )
        )

    @cached_property
    def _backward(self) -> Callable[..., Any]:
        assert self._types is not None
        total = self._stacked_spec
        in_specs = (self._specs, self._types.specs, self._output_specs[0], total)
        mapped = shard_map(
            self._run_backward,
            mesh=self._mesh,
            in_specs=in_specs,
            out_specs=(total, self._specs.inputs),
        )
        return jax.jit(mapped, donate_argnums=3)

    @cached_property
    def _zeros(self) -> Callable[..., Any]:
        layout = NamedSharding(self._mesh, self._stacked_spec)

        def zeros(trained: Any) -> Any:
            return jax.tree.map(
                lambda x: jnp.zeros((1, *x.shape), jnp.float32), vary(trained, self._axes)
            )

        mapped = shard_map(
            zeros, mesh=self._mesh, in_specs=(self._specs.trained,), out_specs=self._stacked_spec
        )
        return jax.jit(mapped, out_shardings=layout)

    @property
    def _stacked_spec(self) -> PartitionSpec:
        """Layout of arrays of each device."""
        return PartitionSpec(self._axes)

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
        self, arguments: Arguments, residuals: tuple[jax.Array, ...], gradients: Any, total: Any
    ) -> tuple[Any, Any]:
        assert self._types is not None
        known = jax.tree.leaves(self._vary_parameters(arguments))
        saved = (x[0] for x in residuals)
        leaves = [next(saved) if n is None else known[n] for n in self._types.argument]
        by_trained, by_inputs = jax.tree.unflatten(self._types.tree, leaves)(gradients)
        return jax.tree.map(lambda x, g: x + g[None], total, by_trained), by_inputs

    def _vary_parameters(self, arguments: Arguments) -> Arguments:
        """Parameters as of each device: sums over replicas are taken once, after all backwards."""
        trained, constant = vary((arguments.trained, arguments.constant), self._axes)
        return arguments._replace(trained=trained, constant=constant)
