"""The pipeline executor: loops over ticks, inside the train step, that read rows of instructions.

Everything here runs inside a fully manual, typed `jax.shard_map`. What is compiled is a
`ScheduleBounds`; the rows of an `InstructionTable` and the number of its ticks are arguments. In a
tick every device

1. runs its fused task: of the kinds in use, a loop of one iteration for the right one and of none
   for the others, or if tasks run one by one the same for every kind of task. Devices that share a
   stage choose the same, which makes collectives over data and tensor axes inside it safe;
2. if the stages meet at the tick's end (`Schedule.stage_syncs`), sends activations right and
   gradients left (`ppermute`), takes its share of the head of the microbatch that has left the last
   stage, and saves the gradient for its outputs;
3. then takes part in the embedding of the microbatch that enters next: each stage holds a run of
   the vocabulary, and the outputs of the sources wait on the stages that computed them, so one sum
   over the stages moves both to the first stage.

Heads and embeddings that stages do not share are part of the tasks of last and first chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from scheduling.executor.control import run_if, run_tasks
from scheduling.executor.merges import Row
from scheduling.executor.modules import BoundModule
from scheduling.executor.observe import first_elements, record_event
from scheduling.executor.stage_sync import StageSync
from scheduling.executor.step_batch import StepBatch
from scheduling.executor.tasks import ModuleRow, PipelineTasks
from scheduling.lowering.bounds import PHASES, ScheduleBounds
from scheduling.lowering.lowered import IDLE, FusedKind
from scheduling.schedules.tasks import Observer
from sharding.collectives import Axes, axis_index, psum, vary
from sharding.layerstack.loops import PyTree
from sharding.layerstack.module import Loss, Merge, Module
from sharding.layerstack.spec import Aux


def ticks_scope(phase: int) -> str:
    """Name of the loop over the ticks of a phase in profiles and compiled programs.

    It has scopes by kind of fused task.
    """
    return f"{PHASES[phase]}_ticks"


@dataclass(frozen=True)
class Pipeline:
    """Bounds with the functions that the tasks of their schedules stand for.

    Attributes:
        bounds: what is fixed of the schedules that run.
        modules: the modules of `bounds`; several may share parameters.
        merges: by module that feeds another one, how its outputs are merged into that one's rows.
        losses: the losses of the backbone's outputs, by name.
        stage: grid axes of the backbone's stages.
        axes: all axes of the grid.
        layers: layers of one chunk of each module.
        exists: by module whose stack is padded, whether a layer of the local stack (index) is one
            of the model.
        co_issue: trace independent tasks of a fused task side by side, if its kind is compiled.
        observe: called on the host by every device at the start and at the end of every fused task,
            empty ones included; None traces no callbacks.
    """

    bounds: ScheduleBounds
    modules: Mapping[str, Module[Any]]
    merges: Mapping[str, Merge]
    losses: Mapping[str, Loss]
    stage: Axes
    axes: Axes
    layers: Mapping[str, int]
    exists: Mapping[str, Callable[[jax.Array], jax.Array]] = field(default_factory=dict)
    co_issue: bool = True
    observe: Observer | None = None

    def loss_and_gradients(
        self,
        params: PyTree,
        batch: StepBatch[Any],
        divisors: Mapping[str, jax.Array],
        aux_factors: Mapping[str, jax.Array],
        carried: Mapping[str, jax.Array],
    ) -> tuple[dict[str, jax.Array], Aux, PyTree, dict[str, jax.Array]]:
        """Losses and gradients of one step, as this device's shares of sums over the grid.

        Args:
            params: by module, local shards that are marked as varying over all axes; `layers` of
                each is a stack, this stage's layers chunk by chunk.
            batch: local shards: rows of the backbone, `[microbatches, rows, ...]`, after this
                step's those of the next whose media are prefetched; rows of other modules, `[slots,
                rows, ...]`, the microbatches that this device's stage runs; routes of the stage's
                pairs of microbatches; the schedule of this stage, `[1, ...]`.
            divisors: of the sum of each loss, by name.
            aux_factors: factors of the sums of auxiliary losses in the loss, by name.
            carried: outputs that the step before has computed for this one, by module that is
                prefetched, `[slots, rows, outputs / shards, width]`.

        Returns:
            Each divided loss summed over the microbatches, this rank's share; sums of auxiliary
            losses, different on all ranks; gradients in float32, of what `partition_trained` of the
            modules says has any; and the outputs that are carried on.
        """
        return _TracedStep(self, params, batch, divisors, aux_factors, carried).run_step()

    def prefetch_outputs(self, params: PyTree, batch: StepBatch[Any]) -> dict[str, jax.Array]:
        """The outputs alone that a step with this `batch` carries on to the next.

        Its `schedule` is that of the forwards for the next step alone
        (`LoweredSchedule.prefetch_only`).
        """
        return _TracedStep(self, params, batch, {}, {}, {}).prefetch_outputs()

    def profile_task(
        self,
        params: PyTree,
        batch: StepBatch[Any],
        kind: FusedKind,
        chunk: int,
        together: bool,
        ticks: int,
    ) -> jax.Array:
        """Run fused tasks of one kind on all devices at once, to measure how long a task takes.

        Args:
            params, batch: as of `loss_and_gradients`.
            kind: kind of every fused task.
            chunk: chunk of its tasks of modules without shared ends.
            together: whether all stages also do the joint work of a tick: the embedding and the
                head of a microbatch and the return of its input's gradient.
            ticks: number of ticks.

        Returns:
            A scalar that depends on all that was computed; its value means nothing.
        """
        aux_factors = {
            name: jnp.ones(()) for module in self.modules.values() for name in module.aux
        }
        divisors = dict.fromkeys(self.losses, jnp.ones(()))
        step = _TracedStep(self, params, batch, divisors, aux_factors, {})
        return step.profile_task(kind, chunk, together, ticks)

    def bind_modules(self, params: PyTree) -> dict[str, BoundModule]:
        """The modules on `params`, as of `loss_and_gradients`."""
        return {
            name: BoundModule(
                self.modules[name],
                params[self.modules[name].name],
                self.layers[name],
                module.remat,
                self.axes,
                self.exists.get(name),
            )
            for name, module in self.bounds.modules.items()
        }


class _TracedStep:
    """One traced step: the loops over its ticks.

    The state is that of `PipelineTasks`.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        params: PyTree,
        batch: StepBatch[Any],
        divisors: Mapping[str, jax.Array],
        aux_factors: Mapping[str, jax.Array],
        carried: Mapping[str, jax.Array],
    ) -> None:
        self.pipeline, self.bounds = pipeline, pipeline.bounds
        assert batch.schedule is not None  # the step of a pipeline has one
        self.schedule = batch.schedule
        self.carried = carried
        self.vary = partial(vary, axes=pipeline.axes)
        self.modules = pipeline.bind_modules(params)
        self.tasks = PipelineTasks(
            pipeline.bounds, self.modules, pipeline.merges, batch, pipeline.axes, aux_factors
        )
        self.sync = StageSync(
            pipeline.bounds,
            self.tasks,
            pipeline.losses,
            divisors,
            pipeline.stage,
            pipeline.axes,
            axis_index(pipeline.stage),
        )
        self.backbone = pipeline.bounds.backbone_name
        inside = tuple(axis for axis in pipeline.axes if axis not in pipeline.stage)
        mixed = any(map(self._runs_backbone, pipeline.bounds.without_sources))
        # `PipelineTasks.has_inputs` of all ranks of this stage.
        self.inputs_in_stage = {
            name: psum(self.vary(has_inputs).astype(jnp.int32), inside) > 0
            for name, has_inputs in (self.tasks.has_inputs if mixed else {}).items()
        }

    def run_step(self) -> tuple[dict[str, jax.Array], Aux, PyTree, dict[str, jax.Array]]:
        """Prologue, the ticks of the backbone, epilogue."""
        prologue, middle, epilogue = range(len(PHASES))
        state = self._start_backbone(self._run_phase(prologue, self._start_sources()))
        state = self.sync.enter_microbatch(self.backbone, state, self._read_row(jnp.int32(-1)))
        state = self._run_phase(middle, state)
        losses, sums = state.pop("losses"), state["sums"]
        backbone = sums[self.tasks.parameters_of(self.backbone)]
        gradients = {self.backbone: self.tasks.collect_gradients(self.backbone, backbone)}
        state = self._run_phase(epilogue, self._end_backbone(state))
        for name in self.bounds.sources:
            parameters = self.tasks.parameters_of(name)
            gradients[parameters] = self.tasks.collect_gradients(name, state["sums"][parameters])
        return losses, backbone.get("aux", {}), gradients, self._read_carried(state)

    def prefetch_outputs(self) -> dict[str, jax.Array]:
        """See `Pipeline.prefetch_outputs`."""
        state = self._start_sources()
        for phase in range(len(PHASES)):
            state = self._run_phase(phase, state)
        return self._read_carried(state)

    def _start_sources(self) -> PyTree:
        """The state before the backbone starts."""
        tasks, names = self.tasks, self.bounds.sources
        return {
            "modules": {name: tasks.make_buffers(name, self.carried.get(name)) for name in names},
            "sums": {tasks.parameters_of(name): tasks.zero_sums(name) for name in names},
        }

    def _start_backbone(self, state: PyTree) -> PyTree:
        """The state when the backbone starts."""
        name, tasks = self.backbone, self.tasks
        hidden = self.sync.broadcast_stage(True, tasks.zero_activation(name))
        rows, samples = tasks.read_rows(name, jnp.int32(0)), tasks.merges.zero_samples(name)
        learners = self.sync.learners_of(samples)
        trained = {learner: module.trained for learner, module in learners.items()}
        losses = jax.eval_shape(self.sync.compute_losses, trained, hidden, samples, rows)
        count = len(jax.tree.leaves(tasks.batch.rows[name])[0])
        slots = jax.tree.map(
            lambda sample: self.vary(jnp.zeros((count, *sample.shape), sample.dtype)), samples
        )
        return {
            "modules": state["modules"] | {name: tasks.make_buffers(name)},
            "sums": state["sums"] | {tasks.parameters_of(name): tasks.zero_sums(name)},
            "losses": {name: self.sync.loss_scalar(0, like=loss) for name, loss in losses.items()},
            "samples": slots,
            "sample_gradients": slots,
        }

    def _end_backbone(self, state: PyTree) -> PyTree:
        """The state without the parts of the backbone, which has ended."""
        parameters = self.tasks.parameters_of(self.backbone)
        modules = {
            name: buffers for name, buffers in state["modules"].items() if name != self.backbone
        }
        sums = {name: buffers for name, buffers in state["sums"].items() if name != parameters}
        return {"modules": modules, "sums": sums}

    def _read_carried(self, state: PyTree) -> dict[str, jax.Array]:
        """Outputs for the next step."""
        counts = {name: module.carried for name, module in self.bounds.modules.items()}
        outputs = {name: state["modules"][name]["output_buffer"] for name, n in counts.items() if n}
        return {name: module[: counts[name]] for name, module in outputs.items()}

    def profile_task(self, kind: FusedKind, chunk: int, together: bool, ticks: int) -> jax.Array:
        """See `Pipeline.profile_task`."""

        def row(tick: jax.Array) -> Row:
            entries = [[jnp.int32(0)] * count for count in self.bounds.entry_counts]
            row = self.bounds.unpack_row(*entries)
            modules = {
                name: self._profile_row(name, module, chunk, tick, together)
                for name, module in row.modules.items()
            }
            return replace(row, modules=modules, runs={str(kind): jnp.int32(1)})

        state = self._run_ticks(
            (kind,), row, (0, ticks), self._start_backbone(self._start_sources()), True
        )
        return psum(self.vary(jnp.sum(jnp.stack(first_elements(state)))), self.pipeline.axes)

    def _profile_row(
        self, name: str, row: ModuleRow, chunk: int, tick: jax.Array, together: bool
    ) -> ModuleRow:
        """The entries of a module in a tick of `profile_task`, where `row` has zeros."""
        if row.ends is not None:
            joint = jnp.int32(0 if together else -1)
            names = ("embed_microbatch", "head_microbatch", "return_microbatch")
            return replace(row, ends=replace(row.ends, **dict.fromkeys(names, joint)))
        # A new input every time, lest the work be done once for all ticks.
        place = {"chunk": jnp.int32(chunk), "local": tick % self.bounds.modules[name].slots}
        forward, backward = replace(row.forward, **place), replace(row.backward, **place)
        return replace(row, forward=forward, backward=backward)

    # ---- ticks -----------------------------------------------------------------------------------

    def _run_phase(self, phase: int, state: PyTree) -> PyTree:
        """Run the ticks of a phase; a state without the backbone's part is for those without it."""
        kinds, phases = self.bounds.kinds[phase], self.schedule.phases
        if not kinds:
            return state
        ticks = phases[phase], phases[phase + 1]
        # Where nothing moves between stages, a stage sync leaves the state as it is.
        meet = self.bounds.syncs[phase] or not self.sync.sent_modules(state)
        with jax.named_scope(ticks_scope(phase)):
            return self._run_ticks(kinds, self._read_row, ticks, state, meet)

    def _run_ticks(
        self,
        kinds: Sequence[FusedKind],
        row_of: Callable[[jax.Array], Row],
        ticks: tuple[jax.Array | int, jax.Array | int],
        state: PyTree,
        meet: bool,
    ) -> PyTree:
        """Run the ticks from the first of `ticks` to before the second.

        The stages meet in all of them, or else where their row says so.
        """

        def tick(number: jax.Array, state: PyTree) -> PyTree:
            row = row_of(number)
            done = state, self.sync.zero_sent(state)
            # Known to no compiler, so that each loop waits for the one before it: what one reads
            # and another writes would be copied if the two could run in any order.
            turn = self.vary(jnp.int32(0))
            for kind in kinds:
                if kind != IDLE or self.pipeline.observe:
                    chosen = (row.runs[str(kind)] > 0) & (turn >= 0)
                    done, turn = run_if(
                        str(kind), chosen, partial(self._in_turn, kind, row), (done, turn)
                    )
            state, sent = done
            sync = partial(self.sync.sync_stages, sent=sent, row=row)
            return sync(state) if meet else run_if("stage_sync", row.syncs > 0, sync, state)

        first, last = (jnp.asarray(bound, jnp.int32) for bound in ticks)
        return lax.while_loop(
            lambda carry: carry[0] < last,
            lambda carry: (carry[0] + 1, tick(*carry)),
            (first, state),
        )[1]

    def _read_row(self, tick: jax.Array) -> Row:
        """This stage's entries of a tick; of tick -1: what enters for the backbone's first.

        Tasks of sources do not run if their microbatches have no inputs: nothing of what they make
        would be merged, and all their gradients are zero. Of a fused task with tasks of the
        backbone, those run alone. An observer is notified of all tasks of the schedule.
        """
        rows = self.schedule.by_stage[0], self.schedule.joint
        entries = (lax.dynamic_index_in_dim(rows_of, 1 + tick, keepdims=False) for rows_of in rows)
        row = self.bounds.unpack_row(*map(list, entries))
        if self.pipeline.observe:
            return row
        runs = dict(row.runs)
        for kind, parts in self.bounds.without_sources.items():
            runs_fused, has_inputs = row.runs[str(kind)], self._fused_has_inputs(kind, row)
            runs[str(kind)] = jnp.where(has_inputs, runs_fused, 0)
            for part in map(str, parts):
                runs[part] = jnp.where(has_inputs, runs[part], jnp.maximum(runs[part], runs_fused))
        return replace(row, runs=runs)

    def _fused_has_inputs(self, kind: FusedKind, row: Row) -> jax.Array:
        """Whether the microbatch of any task of a source in a fused task has inputs.

        For a fused task with tasks of the backbone, whether it has inputs on any rank of the stage,
        as the ranks of the backbone's collectives must run the same loops.
        """
        any_inputs = jnp.zeros((), bool)
        has_inputs = self.inputs_in_stage if self._runs_backbone(kind) else self.tasks.has_inputs
        for task, name in kind.tasks:
            if name != self.backbone:
                position = row.modules[name].of_kind(task).position
                any_inputs |= has_inputs[name][jnp.maximum(position, 0)]
        return any_inputs

    def _runs_backbone(self, kind: FusedKind) -> bool:
        """Whether a fused task of this kind has a task of the backbone."""
        return bool(kind.of_module(self.bounds.backbone_name).tasks)

    def _in_turn(self, kind: FusedKind, row: Row, state: PyTree) -> PyTree:
        """`_run_observed`, and a number that only it changes."""
        done, turn = state
        return self._run_observed(kind, row, done), turn + 1

    def _run_observed(
        self, kind: FusedKind, row: Row, done: tuple[PyTree, PyTree]
    ) -> tuple[PyTree, PyTree]:
        """Run a fused task: the new state, and the values sent from this stage."""
        observe, axes = self.pipeline.observe, self.pipeline.axes
        if observe is None:
            return self._run_fused(kind, row, done)
        began = record_event(observe, axes, kind, row, end=False, after=done)
        row = jax.tree.map(lambda x: x + began, row)
        state, sent = self._run_fused(kind, row, done)
        ended = record_event(observe, axes, kind, row, end=True, after=(state, sent))
        return state, jax.tree.map(lambda x: x + ended.astype(x.dtype), sent)

    def _run_fused(
        self, kind: FusedKind, row: Row, done: tuple[PyTree, PyTree]
    ) -> tuple[PyTree, PyTree]:
        """Write the results of the tasks into the state and into the values to send."""
        state, sent = done
        tasks = self.tasks.run_fused(kind, state, row)
        results = run_tasks(list(tasks.values()), self.pipeline.co_issue)
        for (task, name), (change, out) in zip(tasks, results, strict=True):
            state = self.tasks.update_module(name, state, change)
            if name in sent and task.passes:
                sent = sent | {name: sent[name] | {task.name: self.vary(out)}}
        return state, sent
