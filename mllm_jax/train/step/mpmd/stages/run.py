"""Loss and gradients of a step whose backbone has stages, task by task."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mllm_jax.train.step.gradient_program import Batch
from mllm_jax.train.step.mpmd.backbone import BackboneArguments, BackboneTasks, StepLosses
from mllm_jax.train.step.mpmd.compile import compile_on
from mllm_jax.train.step.mpmd.gradients import (
    MpmdGradients,
    MpmdRun,
    StepGradients,
    StepParameters,
)
from mllm_jax.train.step.mpmd.stages.split import StageSplit
from mllm_jax.train.step.mpmd.stages.sums import StageSums
from mllm_jax.train.step.mpmd.stages.tasks import HIDDEN, EarlierStage, LastStage
from mllm_jax.train.step.mpmd.sums import OtherSums, SummedGradients, Total
from mllm_jax.train.step.mpmd.transfer import place_values, transfer_arrays
from scheduling.schedules.modules.schedule import ProgramTasks
from scheduling.schedules.task_kinds import F
from scheduling.schedules.tasks import Task
from sharding.in_order import shard_map


class StagedGradients(MpmdGradients):
    """Loss and gradients for batches of one shape, of a backbone with stages."""

    def prepare_runs(self, mesh: Mesh, batch: Batch) -> Callable[[StepParameters, Batch], MpmdRun]:
        """See `MpmdGradients.prepare_runs`."""
        self._mesh, self.split = mesh, StageSplit(self.program, mesh)
        split, program = self.split, self.split.program
        #: Sums of the gradients of each stage.
        self.stage_sums = [
            StageSums(program, split.shardings(stage), mesh)
            for stage, mesh in enumerate(split.meshes)
        ]
        *earlier, (last_mesh, last_sums) = zip(split.meshes, self.stage_sums, strict=True)
        #: Programs of the stages before the last.
        self.earlier = [
            EarlierStage(program, mesh, batch, sums, is_first=stage == 0)
            for stage, (mesh, sums) in enumerate(earlier)
        ]
        self.last = LastStage(program, last_mesh, batch, last_sums)
        count = len(batch.rows[self.program.model.backbone].inputs)
        values = [np.array(n, np.int32) for n in range(count)]
        scalars = split.layouts(PartitionSpec())
        #: By stage, the numbers of microbatches on its devices.
        self.stage_numbers = [place_values(values, layout) for layout in scalars]
        return partial(_StagedRun, self)

    @property
    def tasks(self) -> list[BackboneTasks]:
        """The programs of all stages."""
        return [*self.earlier, self.last]

    def finish(self, parts: list[Any], losses: StepLosses) -> StepGradients:
        """The results of the step on the mesh of the group, from those of its stages."""
        name = self.program.model.backbone
        gradients = self.split.join_gradients(parts, self.sums[name].gradient_specs)
        losses = transfer_arrays(losses, NamedSharding(self._mesh, PartitionSpec()))
        others = OtherSums({}, losses.loss, losses.factors.tokens)
        return StepGradients(losses, {name: self._finish(gradients, others)})

    @cached_property
    def _finish(self) -> Callable[[Any, OtherSums], SummedGradients]:
        sums = self.sums[self.program.model.backbone]
        in_specs = sums.gradient_specs, sums.other_specs
        mapped = shard_map(sums.finish, mesh=self._mesh, in_specs=in_specs, out_specs=sums.specs)
        return compile_on(self._mesh, mapped, sums.specs, donated=(0,))


class _StagedRun(MpmdRun):
    """A step whose losses are those of microbatches.

    Args:
        tasks: the tasks.
        params: parameters by the programs that read them.
        batch: the batch.
    """

    def __init__(self, tasks: StagedGradients, params: StepParameters, batch: Batch) -> None:
        super().__init__(tasks, tasks.earlier[0], params, batch)
        self._staged, split = tasks, tasks.split
        self._stage_arguments = [
            BackboneArguments(
                split.pick_parameters(stage, params.trained),
                split.pick_parameters(stage, params.constant),
                {},
                *split.view(stage, (self._arguments.rows, self._arguments.routes)),
            )
            for stage in range(len(split.meshes))
        ]
        self._stage_totals: list[Total] = [sums.nothing for sums in tasks.stage_sums]
        self._parts = dict[int, Any]()
        #: Activations on the devices of the stage that reads them, and their gradients on those of
        #: the stage that made them, by that stage and microbatch.
        self._hidden: dict[tuple[int, int], jax.Array] = {}
        self._by_hidden: dict[tuple[int, int], jax.Array] = {}

    def start_backbone(self, tasks: ProgramTasks) -> None:
        """Forward or backward of a microbatch on a stage; on the last one both, with the losses."""
        stage = self._program.stage_names.index(tasks[-1].module)
        if stage == self._staged.split.last:
            self._run_last_stage(tasks[-1])
        elif tasks[-1].kind is F:
            self._run_forward(stage, tasks[-1])
        else:
            self._run_backward(stage, tasks[-1])

    def results(self) -> StepGradients:
        """Sums over microbatches."""
        assert self._losses is not None
        parts = [self._parts[stage] for stage in sorted(self._parts)]
        losses, summed = self._staged.finish(parts, self._losses)
        return StepGradients(losses, self._summed | summed)

    def _run_forward(self, stage: int, task: Task) -> None:
        number = task.microbatch
        arguments = self._stage_arguments[stage], self._staged.stage_numbers[stage][number]
        outputs, saved = self._staged.earlier[stage].forward(
            *arguments, self._pick_inputs(stage, number)
        )
        self._saved[task.module, number] = saved
        layout = self._staged.tasks[stage + 1].layout
        self._hidden[stage + 1, number] = transfer_arrays(outputs, layout)

    def _pick_inputs(self, stage: int, number: int) -> dict[str, jax.Array]:
        if stage:
            return {HIDDEN: self._hidden.pop((stage, number))}
        return {bucket: self._outputs.pop((bucket, number)) for bucket in self._encoders}

    def _run_last_stage(self, task: Task) -> None:
        stage, number, last = self._staged.split.last, task.microbatch, self._staged.last
        arguments = (
            self._stage_arguments[stage],
            self._staged.stage_numbers[stage][number],
            self._pick_inputs(stage, number),
            self._stage_totals[stage],
            self._losses,
        )
        if task in self._tasks.last_backwards:
            self._parts[stage], self._losses, gradients = last.run_last(*arguments)
        else:
            self._stage_totals[stage], self._losses, gradients = last.run(*arguments)
        self._send_gradients(stage, number, gradients)

    def _run_backward(self, stage: int, task: Task) -> None:
        number, tasks = task.microbatch, self._staged.earlier[stage]
        arguments = (
            self._saved.pop((task.module, number)),
            self._by_hidden.pop((stage, number)),
            self._stage_totals[stage],
        )
        if task in self._tasks.last_backwards:
            self._parts[stage], gradients = tasks.last_backward(*arguments)
        else:
            self._stage_totals[stage], gradients = tasks.backward(*arguments)
        self._send_gradients(stage, number, gradients)

    def _send_gradients(self, stage: int, number: int, gradients: dict[str, jax.Array]) -> None:
        """Send gradients of inputs to the stage before, or to encoders."""
        if stage:
            layout = self._staged.earlier[stage - 1].output_layout
            self._by_hidden[stage - 1, number] = transfer_arrays(gradients[HIDDEN], layout)
            return
        is_last = number == len(self._staged.stage_numbers[0]) - 1
        by_outputs = {(bucket, number): x for bucket, x in gradients.items()}
        self.send_back(by_outputs, {} if is_last else None)
