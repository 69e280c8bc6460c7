"""Programs of a backbone whose losses wait for all microbatches of a step.

::

    decode 0, decode 1, ..  ->  losses and their gradients  ->  backward 0, backward 1, ..

Residuals of the forwards stay on the devices. Objectives of a microbatch have their losses with
those of the step, one microbatch after the other, so that logits of one of them are there at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from mllm_jax.layers.parameters import Params
from mllm_jax.train.step.mpmd.backbone import (
    BackboneArguments,
    BackboneTasks,
    Decoded,
    StepFactors,
    StepLosses,
    add_losses,
)
from mllm_jax.train.step.mpmd.compile import compile_on
from mllm_jax.train.step.mpmd.split_gradient import Arguments, SavedForward, SplitGradient
from mllm_jax.train.step.mpmd.sums import OtherSums, SummedGradients, Total, add_to_total
from mllm_jax.train.step.plain import sum_losses
from sharding.collectives import vary
from sharding.in_order import shard_map
from sharding.layerstack.partition import combine
from sharding.layerstack.spec import Aux

_SCALAR = PartitionSpec()


class DecodedOutputs(NamedTuple):
    """What the losses of a step read of its microbatches, or the gradients of that.

    Attributes:
        decoded: by microbatch, what the backbone has made.
        others: by microbatch, outputs of remote buckets that are not merged, by bucket.
    """

    decoded: tuple[Decoded, ...]
    others: tuple[dict[str, jax.Array], ...]


class WaitingBackbone(BackboneTasks):
    """Forwards, losses of the step, and backwards."""

    def forward(
        self, arguments: BackboneArguments, number: jax.Array, encoded: Mapping[str, jax.Array]
    ) -> tuple[Decoded, SavedForward]:
        """The backbone on microbatch `number`.

        Args:
            encoded: outputs of remote buckets that are merged, on these devices.
        """
        data = arguments.rows, arguments.routes, number
        decoded, _, saved = self._split_decode.forward(
            Arguments(arguments.trained, arguments.constant, dict(encoded), data)
        )
        return decoded, saved

    def losses(
        self, arguments: BackboneArguments, outputs: DecodedOutputs
    ) -> tuple[Total, StepLosses, DecodedOutputs]:
        """The losses of the step, the gradients of parameters that they read, and of `outputs`."""
        results: tuple[Total, StepLosses, DecodedOutputs] = self._losses(arguments, outputs)
        return results

    def backward(
        self, saved: SavedForward, gradients: Decoded, total: Total
    ) -> tuple[Total, dict[str, jax.Array]]:
        """Add the gradients of parameters to `total`; also those of merged outputs."""
        return self._split_decode.backward(saved, gradients, total)

    def last_backward(
        self, saved: SavedForward, gradients: Decoded, total: Total, losses: StepLosses
    ) -> tuple[SummedGradients, dict[str, jax.Array]]:
        """`backward` with the sums over replicas in the place of the new total."""
        others = OtherSums({}, losses.loss, losses.factors.tokens)
        return self._split_decode.last_backward(saved, gradients, total, others)

    # ---- decode ----------------------------------------------------------------------------------

    @cached_property
    def _decoded_spec(self) -> Decoded:
        return Decoded(self._positions, PartitionSpec(self._axes), self._positions)

    @cached_property
    def _split_decode(self) -> SplitGradient:
        specs = self._specs
        data = specs.rows, specs.routes, _SCALAR
        arguments = Arguments(specs.trained, specs.constant, self._positions, data)
        results = self._decoded_spec, ()
        return SplitGradient(self._run_decode, self._mesh, arguments, results, self._sums)

    def _run_decode(
        self, trained: Any, constant: Any, merged: Any, data: Any
    ) -> tuple[Decoded, tuple[()]]:
        rows, routes, number = data
        arguments = BackboneArguments(trained, constant, {}, rows, routes)
        decoded = self._decode(arguments, number, merged)
        stacked = decoded._replace(aux=jax.tree.map(lambda x: x[None], decoded.aux))
        return vary(stacked, self._axes), ()

    # ---- losses ----------------------------------------------------------------------------------

    @cached_property
    def _losses(self) -> Callable[..., Any]:
        others: Any = (self._positions,) * self._count
        specs = DecodedOutputs((self._decoded_spec,) * self._count, others)
        in_specs, out_specs = (self._specs, specs), (self._sums.stacked, self._loss_specs, specs)
        mapped = shard_map(
            self._run_losses, mesh=self._mesh, in_specs=in_specs, out_specs=out_specs
        )
        return compile_on(self._mesh, mapped, out_specs)

    def _run_losses(
        self, arguments: BackboneArguments, outputs: DecodedOutputs
    ) -> tuple[Total, StepLosses, DecodedOutputs]:
        here = self._vary_parameters(arguments)
        factors = self._make_factors(here.rows)
        loss = partial(self._step_loss, factors)
        losses, by_trained, gradients = _differentiate(loss, here, factors, outputs)
        total = add_to_total(self._sums.nothing, by_trained)
        if not self._has_microbatch_losses:
            return total, self._finish_losses(losses), gradients
        by_microbatch = []
        for number, inputs in enumerate(zip(*outputs, strict=True)):
            loss = partial(self._loss_of_one, factors, number)
            added, by_trained, by_inputs = _differentiate(loss, here, factors, inputs)
            losses, total = add_losses(losses, added), add_to_total(total, by_trained)
            by_microbatch.append(by_inputs)
        by_outputs = DecodedOutputs(*map(tuple, zip(*by_microbatch, strict=True)))
        return total, self._finish_losses(losses), jax.tree.map(jnp.add, gradients, by_outputs)

    @property
    def _has_microbatch_losses(self) -> bool:
        """Whether there are objectives of a microbatch, or auxiliary losses."""
        model = self._program.model
        return bool({*model.graph.objectives} - self._waiting) or bool(model.backbone_config.aux)

    def _step_loss(
        self, factors: StepFactors, arguments: BackboneArguments, outputs: DecodedOutputs
    ) -> tuple[jax.Array, Aux]:
        """The divided losses of objectives of the step; nothing of auxiliary losses."""
        read = [
            self._read(arguments, number, decoded, others)
            for number, (decoded, others) in enumerate(zip(*outputs, strict=True))
        ]
        of_step = [{name: inputs[name] for name in self._waiting} for inputs in read]
        flat = jax.tree.map(lambda *x: jnp.stack(x).reshape(-1, x[0].shape[-1]), *of_step)
        targets = arguments.rows[self._backbone].targets
        flat_targets = jax.tree.map(
            lambda x: x.reshape(-1, *x.shape[3:]), {name: targets[name] for name in self._waiting}
        )
        params = combine(arguments.trained, arguments.constant)
        losses = self._model.compute_losses(params, flat, flat_targets)
        return sum_losses(losses, factors.divisors), jax.tree.map(jnp.zeros_like, factors.aux)

    def _loss_of_one(
        self, factors: StepFactors, number: int, arguments: BackboneArguments, inputs: Any
    ) -> tuple[jax.Array, Aux]:
        decoded, others = inputs
        here = decoded._replace(aux=jax.tree.map(lambda x: x[0], decoded.aux))
        return self._microbatch_loss(arguments, factors, number, here, others)


def _differentiate(
    loss: Callable[[BackboneArguments, Any], tuple[jax.Array, Aux]],
    arguments: BackboneArguments,
    factors: StepFactors,
    inputs: Any,
) -> tuple[StepLosses, list[jax.Array | None], Any]:
    """A loss, its gradients by trained parameters, None for those that it does not read, and by
    inputs."""
    structure: Any = jax.tree.structure(arguments.trained)
    leaves = jax.tree.leaves(arguments.trained)

    def loss_of(read: list[jax.Array | None], heads: Params, inputs: Any) -> Any:
        all_leaves = [x if new is None else new for x, new in zip(leaves, read, strict=True)]
        trained = structure.unflatten(all_leaves)
        return loss(arguments._replace(trained=trained, heads=heads), inputs)

    used = _find_used(lambda leaves: loss_of(leaves, arguments.heads, inputs), leaves)
    read = [x if is_used else None for x, is_used in zip(leaves, used, strict=True)]
    (value, aux), (by_trained, by_heads, by_inputs) = jax.value_and_grad(
        loss_of, argnums=(0, 1, 2), has_aux=True
    )(read, arguments.heads, inputs)
    return StepLosses(value, aux, factors, by_heads), by_trained, by_inputs


def _find_used(function: Callable[[list[Any]], Any], leaves: list[Any]) -> list[bool]:
    """Whether a function reads each of its arguments."""
    traced = jax.make_jaxpr(function)(leaves).jaxpr
    read = {id(variable) for eqn in traced.eqns for variable in eqn.invars}
    return [id(variable) in read for variable in traced.invars]
