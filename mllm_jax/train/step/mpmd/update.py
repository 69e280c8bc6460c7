"""Sums of gradients and the update of the parameters of one group of devices."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, PartitionSpec

from mllm_jax.layers.parameters import Params
from mllm_jax.models.module import abstract_parameters
from mllm_jax.train.state.lamb import trust_ratios
from mllm_jax.train.state.loads import load_table, on_loads
from mllm_jax.train.state.optimizer import part_norms
from mllm_jax.train.step.mpmd.program import MpmdProgram
from mllm_jax.train.step.mpmd.transfer import transfer_arrays
from mllm_jax.train.step.step import State, specs_like
from sharding.collectives import psum
from sharding.in_order import shard_map
from sharding.layerstack.partition import combine
from sharding.mesh import named_shardings, sharded_shapes

_SCALAR = PartitionSpec()


class SummedGradients(NamedTuple):
    """Gradients of the parameters of a group, which lie as these.

    Attributes:
        gradients: float32, with the loads of experts in the place of gradients.
        norms: norm of every part.
        loads: `[layers, experts]`; None without experts.
    """

    gradients: Any
    norms: dict[str, jax.Array]
    loads: jax.Array | None


class GroupUpdate:
    """Programs of one group: initial state, sums over replicas, and the update.

    Args:
        program: what all groups have in common.
        number: number of the group.
        mesh: its mesh.
        optimizer: optimizer of its modules' parameters.
        skips: as of `TrainStep`.
    """

    def __init__(
        self,
        program: MpmdProgram,
        number: int,
        mesh: Mesh,
        optimizer: optax.GradientTransformationExtraArgs,
        *,
        skips: bool,
    ) -> None:
        self._program, self._mesh, self._optimizer = program, mesh, optimizer
        self._skips, self.modules = skips, program.modules_of(number)
        self._layout = {name: program.form.layout[name] for name in self.modules}
        self._trained, _ = program.frozen.partition(self._layout)
        self._stacked = PartitionSpec(tuple(mesh.axis_names))
        self._has_experts = program.model.backbone in self.modules and bool(
            program.model.backbone_config.expert_layers
        )

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

        return jax.jit(run, out_shardings=named_shardings(self._mesh, self.state_specs))

    @cached_property
    def sum_gradients(self) -> Callable[[Any, Params, jax.Array], SummedGradients]:
        """From gradients of every device, those of heads and the number of tokens to their sums."""
        specs = jax.tree.map(lambda leaf: leaf.spec, self._trained)

        def run(totals: Any, by_heads: Params, tokens: jax.Array) -> SummedGradients:
            summed = jax.tree.map(
                lambda total, leaf: psum(total[0], leaf.replicated), totals, self._trained
            )
            for name, blocks in by_heads.items():
                added = {
                    block: jax.tree.map(jnp.add, summed[name][block], of_head)
                    for block, of_head in blocks.items()
                }
                summed[name] = summed[name] | added
            gradients = on_loads(lambda load: load / tokens, summed)
            layers = self._program.model.backbone_config.expert_layers
            loads = load_table(gradients, self._trained, layers) if self._has_experts else None
            return SummedGradients(gradients, part_norms(gradients, self._layout), loads)

        loads: Any = _SCALAR if self._has_experts else None
        norms: Any = _SCALAR
        results = SummedGradients(specs, norms, loads)
        in_specs = (self._stacked, self._head_specs, _SCALAR)
        return jax.jit(shard_map(run, mesh=self._mesh, in_specs=in_specs, out_specs=results))

    def move_heads(self, gradients: Params) -> Params:
        """Gradients of the heads of this group's modules, from the devices of the backbone."""
        trained, _ = self._program.frozen.partition(gradients)
        picked = {name: trained[name] for name in self._head_specs}
        moved: Params = transfer_arrays(picked, named_shardings(self._mesh, self._head_specs))
        return moved

    @cached_property
    def _head_specs(self) -> Params:
        """Layouts of the parameters of heads that train and are used on other devices."""
        specs = jax.tree.map(lambda leaf: leaf.spec, self._trained)
        return {
            name: {block: specs[name][block] for block in blocks if block in specs[name]}
            for name, blocks in self._program.head_specs.items()
            if name in specs
        }

    @cached_property
    def update(self) -> Callable[..., tuple[State, Any]]:
        """From state, gradients, norm of all gradients and whether all is finite to the new state.

        The memory of state and gradients is taken. The second result are the trust ratios of LAMB.
        """

        def run(state: State, grads: Any, norm: jax.Array, finite: jax.Array) -> Any:
            with jax.named_scope("update"):
                trained, constant = self._program.frozen.partition(state["params"])
                updates, optimizer = self._optimizer.update(
                    grads, state["optimizer"], trained, norm=norm
                )
                params = combine(optax.apply_updates(trained, updates), constant)
                new = {"step": state["step"] + 1, "params": params, "optimizer": optimizer}
            if self._skips:
                new = jax.tree.map(lambda new, old: jnp.where(finite, new, old), new, state)
            return new, trust_ratios(optimizer)

        specs = self.state_specs
        ratios = _SCALAR if trust_ratios(specs["optimizer"]) else None
        gradients = jax.tree.map(lambda leaf: leaf.spec, self._trained)
        in_specs, out_specs = (specs, gradients, _SCALAR, _SCALAR), (specs, ratios)
        mapped = shard_map(run, mesh=self._mesh, in_specs=in_specs, out_specs=out_specs)
        return jax.jit(mapped, donate_argnums=0)

    def _initial_state(self, initial: Params) -> State:
        params = self._program.frozen.cast_frozen(self._program.form.to_stored(initial))
        params = {name: params[name] for name in self.modules}
        return {
            "step": jnp.zeros((), jnp.int32),
            "params": params,
            "optimizer": self._optimizer.init(self._program.frozen.partition(params)[0]),
        }
