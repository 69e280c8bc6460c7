"""The step of modules on devices of their own: programs of every group, which the host starts.

::

    device 0   decode 0   decode 1   losses   backward 0   backward 1   update
    device 1   encode 0   encode 1               backward 0   backward 1   update

The host starts programs in the order of its tasks and waits for none: a program begins when its
arrays are there, so that groups work at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mllm_jax.config.overlap import NO_OPTIONS
from mllm_jax.layers.parameters import Params
from mllm_jax.models.module import init_parameters
from mllm_jax.train.state.optimizer import total_norm
from mllm_jax.train.state.pretrained import without_released
from mllm_jax.train.step.gradient_program import Batch
from mllm_jax.train.step.mpmd.forward import RemoteForward
from mllm_jax.train.step.mpmd.gradients import GroupGradients, MpmdGradients
from mllm_jax.train.step.mpmd.program import MpmdProgram
from mllm_jax.train.step.mpmd.state import ModuleTrees
from mllm_jax.train.step.mpmd.transfer import transfer_arrays
from mllm_jax.train.step.mpmd.update import GroupUpdate, SummedGradients
from mllm_jax.train.step.step import State, Step


class MpmdStep(Step):
    """Compiled programs of one model whose modules have devices of their own.

    Args:
        program: what all groups have in common.
        meshes: the mesh of every group.
        optimizers: the optimizer of every group.
        skips, rate: as of `TrainStep`.
    """

    def __init__(
        self,
        program: MpmdProgram,
        meshes: Sequence[Mesh],
        optimizers: Sequence[optax.GradientTransformationExtraArgs],
        *,
        skips: bool,
        rate: optax.Schedule,
    ) -> None:
        self.program, self.form, self.meshes = program, program.form, tuple(meshes)
        self.skips, self.rate, self.options = skips, rate, NO_OPTIONS
        self._trees = ModuleTrees(program.model.modules)
        self._updates = [
            GroupUpdate(program, number, mesh, optimizer, skips=skips)
            for number, (mesh, optimizer) in enumerate(zip(meshes, optimizers, strict=True))
        ]
        self._scalars = [NamedSharding(mesh, PartitionSpec()) for mesh in meshes]
        self._gradients: dict[Any, MpmdGradients] = {}

    program: MpmdProgram

    def mesh_of(self, name: str) -> Mesh:
        """See `Step.mesh_of`."""
        return self.meshes[self.program.group_of(name)]

    @property
    def devices(self) -> list[jax.Device]:
        """The devices of all groups, in their order."""
        return [device for mesh in self.meshes for device in mesh.devices.flat]

    def init(self, key: jax.Array) -> State:
        """Fresh state; its values do not depend on the plan."""
        return self._init(partial(init_parameters, self.program.model), key)

    def init_before_release(self, key: jax.Array) -> State:
        """`init` with zeros for what releases replace, see `without_released`."""
        model = self.program.model
        return self._init(lambda key: without_released(model, init_parameters(model, key)), key)

    def _init(self, make: Callable[[jax.Array], Params], key: jax.Array) -> State:
        states = [
            update.init(make)(jax.device_put(key, layout))
            for update, layout in zip(self._updates, self._scalars, strict=True)
        ]
        return self._trees.join(states)

    @cached_property
    def abstract_state(self) -> State:
        """Shapes, types and layouts of the state."""
        return self._trees.join([update.abstract_state for update in self._updates])

    @property
    def forward_specs(self) -> Any:
        """See `Step.forward_specs`."""
        return self._remote_forward.specs

    @property
    def local_modules(self) -> tuple[str, ...]:
        """See `Step.local_modules`."""
        return self.program.modules_of(0)

    def forward_inputs(self, params: Any, batch: Batch) -> tuple[Any, Batch]:
        """See `Step.forward_inputs`."""
        return self._remote_forward(params, batch)

    @cached_property
    def _remote_forward(self) -> RemoteForward:
        return RemoteForward(self.program, self.meshes)

    def gradients(self, params: Any, batch: Batch) -> tuple[Any, jax.Array]:
        """Gradients of what is not frozen, and the loss."""
        results = self._accumulate(params, batch)
        summed = self._sum_over_replicas(results)
        by_module = {name: tree for each in summed for name, tree in each.gradients.items()}
        names = [name for name in self.program.model.modules if name in by_module]
        return {name: by_module[name] for name in names}, results.loss

    def update(self, state: State, batch: Batch) -> tuple[State, dict[str, Any]]:
        """The state after a step, and `events.StepEnded.results`; the old state is taken."""
        results = self._accumulate(state["params"], batch)
        summed = self._sum_over_replicas(results)
        norms = {part: norm for each in summed for part, norm in each.norms.items()}
        norms = transfer_arrays(norms, self._scalars[0])
        norm, finite = self._summary(results.loss, norms, summed[0].loads)
        rate = self._learning_rate(state["step"])
        # The first group's program takes the memory of what the others read, too.
        parts = [self._select_state(state, number) for number in range(len(self.meshes))]
        updated = [
            update.update(part, each.gradients, *transfer_arrays((norm, finite), layout))
            for update, part, each, layout in zip(
                self._updates, parts, summed, self._scalars, strict=True
            )
        ]
        scalars = {
            "loss": results.loss,
            "grad_norm": norm,
            "targets": results.factors.targets,
            "carried": {},
            "aux": results.aux,
            "loads": summed[0].loads,
            "part_norms": norms,
            "learning_rate": rate,
            "trust_ratios": updated[0][1],
        }
        return self._trees.join([new for new, _ in updated]), scalars

    def _accumulate(self, params: Any, batch: Batch) -> GroupGradients:
        leaves, tree = jax.tree.flatten(batch)
        shapes = tree, tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        if shapes not in self._gradients:
            self._gradients[shapes] = MpmdGradients(self.program, self.meshes, batch)
        return self._gradients[shapes](params, batch)

    def _sum_over_replicas(self, results: GroupGradients) -> list[SummedGradients]:
        tokens = results.factors.tokens
        return [
            update.sum_gradients(
                total, update.move_heads(results.heads), transfer_arrays(tokens, layout)
            )
            for update, total, layout in zip(
                self._updates, results.totals, self._scalars, strict=True
            )
        ]

    def _select_state(self, state: State, number: int) -> State:
        """The part of the state that a group's program takes."""
        part = self._trees.select(state, self._updates[number].modules)
        if number:  # What is of no module is on the devices of the first group.
            part = transfer_arrays(part, self._updates[number].state_layouts)
        return part

    @cached_property
    def _learning_rate(self) -> Any:
        return jax.jit(lambda step: jnp.asarray(self.rate(step), jnp.float32))

    @cached_property
    def _summary(self) -> Any:
        def run(
            loss: jax.Array, norms: Mapping[str, jax.Array], loads: jax.Array | None
        ) -> tuple[jax.Array, jax.Array]:
            norm = total_norm(norms)
            finite = jnp.isfinite(loss) & jnp.isfinite(norm)
            if loads is not None:
                finite &= jnp.all(jnp.isfinite(loads))
            return norm, finite

        return jax.jit(run)
