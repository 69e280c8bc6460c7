"""The exchanges between any devices against a plain lookup: merged outputs and gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from numpy.typing import NDArray

from sharding.collectives import psum
from sharding.exchange import RouteArrays, gather_outputs, route_outputs, scatter_outputs
from sharding.exchange_kinds import Exchange
from sharding.grid import JointGrid
from sharding.mesh import make_mesh, named_shardings
from sharding.plan import ParallelPlan
from sharding.routes import Routes, RouteSide, runs_of


@dataclass(frozen=True)
class MergeCase:
    """Encoder outputs that are merged at tokens anywhere, by routes over all of `devices`.

    Attributes:
        rows: number of rows of a device.
        outputs, tokens: length of a row of the encoder and of the decoder; of more outputs than
            tokens, some are merged nowhere.
        width: width of an output.
        ragged: slices of any length, or padded ones, of an all-to-all.
        exchange: the exchange.
        dtype: type of an output.
    """

    devices: Sequence[jax.Device]
    rows: int
    outputs: int
    tokens: int
    width: int
    ragged: bool
    exchange: Exchange = "all_to_all"
    dtype: str = "bfloat16"

    @cached_property
    def index(self) -> NDArray[np.int32]:
        """`[rows of all devices, tokens]`: a random output for each token, or none (-1)."""
        rows = self.rows * len(self.devices)
        most = rows * max(self.outputs, self.tokens)
        draws = np.random.default_rng(0).permutation(most)[: rows * self.tokens]
        return np.where(draws < rows * self.outputs, draws, -1).reshape(rows, -1).astype(np.int32)

    @property
    def bytes(self) -> int:
        """Bytes of the outputs of one device, each of which moves once, and its gradient back."""
        return self.rows * self.outputs * self.width * jnp.dtype(self.dtype).itemsize

    def compile_program(self) -> Callable[[], Any]:
        """Compiled; gives what is merged at every token and the outputs' gradients.

        The gradients are those of the sum of merged outputs times the weights of `expected_result`.
        """
        grid = JointGrid.build(dict.fromkeys(("backbone", "encoder"), self._make_plan))
        mesh, axes = make_mesh(grid, self.devices), grid.backbone.position_axes

        def body(outputs: Any, weights: Any, routes: RouteArrays) -> Any:
            def loss(outputs: jax.Array) -> tuple[jax.Array, jax.Array]:
                if self.exchange == "all_to_all":
                    moved = route_outputs(outputs, routes.of_device, axes)
                else:
                    move = gather_outputs if self.exchange == "gather" else scatter_outputs
                    moved = move(outputs, routes.index, grid.views["encoder"], grid.backbone, ())
                total = jnp.sum(moved.astype(jnp.float32) * weights.astype(jnp.float32))
                return psum(total, axes), moved

            gradient, moved = jax.grad(loss, has_aux=True)(outputs)
            return moved, gradient

        spec = PartitionSpec(axes)
        run = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec))
        inputs = self._place_inputs(mesh, spec, grid)
        return partial(run.lower(*inputs).compile(), *inputs)

    def expected_result(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The exact result of `program`, by a lookup on the host."""
        outputs, weights = (np.asarray(x, np.float32) for x in self._draw_values())
        flat, is_merged = outputs.reshape(-1, self.width), self.index >= 0
        moved = np.where(is_merged[..., None], flat[self.index], 0)
        gradient = np.zeros_like(flat)
        gradient[self.index[is_merged]] = weights[is_merged]
        return moved, gradient.reshape(outputs.shape)

    def largest_error(self, actual: Any) -> float:
        """The largest difference of a result of `program` from `expected_result`."""
        pairs = zip(actual, self.expected_result(), strict=True)
        return max(float(np.abs(np.asarray(a, np.float32) - b).max()) for a, b in pairs)

    @property
    def _make_plan(self) -> ParallelPlan:
        return ParallelPlan(data=len(self.devices))

    def _draw_values(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Outputs and weights."""
        rng, rows = np.random.default_rng(1), len(self.index)
        shapes = [(rows, length, self.width) for length in (self.outputs, self.tokens)]
        first, second = (rng.standard_normal(shape, np.float32) for shape in shapes)
        return first.astype(self.dtype), second.astype(self.dtype)

    def _place_inputs(self, mesh: Mesh, spec: PartitionSpec, grid: JointGrid) -> Any:
        if self.exchange != "all_to_all":
            inputs: Any = (*self._draw_values(), RouteArrays(None, self.index))
            return jax.device_put(
                inputs, named_shardings(mesh, jax.tree.map(lambda _: spec, inputs))
            )
        rows, numbers = len(self.index), range(len(self.devices))
        source = RouteSide(grid.views["encoder"], rows, self.outputs)
        target = RouteSide(grid.backbone, rows, self.tokens)
        runs = runs_of(self.index, self.outputs)
        routes = Routes.build(source, target, runs, self.ragged)
        route_arrays = RouteArrays(
            None,
            picks=np.stack([routes.send_indices(device) for device in numbers]),
            slices=np.stack([routes.ragged_slices(device) for device in numbers])
            if self.ragged
            else None,
            receive=np.concatenate([routes.receive_indices(device) for device in numbers]),
        )
        inputs = (*self._draw_values(), route_arrays)
        return jax.device_put(inputs, named_shardings(mesh, jax.tree.map(lambda _: spec, inputs)))
