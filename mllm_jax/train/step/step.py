"""The train step: a gradient program and the update, in one manual `shard_map` over the grid.

It is typed (`check_vma=True`). Inside it every device holds its shards of the parameters and its
rows of the batch::

    gradients (`train.step.gradient_program`)  ->  optimizer, on shards

The loss is divided by the global sum of loss weights, so another assignment of samples changes no
gradient beyond the order of summation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, PartitionSpec

from mllm_jax.config.overlap import NO_OPTIONS, Options
from mllm_jax.models import module as multimodal
from mllm_jax.models.freeze import part_of_leaf
from mllm_jax.runtime.compiled.synchronized import synchronize_program
from mllm_jax.train.state.lamb import trust_ratios
from mllm_jax.train.state.loads import is_load, load_table
from mllm_jax.train.state.optimizer import part_norms, total_norm
from mllm_jax.train.state.parameter_layout import ParameterLayout
from mllm_jax.train.state.pretrained import without_released
from mllm_jax.train.step.gradient_program import (
    Batch,
    GradientProgram,
    PlacedSchedule,
    StepProgram,
)
from scheduling.lowering.instructions import InstructionTable
from sharding.in_order import shard_map
from sharding.layerstack.partition import combine
from sharding.mesh import named_shardings, sharded_shapes

State = dict[str, Any]


def no_rate(updates: Any) -> float:
    """The learning rate of a step without an optimizer."""
    del updates
    return 0.0


class Step(ABC):
    """Compiled programs of one model under one set of plans, whichever devices its modules have.

    Attributes:
        program: what the programs know of model, batch and parameters.
        form: how parameters are stored.
        skips: a step whose loss, gradients or logits of routers are not finite leaves the state as
            it was.
        options: options of XLA's compiler for the step.
        update: `(state, batch)` to the new state and `events.StepEnded.results`; the old
            state is donated.
    """

    program: StepProgram
    form: ParameterLayout
    skips: bool
    options: Options
    update: Any

    @abstractmethod
    def init(self, key: jax.Array) -> State:
        """Fresh state, initialised shard by shard; its values do not depend on the plan."""

    @abstractmethod
    def init_before_release(self, key: jax.Array) -> State:
        """`init` with zeros for what releases replace, see `without_released`."""

    @property
    @abstractmethod
    def abstract_state(self) -> State:
        """Shapes, types and shardings of the state."""

    @property
    def saved_shapes(self) -> State:
        """`abstract_state` as checkpoints take it, see `to_saved`."""
        return self.abstract_state

    def to_saved(self, state: State) -> State:
        """The state as checkpoints take it: every process has a part of each array."""
        return state

    def from_saved(self, state: State) -> State:
        """The inverse of `to_saved`."""
        return state

    @property
    @abstractmethod
    def devices(self) -> list[jax.Device]:
        """The devices, in the order of the grid."""

    @abstractmethod
    def mesh_of(self, name: str) -> Mesh:
        """The mesh of a module, or of a bucket."""

    def batch_shardings(self, batch: Batch) -> Batch:
        """How the arrays lie on the devices that a batch has."""
        specs = self.program.batch_layout.specs(batch)
        others: Any = named_shardings(self._backbone_mesh, replace(specs, rows={}))
        shardings: Any = replace(
            others,
            rows={name: named_shardings(self.mesh_of(name), s) for name, s in specs.rows.items()},
        )
        return cast("Batch", shardings)

    def abstract_primed_batch(self, batch: Batch) -> Batch:
        """Shapes, types and shardings of a batch, with what the step before carries on.

        There is nothing of the kind in steps that prefetch no outputs.
        """
        return batch

    @cached_property
    def schedule(self) -> InstructionTable | None:
        """The arrays of `program.placed_schedule` on the devices."""
        return self.place_schedule(self.program.placed_schedule)

    def place_schedule(self, tables: PlacedSchedule) -> InstructionTable | None:
        """The arrays of a step's tables on the devices; None if it has none."""
        return jax.tree.map(
            lambda array, sharding: jax.make_array_from_callback(
                array.shape, sharding, array.__getitem__
            ),
            tables.arrays,
            named_shardings(self._backbone_mesh, self.program.schedule_specs),
        )

    # ---- programs on the devices of the backbone -------------------------------------------------

    @property
    @abstractmethod
    def forward_specs(self) -> Any:
        """Layouts of the parameters that `forward_inputs` returns, by module."""

    @property
    def local_modules(self) -> tuple[str, ...]:
        """Modules whose parameters all are on the devices of the backbone."""
        return tuple(self.program.model.modules)

    def forward_inputs(self, params: Any, batch: Batch) -> tuple[Any, Batch]:
        """What a forward pass takes that runs on the devices of the backbone.

        Args:
            params: parameters as `form` stores them.
            batch: the batch of a forward pass, of this step.

        Returns:
            The parameters that these devices need, and the batch, in which modules of other devices
            have `encoded` outputs in place of rows.
        """
        return params, batch

    def shardings(self, specs: Any) -> Any:
        """Shardings of arrays on the devices of the backbone, from a tree of their specs."""
        return named_shardings(self._backbone_mesh, specs)

    def map_shards(
        self, body: Callable[..., Any], in_specs: Any, out_specs: Any, *, typed: bool = True
    ) -> Callable[..., Any]:
        """`body` of local shards, on the devices of the backbone.

        Args:
            typed: whether types tell along which axes values vary; else `body` has no gradients.
        """
        options = {"mesh": self._backbone_mesh, "in_specs": in_specs, "out_specs": out_specs}
        if typed:
            return shard_map(body, **options)
        mapped: Callable[..., Any] = jax.shard_map(body, check_vma=False, **options)
        return mapped

    def shard_over_mesh(
        self, body: Callable[..., Any], specs: Any, out_specs: Any
    ) -> Callable[..., Any]:
        """`body(tree, batch)` over the backbone's mesh; `specs` shard `tree`, rows the batch."""

        def run(tree: Any, batch: Batch) -> Any:
            in_specs = specs, self.program.batch_layout.specs(batch)
            return self.map_shards(body, in_specs, out_specs)(tree, batch)

        return run

    def jit_on(
        self, name: str, function: Callable[..., Any], out_specs: Any, *, placed: bool = False
    ) -> Any:
        """A jitted function of arrays on the devices of a module, which all processes call.

        Args:
            name: name of the module.
            function: function of arrays on these devices.
            out_specs: specs of its results, or of subtrees of them.
            placed: whether the results have to be laid out so, as the function does not say how.
        """
        layouts: Any = named_shardings(self.mesh_of(name), out_specs)
        return jax.jit(function, out_shardings=layouts) if placed else jax.jit(function)

    @property
    def _backbone_mesh(self) -> Mesh:
        return self.mesh_of(self.program.model.backbone)


