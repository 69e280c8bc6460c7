"""The step of modules on devices of their own: programs of every group, which the host starts.

::

    device 0   decode 0   decode 1   losses   backward 0   backward 1   update
    device 1   encode 0   encode 1            backward 0   backward 1   update

The host starts programs in the order of its tasks and waits for none: a program begins when its
arrays are there, so that groups work at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import jax
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mllm_jax.config.overlap import NO_OPTIONS
from mllm_jax.layers.parameters import Params
from mllm_jax.models.module import init_parameters
from mllm_jax.train.state.lamb import join_trust_ratios, with_trust_ratios
from mllm_jax.train.state.pretrained import without_released
from mllm_jax.train.step.gradient_program import Batch
from mllm_jax.train.step.mpmd.compile import AbsentProgram, compile_on
from mllm_jax.train.step.mpmd.forward import RemoteForward
from mllm_jax.train.step.mpmd.gradients import MpmdGradients, StepGradients
from mllm_jax.train.step.mpmd.program import MpmdProgram
from mllm_jax.train.step.mpmd.spread import shardings_of, spread_shapes
from mllm_jax.train.step.mpmd.stages.run import StagedGradients
from mllm_jax.train.step.mpmd.state import GroupStates, ModuleTrees
from mllm_jax.train.step.mpmd.sums import GradientSums
from mllm_jax.train.step.mpmd.transfer import share_arrays, transfer_arrays
from mllm_jax.train.step.mpmd.update import GroupUpdate, UpdateScalars
from mllm_jax.train.step.step import State, Step
from sharding.mesh import named_shardings


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
        self._sums = self._make_sums()
        self._updates = [
            GroupUpdate(program, number, mesh, optimizer, self._sums, skips=skips, rate=rate)
            for number, (mesh, optimizer) in enumerate(zip(meshes, optimizers, strict=True))
        ]
        self._scalars = [NamedSharding(mesh, PartitionSpec()) for mesh in meshes]
        self._gradients: dict[Any, MpmdGradients] = {}

    program: MpmdProgram

    def _make_sums(self) -> dict[str, GradientSums]:
        """Sums of the backbone's group, and of every module beside that trains."""
        program = self.program
        names = dict.fromkeys(program.model.buckets[bucket] for bucket in program.remote)
        shardings = program.form.shardings
        remote = {
            name: GradientSums(program, {name: shardings[name]}, self.mesh_of(name))
            for name in names
        }
        of_first = {name: shardings[name] for name in program.modules_of(0)}
        first = GradientSums(program, of_first, self.meshes[0])
        return {program.model.backbone: first} | {n: s for n, s in remote.items() if s.nothing}

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
        return self._trees.join([update.init(make)(key) for update in self._updates])

    @cached_property
    def abstract_state(self) -> State:
        """Shapes, types and layouts of the state."""
        return self._trees.join([update.abstract_state for update in self._updates])

    @property
    def saved_shapes(self) -> State:
        """See `Step.saved_shapes`."""
        return spread_shapes(self.abstract_state, self.meshes)

    def to_saved(self, state: State) -> State:
        """See `Step.to_saved`."""
        saved: State = transfer_arrays(state, shardings_of(self.saved_shapes))
        return saved

    def from_saved(self, state: State) -> State:
        """See `Step.from_saved`."""
        placed: State = transfer_arrays(state, shardings_of(self.abstract_state))
        return placed

    @property
    def forward_specs(self) -> Any:
        """See `Step.forward_specs`."""
        return self._remote_forward.specs

    @property
    def local_modules(self) -> tuple[str, ...]:
        """See `Step.local_modules`."""
        return self.program.modules_of(0)

    def forward_inputs(self, params: Any, batch: Batch) -> tuple[Any, Batch]:
        """See `Step.forward_inputs`; of a backbone without stages."""
        return self._remote_forward(params, batch)

    def jit_on(
        self, name: str, function: Callable[..., Any], out_specs: Any, *, placed: bool = False
    ) -> Any:
        """See `Step.jit_on`: results without shards where a process has no device."""
        mesh = self.mesh_of(name)
        if mesh.local_devices:
            return super().jit_on(name, function, out_specs, placed=placed)
        return AbsentProgram(function, named_shardings(mesh, out_specs))

    @cached_property
    def _remote_forward(self) -> RemoteForward:
        return RemoteForward(self.program, self.meshes)

    def gradients(self, params: Any, batch: Batch) -> tuple[Any, jax.Array]:
        """Gradients of what is not frozen, and the loss."""
        losses, summed = self._differentiate(params, batch)
        by_module = {n: tree for each in summed.values() for n, tree in each.gradients.items()}
        names = [name for name in self.program.model.modules if name in by_module]
        loss: jax.Array = share_arrays(losses.loss, self.meshes)
        return {name: by_module[name] for name in names}, loss

    def update(self, state: State, batch: Batch) -> tuple[State, dict[str, Any]]:
        """The state after a step, and `events.StepEnded.results`; the old state is taken."""
        losses, summed = self._differentiate(state["params"], batch)
        signals = {name: each.signals for name, each in summed.items()}
        parts, scalars_by_group = list[State](), list[UpdateScalars]()
        sent = self._send_to_groups(state, signals)
        for update, (part, received) in zip(self._updates, sent, strict=True):
            if update.local_sums:  # else nothing of the group trains
                grads = [summed[name].gradients for name in update.local_sums]
                part, scalars = update.update(part, grads, received)
                scalars_by_group.append(scalars)
            parts.append(part)
        results = {
            "loss": losses.loss,
            "targets": losses.factors.targets,
            "carried": {},
            "aux": losses.aux,
            "loads": summed[self.program.model.backbone].loads,
        }
        joined = self._group_states.join(parts)
        ratios = self._join_ratios([each.trust_ratios for each in scalars_by_group])
        if ratios is not None:
            joined["optimizer"] = with_trust_ratios(joined["optimizer"], ratios)
        results |= scalars_by_group[0]._asdict() | {"trust_ratios": ratios}
        return joined, share_arrays(results, self.meshes)

    def _join_ratios(self, ratios: list[Any]) -> dict[str, jax.Array] | None:
        """The trust ratios of all groups, on the devices of the first; None if there are none."""
        if ratios[0] is None:
            return None
        return self._joined_ratios(transfer_arrays(ratios, self._scalars[0]))

    @cached_property
    def _joined_ratios(self) -> Callable[[list[Any]], dict[str, jax.Array]]:
        return compile_on(self.meshes[0], join_trust_ratios, PartitionSpec(), placed=True)

    def _differentiate(self, params: Any, batch: Batch) -> StepGradients:
        leaves, tree = jax.tree.flatten(batch)
        shapes = tree, tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        if shapes not in self._gradients:
            make = StagedGradients if self.program.stages > 1 else MpmdGradients
            self._gradients[shapes] = make(self.program, self.meshes, batch, self._sums)
        return self._gradients[shapes](params, batch)

    def _send_to_groups(
        self, state: State, signals: dict[str, jax.Array]
    ) -> list[tuple[State, dict[str, jax.Array]]]:
        """By group, its part of the state and what the updates of all groups need.

        What is of no module, such as the number of the step, is on the devices of the first group,
        whose program takes its memory: all moves are started before.
        """
        leaves, groups, moving = jax.tree.leaves(state), self._group_states, list[Any]()
        for number, update in enumerate(self._updates):
            others = {n: x for n, x in signals.items() if n not in update.local_sums}
            shared = groups.pick_shared(leaves) if number else []
            moving.append((shared, others) if update.local_sums else ([], {}))
        moved = transfer_arrays(moving, self._scalars)
        local = [{n: signals[n] for n in update.local_sums} for update in self._updates]
        return [
            (groups.select(number, leaves, shared), received | of_group)
            for number, ((shared, received), of_group) in enumerate(zip(moved, local, strict=True))
        ]

    @cached_property
    def _group_states(self) -> GroupStates:
        modules = [update.modules for update in self._updates]
        return GroupStates(self._trees, modules, self.abstract_state)
