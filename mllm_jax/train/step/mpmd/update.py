"""State and update of the parameters of one group of devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, PartitionSpec

from mllm_jax.layers.parameters import Params
from mllm_jax.models.module import abstract_parameters
from mllm_jax.train.state.lamb import trust_ratios
from mllm_jax.train.state.optimizer import count_trust_ratios, total_norm
from mllm_jax.train.step.mpmd.compile import compile_on
from mllm_jax.train.step.mpmd.program import MpmdProgram
from mllm_jax.train.step.mpmd.sums import GradientSums
from mllm_jax.train.step.step import State, specs_like
from sharding.in_order import shard_map
from sharding.layerstack.partition import combine
from sharding.mesh import named_shardings, sharded_shapes

_SCALAR = PartitionSpec()


class UpdateScalars(NamedTuple):
    """What an update tells of the whole step, the same in all groups.

    Attributes:
        grad_norm: norm of all gradients, before clipping.
        part_norms: that of every part.
        learning_rate: of the update.
        trust_ratios: those of LAMB in this group, and the number of known ones; None of other
            optimizers.
    """

    grad_norm: jax.Array
    part_norms: dict[str, jax.Array]
    learning_rate: jax.Array
    trust_ratios: Any


class GroupUpdate:
    """Programs of one group: initial state and update.

    Every group has the norms of all parts and decides by itself what is clipped and left out.

    Args:
        program: what all groups have in common.
        number: number of the group.
        mesh: its mesh.
        optimizer: optimizer of its modules' parameters.
        sums: sums of gradients in all groups, as of `MpmdGradients`.
        skips, rate: as of `TrainStep`.
    """

    def __init__(
        self,
        program: MpmdProgram,
        number: int,
        mesh: Mesh,
        optimizer: optax.GradientTransformationExtraArgs,
        sums: Mapping[str, GradientSums],
        *,
        skips: bool,
        rate: optax.Schedule,
    ) -> None:
        self._program, self._mesh, self._optimizer = program, mesh, optimizer
        self._sums, self._skips, self._rate = sums, skips, rate
        self.modules = program.modules_of(number)
        self._layout = {name: program.form.shardings[name] for name in self.modules}
        self._trained, _ = program.frozen.partition(self._layout)
        #: The sums of this group.
        self.local_sums = tuple(name for name in sums if name in self.modules)

    @cached_property
    def state_shapes(self) -> State:
        """Shapes and types of the state."""
        params = abstract_parameters(self._program.model)[0]
        return jax.eval_shape(self._initial_state, params)

    @cached_property
    def state_specs(self) -> State:
        """Layouts of the state."""
        params = jax.tree.map(lambda leaf: leaf.spec, self._layout)
        optimizer = specs_like(self.state_shapes["optimizer"], self._layout)
        return {"step": _SCALAR, "params": params, "optimizer": optimizer}

    @cached_property
    def state_layouts(self) -> State:
        """How the state lies on the devices."""
        layouts: Any = named_shardings(self._mesh, self.state_specs)
        return layouts

    @property
    def abstract_state(self) -> State:
        """Shapes, types and layouts of the state."""
        state: State = sharded_shapes(self.state_shapes, self._mesh, self.state_specs)
        return state

    def init(self, make_parameters: Callable[[jax.Array], Params]) -> Callable[[jax.Array], State]:
        """A program from a key to the initial state.

        Args:
            make_parameters: parameters of the whole model from a key.
        """

        def run(key: jax.Array) -> State:
            return self._initial_state(make_parameters(key))

        return compile_on(self._mesh, run, self.state_specs, placed=True)

    @cached_property
    def update(self) -> Callable[..., tuple[State, UpdateScalars]]:
        """From state, gradients by `local_sums` and signals of all sums to the new state.

        The memory of the state is taken.
        """
        specs, local = (
            self.state_specs,
            [self._sums[name].specs.gradients for name in self.local_sums],
        )
        ratios = _SCALAR if trust_ratios(specs["optimizer"]) else None
        scalars: Any = _SCALAR
        out_specs = specs, UpdateScalars(scalars, scalars, scalars, ratios)
        in_specs = specs, local, _SCALAR
        mapped = shard_map(self._update, mesh=self._mesh, in_specs=in_specs, out_specs=out_specs)
        return compile_on(self._mesh, mapped, out_specs, donated=(0,))

    def _update(
        self, state: State, gradients: Sequence[Any], signals: Mapping[str, jax.Array]
    ) -> tuple[State, UpdateScalars]:
        norms, finite = self._read_signals(signals)
        norm = total_norm(norms)
        with jax.named_scope("update"):
            trained, constant = self._program.frozen.partition(state["params"])
            grads = {name: tree for by_module in gradients for name, tree in by_module.items()}
            updates, optimizer = self._optimizer.update(
                grads, state["optimizer"], trained, norm=norm
            )
            params = combine(optax.apply_updates(trained, updates), constant)
            new = {"step": state["step"] + 1, "params": params, "optimizer": optimizer}
        if self._skips:
            is_good = finite & jnp.isfinite(norm)
            new = jax.tree.map(lambda new, old: jnp.where(is_good, new, old), new, state)
        # An update that is left out does not count, as it does not for the optimizer.
        rate = jnp.asarray(self._rate(state["step"]), jnp.float32)
        ratios: Any = trust_ratios(optimizer)
        if ratios is not None:
            ratios = ratios, count_trust_ratios(updates, trained, self._layout)
        return new, UpdateScalars(norm, norms, rate, ratios)

    def _read_signals(
        self, signals: Mapping[str, jax.Array]
    ) -> tuple[dict[str, jax.Array], jax.Array]:
        """Norms of all parts, and whether all else is finite."""
        norms = {
            part: norm
            for name, sums in self._sums.items()
            for part, norm in zip(sums.parts, signals[name][:-1], strict=True)
        }
        ends = jnp.stack([signals[name][-1] for name in self._sums])
        return norms, jnp.all(jnp.isfinite(ends))

    def _initial_state(self, initial: Params) -> State:
        params = self._program.frozen.cast_frozen(self._program.form.to_stored(initial))
        params = {name: params[name] for name in self.modules}
        return {
            "step": jnp.zeros((), jnp.int32),
            "params": params,
            "optimizer": self._optimizer.init(self._program.frozen.partition(params)[0]),
        }