class TrainStep(Step):
    """The step of one program on one mesh, see `train.step.build`.

    Args:
        program: makes loss and gradients.
        mesh: mesh of the program's grid.
        optimizer: built by `build_optimizer` for the shardings of the program's parameters.
        skips: a step whose loss, gradients or logits of routers are not finite leaves the state as
            it was.
        learning_rate: learning rate by the number of updates before it, as the optimizer has it.
        options: options of XLA's compiler for the step.

    Attributes:
        form: how parameters are stored.
        update: `(state, batch)` to the new state and `events.StepEnded.results`; the old
            state is donated.
        gradients: `(params, batch)` to gradients of what is not frozen, and loss.
    """

    program: GradientProgram

    def __init__(
        self,
        program: GradientProgram,
        mesh: Mesh,
        optimizer: optax.GradientTransformation,
        *,
        skips: bool = False,
        learning_rate: optax.Schedule = no_rate,
        options: Options = NO_OPTIONS,
    ) -> None:
        self.program, self.form = program, program.form
        self.mesh, self.optimizer, self.skips, self.options = mesh, optimizer, skips, options
        self.learning_rate = learning_rate
        self.state_specs = self._state_specs()
        params = self.state_specs["params"]
        trained, _ = program.frozen.partition(params)
        scalar, carried = PartitionSpec(), program.carried_specs
        scalars = {"loss": scalar, "grad_norm": scalar, "targets": scalar, "carried": carried}
        scalars["learning_rate"] = scalar
        scalars["part_norms"] = dict.fromkeys(self._trained_parts, scalar)
        scalars["aux"] = dict.fromkeys(program.model.backbone_config.aux, scalar)
        scalars["trust_ratios"] = scalar if trust_ratios(self.state_specs["optimizer"]) else None
        scalars["loads"] = scalar if program.model.backbone_config.experts else None
        self.update = jax.jit(
            self.shard_over_mesh(self._update_state, self.state_specs, (self.state_specs, scalars)),
            donate_argnums=0,
            compiler_options=dict(options),
        )
        self.gradients = jax.jit(
            self.shard_over_mesh(self._compute_gradients, params, (trained, scalar)),
            compiler_options=dict(options),
        )

    def prime_batch(self, params: Any, batch: Batch) -> Batch:
        """`batch` with the outputs that a step before would have carried on, for a first step.

        Args:
            batch: batch whose `following` microbatches are those of this batch, see
                `train.step.batch_placement.place_batch`.
        """
        if not self.program.carried_specs:
            return batch
        return batch.with_carried(self._prefetch_program(params, batch))

    @cached_property
    def _prefetch_program(self) -> Callable[..., Any]:
        return synchronize_program("prefetch outputs", jax.jit(self._prefetch_outputs))

    def abstract_primed_batch(self, batch: Batch) -> Batch:
        """See `Step.abstract_primed_batch`: of `prime_batch(batch)`, from those of `batch`."""
        if not self.program.carried_specs:
            return batch
        carried = jax.eval_shape(self._prefetch_outputs, self.abstract_state["params"], batch)
        return batch.with_carried(sharded_shapes(carried, self.mesh, self.program.carried_specs))

    def _prefetch_outputs(self, params: Any, batch: Batch) -> Any:
        specs, carried = self.state_specs["params"], self.program.carried_specs
        return self.shard_over_mesh(self.program.prefetch_outputs, specs, carried)(params, batch)

    def init(self, key: jax.Array) -> State:
        """Fresh state, initialised shard by shard; its values do not depend on the plan."""
        return self._initial_program(key)

    def init_before_release(self, key: jax.Array) -> State:
        """`init` with zeros for what releases replace, see `without_released`."""
        return self._init_program(released=True)(key)

    @cached_property
    def _initial_program(self) -> Callable[..., Any]:
        return self._init_program(released=False)

    def _init_program(self, *, released: bool) -> Callable[..., Any]:
        shardings = self.shardings(self.state_specs)
        make = jax.jit(partial(self._init_parameters, released=released), out_shardings=shardings)
        return synchronize_program("the initial state", make)

    @cached_property
    def abstract_state(self) -> State:
        """Shapes, types and shardings of the state."""
        return sharded_shapes(self._state_shapes, self.mesh, self.state_specs)

    @property
    def devices(self) -> list[jax.Device]:
        """The devices, in the order of the grid."""
        return [*self.mesh.devices.flat]

    def mesh_of(self, name: str) -> Mesh:
        """See `Step.mesh_of`; all have one."""
        del name
        return self.mesh

    @property
    def forward_specs(self) -> Any:
        """See `Step.forward_specs`: all parameters."""
        return self.state_specs["params"]

    def _init_parameters(self, key: jax.Array, released: bool = False) -> State:
        params = multimodal.init_parameters(self.program.model, key)
        if released:
            params = without_released(self.program.model, params)
        return self._initial_state(params)

    def _initial_state(self, initial: Any) -> State:
        """The state before the first step, with parameters as `init_parameters` makes them."""
        params = self.program.frozen.cast_frozen(self.form.to_stored(initial))
        return {
            "step": jnp.zeros((), jnp.int32),
            "params": params,
            "optimizer": self.optimizer.init(self.program.frozen.partition(params)[0]),
        }

    @cached_property
    def _state_shapes(self) -> State:
        return jax.eval_shape(
            self._initial_state, multimodal.abstract_parameters(self.program.model)[0]
        )

    def _state_specs(self) -> State:
        return {
            "step": PartitionSpec(),
            "params": self.form.specs,
            "optimizer": specs_like(self._state_shapes["optimizer"], self.form.shardings),
        }

    def _update_state(self, state: State, batch: Batch) -> tuple[State, dict[str, Any]]:
        loss, grads, carried, aux = self.program(state["params"], batch)
        with jax.named_scope("update"):
            trained, constant = self.program.frozen.partition(state["params"])
            updates, optimizer = self.optimizer.update(grads, state["optimizer"], trained)
            params = combine(optax.apply_updates(trained, updates), constant)
            new = {"step": state["step"] + 1, "params": params, "optimizer": optimizer}
            norms, loads = part_norms(grads, self.form.shardings), self._expert_loads(grads)
            norm = total_norm(norms)
        if self.skips:
            finite = jnp.isfinite(loss) & jnp.isfinite(norm)
            if loads is not None:  # sigmoids of infinite logits are finite, and so is the loss
                finite &= jnp.all(jnp.isfinite(loads))
            new = jax.tree.map(lambda new, old: jnp.where(finite, new, old), new, state)
        targets = self.program.count_targets(batch)
        scalars: dict[str, Any] = {"loss": loss, "grad_norm": norm, "targets": targets}
        scalars |= {"carried": carried, "aux": aux, "loads": loads, "part_norms": norms}
        # An update that is left out does not count, as it does not for the optimizer.
        scalars["learning_rate"] = jnp.asarray(self.learning_rate(state["step"]), jnp.float32)
        return new, scalars | {"trust_ratios": trust_ratios(optimizer)}

    @cached_property
    def _trained_parts(self) -> list[str]:
        """Parts of the model that have gradients."""
        leaves = jax.tree_util.tree_leaves_with_path(self.program.trained_shardings)
        return list(dict.fromkeys(part_of_leaf(path) for path, _ in leaves if not is_load(path)))

    def _expert_loads(self, grads: Any) -> jax.Array | None:
        """Loads of experts, `[layers, experts]`, see `load_table`; None without experts."""
        layers = self.program.model.backbone_config.expert_layers
        return load_table(grads, self.program.trained_shardings, layers) if layers else None

    def _compute_gradients(self, params: Any, batch: Batch) -> tuple[Any, jax.Array]:
        results = self.program(params, batch)
        return results.gradients, results.loss


def specs_like(optimizer: Any, shardings: Any) -> Any:
    """Specs of an optimizer's state: a moment is sharded as the parameter of the same path."""
    by_path = dict(jax.tree_util.tree_leaves_with_path(shardings))

    def spec(path: tuple[Any, ...], _: Any) -> PartitionSpec:
        tails = (path[i:] for i in range(len(path)))
        return next((by_path[tail].spec for tail in tails if tail in by_path), PartitionSpec())

    return jax.tree_util.tree_map_with_path(spec, optimizer)
