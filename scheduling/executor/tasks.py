"""Tasks of a pipeline: forwards, backwards and weight gradients of chunks, on ring buffers.

One function for each kind of task runs it for every module. What differs between modules is static:
whether stages share its ends (`ModuleStages.shared_ends`), how it is divided, and which buffers it
has. Gradients are written out as calls of `jax.vjp`, task by task, so that nothing lives longer
than the schedule says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from scheduling.executor.control import TaskLoops, loop_result, run_if
from scheduling.executor.merges import FeedMerges, Row
from scheduling.executor.modules import BoundModule
from scheduling.executor.step_batch import StepBatch
from scheduling.lowering.bounds import ScheduleBounds
from scheduling.lowering.lowered import (
    BackwardTable,
    ForwardTable,
    FusedKind,
    ModuleTables,
    WeightsTable,
)
from scheduling.schedules.task_kinds import B, F, TaskKind, W
from scheduling.schedules.tasks import ModuleStages
from sharding.collectives import Axes, vary
from sharding.layerstack.loops import PyTree, add_cast, read_slot, write_slot
from sharding.layerstack.module import Merge

#: What the executor reads of a module in a tick on a stage.
ModuleRow = ModuleTables[jax.Array]
#: A task in a tick.
TaskRow = ForwardTable[jax.Array] | BackwardTable[jax.Array] | WeightsTable[jax.Array]


class PipelineTasks:
    """The tasks of one traced step, and the state that they change.

    The state is a tree. `modules`: for every module the ring buffers of `BufferSizes`; `sums`: sums
    of gradients `layers`, `end_params` and `deferred` (of weights whose gradients are split from
    backwards), to which all modules of the same parameters add, and sums of auxiliary losses `aux`;
    the `losses` by name; `samples` that losses read of other modules and `sample_gradients`, of
    every microbatch. A module that does not run in a phase has no part in it.

    Args:
        bounds: what is fixed of the schedules that run.
        modules: the modules by name.
        merges: as in `Pipeline`.
        batch: as in `Pipeline.loss_and_gradients`.
        axes: all axes of the grid; all that layers see varies over them.
        aux_factors: factors of the sums of auxiliary losses in the loss, by name.

    Attributes:
        has_inputs: by module that feeds another one, `[slots]`: whether the microbatch in each slot
            of this stage has inputs.
    """

    def __init__(
        self,
        bounds: ScheduleBounds,
        modules: Mapping[str, BoundModule],
        merges: Mapping[str, Merge],
        batch: StepBatch[Any],
        axes: Axes,
        aux_factors: Mapping[str, jax.Array],
    ) -> None:
        self.bounds, self.modules, self.batch = bounds, modules, batch
        self.merges = FeedMerges(bounds, merges, batch, axes, self.zero_outputs)
        self.vary = partial(vary, axes=axes)
        self.aux_factors = self.vary(dict(aux_factors))
        self.has_inputs = {
            name: jax.vmap(modules[name].functions.has_inputs)(batch.rows[name])
            for name in bounds.sources
        }
        for name, module in modules.items():
            if bounds.modules[name].sizes.operands:
                context = self._make_context(name, self.read_rows(name, jnp.int32(0)))
                module.layers = module.layers.split_backward(self.zero_activation(name), context)

    def run_fused(
        self, fused: FusedKind, state: PyTree, row: Row
    ) -> dict[tuple[TaskKind, str], TaskLoops]:
        """The tasks of a fused task; each returns changes of the state and a value to send.

        Those of the backbone come first, and of these the ones that read slots that others write.
        """
        backbone = self.bounds.backbone_name
        # The forward overlaps with the backward proper, not with its recomputation.
        waits = (B, backbone) in fused.tasks and self.bounds.backbone.remat == "full"
        functions: dict[TaskKind, Callable[[str, PyTree, ModuleRow], TaskLoops]] = {
            W: self._run_weights,
            B: self._run_backward,
            F: self._run_forward,
        }
        of_backbone = [(kind, backbone) for kind in functions if (kind, backbone) in fused.tasks]
        others = [task for task in fused.tasks if task[1] != backbone]
        loops = {}
        for kind, name in (*of_backbone, *others):
            state_of_module = state["modules"][name] | state["sums"][self.parameters_of(name)]
            task = functions[kind](name, state_of_module, row.modules[name])
            loops[kind, name] = (
                _delay_first_loop(task) if waits and (kind, name) == (F, backbone) else task
            )
        return loops

    def parameters_of(self, name: str) -> str:
        """The module whose parameters a module uses."""
        parameters: str = self.modules[name].functions.name
        return parameters

    def update_module(self, name: str, state: PyTree, change: PyTree) -> PyTree:
        """The state after a task of a module; gradients are in the sums of its parameters."""
        modules, sums, parameters = state["modules"], state["sums"], self.parameters_of(name)
        added = {key: value for key, value in change.items() if key in sums[parameters]}
        buffers = {key: value for key, value in change.items() if key not in sums[parameters]}
        return state | {
            "modules": modules | {name: modules[name] | buffers},
            "sums": sums | {parameters: sums[parameters] | added},
        }

    # ---- state -----------------------------------------------------------------------------------

    def zero_input(self, name: str) -> jax.Array:
        """A zero input of a module, side inputs of its layers included, and of a chunk."""
        return self._make_zeros(self._shapes[name][0])

    def zero_activation(self, name: str) -> jax.Array:
        """A zero activation between the layers of a module, with outputs of intermediate layers."""
        return self._without_side_inputs(name, self.zero_input(name))

    def zero_outputs(self, name: str) -> jax.Array:
        """Zeros in place of the outputs of a module without shared ends."""
        return self._make_zeros(self._shapes[name][1])

    def pad_side_inputs(self, name: str, x: jax.Array) -> jax.Array:
        """An activation as the input of a chunk: with zeros as side inputs of its layers."""
        inputs = self.modules[name].layers.spec.side_inputs
        return jnp.concatenate([x, *[jnp.zeros_like(x)] * inputs], axis=-1) if inputs else x

    def drop_side_inputs(self, name: str, dx: jax.Array) -> jax.Array:
        """The gradient of a chunk's input as that of the output of the chunk before."""
        return self._without_side_inputs(name, dx)

    def _without_side_inputs(self, name: str, x: jax.Array) -> jax.Array:
        layers = self.modules[name].layers
        return layers.split_features(x)[0] if layers.spec.side_inputs else x

    @cached_property
    def _shapes(self) -> dict[str, tuple[PyTree, PyTree]]:
        """Shapes of an input of a module, and of its outputs without shared ends."""

        def trace_shapes(name: str, module: BoundModule) -> tuple[PyTree, PyTree]:
            rows = self.read_rows(name, jnp.int32(0))
            entry = jax.eval_shape(lambda: module.functions.embed(module.end_params, rows))
            if self._stages_of(name).shared_ends:
                return entry, None
            x = self._make_zeros(entry)
            return entry, jax.eval_shape(
                lambda: module.functions.output(module.end_params, x, rows)
            )

        return {name: trace_shapes(name, module) for name, module in self.modules.items()}

    def _make_zeros_of(self, function: Callable[[], PyTree]) -> PyTree:
        """Zeros shaped like the result of `function`, varying over all axes."""
        return self._make_zeros(jax.eval_shape(function))

    def _make_zeros(self, shapes: PyTree) -> PyTree:
        return self.vary(jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes))

    def _make_context(self, name: str, rows: PyTree) -> PyTree:
        """The values of a microbatch that all layers read, of one type, for the residuals."""
        return self.vary(self.modules[name].functions.context(rows))

    def read_rows(self, name: str, position: jax.Array) -> PyTree:
        """Local rows of a microbatch of a module, by its position in the batch of a stage."""
        return read_slot(self.batch.rows[name], position)

    def make_buffers(self, name: str, carried: jax.Array | None = None) -> PyTree:
        """The buffers of a module at a step's start.

        Args:
            carried: outputs that the step before has computed for this one, as of `Pipeline`.
        """
        sizes, entry = self.bounds.modules[name].sizes, self.zero_input(name)
        saved = (
            self._make_zeros_of(lambda: self._trace_saved_values(name, entry))
            if sizes.saved
            else ()
        )
        buffers: PyTree = {
            "inputs": self._make_buffer(sizes.inputs, entry),
            "saved": self._make_buffer(sizes.saved, saved),
            "gradients": self._make_buffer(sizes.gradients, self.zero_activation(name)),
        }
        if sizes.operands:
            context = self._make_context(name, self.read_rows(name, jnp.int32(0)))
            layers = self.modules[name].layers
            operands = self._make_zeros_of(lambda: layers.saved_operands(entry, context))
            buffers |= {"operands": self._make_buffer(sizes.operands, operands)}
        if self._stages_of(name).shared_ends:
            return buffers
        outputs = self._make_buffer(sizes.output_buffer, self.zero_outputs(name))
        if carried is not None:
            outputs = lax.dynamic_update_slice_in_dim(outputs, self.vary(carried), 0, 0)
        gradients = self._make_buffer(sizes.output_grad_buffer, self.zero_outputs(name))
        return buffers | {"output_buffer": outputs, "output_grad_buffer": gradients}

    def _make_buffer(self, slots: int, like: PyTree) -> PyTree:
        """Zeros `[slots, ...]` for values like `like`."""
        zeros = jax.tree.map(lambda x: jnp.zeros((slots, *x.shape), x.dtype), like)
        return self.vary(zeros) if slots else ()

    def _trace_saved_values(self, name: str, x: jax.Array) -> PyTree:
        layers = self.modules[name].layers
        context = self._make_context(name, self.read_rows(name, jnp.int32(0)))
        carry, residuals = layers.forward_loop(jnp.int32(0), x, context).run_scan()
        return self._to_save(name, residuals, layers.outputs_of(carry)[0])

    def zero_sums(self, name: str) -> PyTree:
        """Zeros for the gradients of the parameters of a module, and for its auxiliary losses."""
        module, sizes = self.modules[name], self.bounds.modules[name].sizes
        sums = module.zero_sums()
        if module.functions.aux:
            sums["aux"] = jax.tree.map(jnp.zeros_like, self._aux_factors_of(name))
        if sizes.operands:
            now, deferred = module.layers.leaves.partition_sums(sums["layers"])
            sums |= {"layers": now, "deferred": deferred}
        return sums

    def collect_gradients(self, name: str, sums: PyTree) -> PyTree:
        """The gradients of the parameters of a module, from its sums at a step's end."""
        layers = sums["layers"]
        if self.bounds.modules[name].sizes.operands:
            layers = self.modules[name].layers.leaves.combine_sums(layers, sums["deferred"])
        return sums["rest"] | {"layers": layers}

    # ---- tasks -----------------------------------------------------------------------------------

    def _run_forward(self, name: str, state: PyTree, row: ModuleRow) -> TaskLoops:
        """A chunk's layers, after the embedding in the first chunk and before the output in the
        last one, where stages do not share them."""
        module, task = self.modules[name], row.forward
        rows = self.read_rows(name, task.position)
        context, x = self._make_context(name, rows), self._read_input(name, state, task, rows)
        result = yield module.layers.forward_loop(self._first_layer(name, task), x, context)
        carry, residuals = loop_result(result)
        y, aux = module.layers.outputs_of(carry)
        saved = self._to_save(name, residuals, y)
        change: PyTree = {"saved": write_slot(state["saved"], task.saved, saved)}
        if aux:
            change["aux"] = jax.tree.map(jnp.add, state["aux"], aux)
        if row.keep_input is not None:
            padded = self.pad_side_inputs(name, y)
            change |= {"inputs": write_slot(state["inputs"], row.keep_input, padded)}
        if task.output is not None:
            outputs = run_if(
                "F_last",
                self._is_last(name, task),
                lambda _: self.vary(module.functions.output(module.end_params, y, rows)),
                self.zero_outputs(name),
            )
            change["output_buffer"] = write_slot(state["output_buffer"], task.output, outputs)
        return change, y

    def _run_backward(self, name: str, state: PyTree, row: ModuleRow) -> TaskLoops:
        """The gradients of what `_run_forward` does; those of weights that are split come later."""
        module, task = self.modules[name], row.backward
        rows = self.read_rows(name, task.position)
        context, start = self._make_context(name, rows), self._first_layer(name, task)
        if self.bounds.modules[name].remat == "full":
            x = self._read_input(name, state, task, rows)
            layers = module.layers
            result = yield (
                layers.forward_loop if self._is_frozen(name) else layers.recompute_loop
            )(start, x, context)
            carry, residuals = loop_result(result)
            residuals, y = self._to_save(name, residuals, layers.outputs_of(carry)[0])
        else:
            residuals, y = read_slot(state["saved"], task.saved)
        if self._is_frozen(name):
            rest_sums, _ = self._connector_gradients(name, state["rest"], state, task, y, rows)
            return {"rest": rest_sums}, self.zero_input(name)
        gradient, change = self._output_gradient(name, state, task, y, rows)
        result = yield module.layers.backward_loop(
            start, residuals, gradient, self._aux_factors_of(name), context, state["layers"]
        )
        carry, operands = loop_result(result)
        dx, change["layers"] = module.layers.gradients_of(carry)
        if row.weights is not None:
            written = row.weights.written
            change["operands"] = write_slot(state["operands"], written, operands)
        if row.keep_gradient is not None:
            gradient = self.drop_side_inputs(name, dx)
            change["gradients"] = write_slot(state["gradients"], row.keep_gradient, gradient)
        if not self._stages_of(name).shared_ends:
            change["rest"] = self._first_chunk_gradients(name, change["rest"], task, dx, rows)
        return change, dx

    def _run_weights(self, name: str, state: PyTree, row: ModuleRow) -> TaskLoops:
        """The weight gradients that the backward has left."""
        task, layers = row.weights, self.modules[name].layers
        assert task is not None  # as of every module that has such tasks
        context = self._make_context(name, self.read_rows(name, task.position))
        operands, start = read_slot(state["operands"], task.operands), self._first_layer(name, task)
        result = yield layers.weight_gradients(
            start, operands, self.zero_activation(name), context, state["deferred"]
        )
        return {"deferred": loop_result(result)[0]}, ()

    # ---- ends of a module ------------------------------------------------------------------------

    def _read_input(
        self,
        name: str,
        state: PyTree,
        task: ForwardTable[jax.Array] | BackwardTable[jax.Array],
        rows: PyTree,
    ) -> jax.Array:
        """The input of a chunk; of a first chunk without shared ends, the embedding."""
        x: jax.Array = read_slot(state["inputs"], task.input)
        if self._stages_of(name).shared_ends:
            return x
        module = self.modules[name]
        embedded: jax.Array = run_if(
            "F_first",
            self._is_first(name, task),
            lambda _: self.vary(module.functions.embed(module.end_params, rows)),
            x,
        )
        return embedded

    def _output_gradient(
        self, name: str, state: PyTree, task: BackwardTable[jax.Array], y: PyTree, rows: PyTree
    ) -> tuple[jax.Array, PyTree]:
        """The gradient of the layers' outputs, and the changes of the state that it takes.

        Of a last chunk without shared ends it comes through the connectors.

        Args:
            y: outputs of the layers; nothing with shared ends.
        """
        gradient = read_slot(state["gradients"], task.gradient)
        if self._stages_of(name).shared_ends:
            return gradient, {}

        def connect_outputs(done: tuple[PyTree, jax.Array]) -> tuple[PyTree, jax.Array]:
            return self._connector_gradients(name, done[0], state, task, y, rows)

        rest_sums, gradient = run_if(
            "B_last", self._is_last(name, task), connect_outputs, (state["rest"], gradient)
        )
        return gradient, {"rest": rest_sums}

    def _connector_gradients(
        self,
        name: str,
        rest_sums: PyTree,
        state: PyTree,
        task: BackwardTable[jax.Array],
        y: jax.Array,
        rows: PyTree,
    ) -> tuple[PyTree, jax.Array]:
        """Sums with the gradients of the connectors added, and the gradient of the layers' outputs.

        Args:
            rest_sums: the sums.
            y: outputs of the layers.
        """
        module = self.modules[name]

        def connect(trained: PyTree, y: jax.Array) -> jax.Array:
            return self.vary(module.functions.output(module.with_constant(trained), y, rows))

        pull = jax.vjp(connect, module.trained, y)[1]
        d_rest, gradient = pull(read_slot(state["output_grad_buffer"], task.gradient))
        return jax.tree.map(add_cast, rest_sums, d_rest), self.vary(gradient)

    def _first_chunk_gradients(
        self,
        name: str,
        rest_sums: PyTree,
        task: BackwardTable[jax.Array],
        dx: jax.Array,
        rows: PyTree,
    ) -> PyTree:
        """Sums with the gradients of the embedding added, if the task is that of a first chunk."""
        return run_if(
            "B_first",
            self._is_first(name, task),
            lambda rest_sums: self.add_embedding_gradients(name, rest_sums, dx, rows),
            rest_sums,
        )

    def add_embedding_gradients(
        self, name: str, rest_sums: PyTree, dx: jax.Array, rows: PyTree
    ) -> PyTree:
        """Sums with the gradients of a module's embedding added."""
        module = self.modules[name]

        def embed(trained: PyTree) -> jax.Array:
            return self.vary(module.functions.embed(module.with_constant(trained), rows))

        (d_rest,) = jax.vjp(embed, module.trained)[1](dx)
        return jax.tree.map(add_cast, rest_sums, d_rest)

    # ---- what a module is ------------------------------------------------------------------------

    def _stages_of(self, name: str) -> ModuleStages:
        return self.bounds.modules[name].stages

    def _is_frozen(self, name: str) -> bool:
        """Whether nothing of a module trains but its connectors, whose backward needs no layers."""
        return self.modules[name].functions.frozen and not self._stages_of(name).shared_ends

    def _aux_factors_of(self, name: str) -> Mapping[str, jax.Array]:
        """Factors of the sums of a module's auxiliary losses."""
        return {key: self.aux_factors[key] for key in self.modules[name].functions.aux}

    def _is_first(self, name: str, task: TaskRow) -> jax.Array | bool:
        """Whether a task is that of a module's first chunk."""
        return self._stages_of(name).chunks == 1 or task.chunk == 0

    def _is_last(self, name: str, task: TaskRow) -> jax.Array | bool:
        """Whether a task is that of a module's last chunk."""
        chunks = self._stages_of(name).chunks
        return chunks == 1 or task.chunk == chunks - 1

    def _first_layer(self, name: str, task: TaskRow) -> jax.Array:
        """Index in this stage's stack of the first layer of a chunk."""
        stages = self._stages_of(name)
        divide, by = (lax.div, stages.stages) if stages.looped else (lax.rem, stages.stage_chunks)
        return divide(task.chunk, jnp.int32(by)) * self.modules[name].layers.count

    def _to_save(self, name: str, residuals: PyTree, y: jax.Array) -> tuple[PyTree, PyTree]:
        """What a backward reads: the layers' residuals, and their outputs `y` for connectors."""
        if self._stages_of(name).shared_ends:
            return residuals, ()
        return () if self._is_frozen(name) else residuals, y


def _delay_first_loop(task: TaskLoops) -> TaskLoops:
    """`task`, whose first loop waits for those that other tasks ask for first."""
    yield None
    return (yield from task)
