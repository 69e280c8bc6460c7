"""Loss and gradients of a step on groups of devices, task by task.

Every program is started as soon as its turn comes and waits for its arrays on its devices: what the
host starts one after the other runs side by side, if devices differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mllm_jax.layers.parameters import Params
from mllm_jax.train.step.gradient_program import Batch
from mllm_jax.train.step.mpmd.backbone import (
    BackboneArguments,
    BackboneTasks,
    Decoded,
    FusedBackbone,
    StepLosses,
)
from mllm_jax.train.step.mpmd.encoder import EncoderTasks
from mllm_jax.train.step.mpmd.program import MpmdProgram
from mllm_jax.train.step.mpmd.split_gradient import Arguments, SavedForward
from mllm_jax.train.step.mpmd.state import TreeChange
from mllm_jax.train.step.mpmd.sums import GradientSums, OtherSums, SummedGradients, Total
from mllm_jax.train.step.mpmd.transfer import place_values, transfer_arrays
from mllm_jax.train.step.mpmd.waiting import DecodedOutputs, WaitingBackbone
from scheduling.schedules.modules.schedule import L, ProgramTasks
from scheduling.schedules.task_kinds import B, F
from scheduling.schedules.tasks import Task
from sharding.mesh import named_shardings


class StepGradients(NamedTuple):
    """Results of a step before its update.

    Attributes:
        losses: on the devices of the backbone.
        summed: gradients, on the devices of their modules; those of the backbone's group by the
            name of the backbone, others by the name of their module.
    """

    losses: StepLosses
    summed: dict[str, SummedGradients]


class StepParameters(NamedTuple):
    """Parameters by the programs that read them.

    Attributes:
        trained, constant: of the backbone's group, with gradients and without.
        heads: of heads of remote modules, on their own devices.
        modules: of every remote module, those with gradients and those without.
    """

    trained: Any
    constant: Any
    heads: Params
    modules: dict[str, tuple[Any, Any]]


class MpmdGradients:
    """Loss and gradients for batches of one shape.

    Args:
        program: what all groups have in common.
        meshes: the mesh of every group.
        batch: the batch, or its shapes.
        sums: sums of gradients, by the names of `StepGradients.summed`.
    """

    def __init__(
        self,
        program: MpmdProgram,
        meshes: Sequence[Mesh],
        batch: Batch,
        sums: Mapping[str, GradientSums],
    ) -> None:
        self.program, self.sums, name = program, sums, program.model.backbone
        count = len(batch.rows[name].inputs)
        self._start_run = self.prepare_runs(meshes[0], batch)
        self.encoders = {
            bucket: EncoderTasks(
                program,
                bucket,
                meshes[program.group_of(bucket)],
                sums.get(program.model.buckets[bucket]),
            )
            for bucket in program.remote
        }
        self.schedule = program.make_schedule(count)
        self.last_backwards = self._find_last_backwards()
        self.head_layouts = named_shardings(meshes[0], program.head_specs)
        #: By group, the numbers of microbatches on its devices.
        self.numbers = [
            place_values(
                [np.array(n, np.int32) for n in range(count)], NamedSharding(mesh, PartitionSpec())
            )
            for mesh in meshes
        ]
        self._parameters: TreeChange | None = None

    def prepare_runs(self, mesh: Mesh, batch: Batch) -> Callable[[StepParameters, Batch], MpmdRun]:
        """What begins a step.

        Args:
            mesh: mesh of the backbone's group.
            batch: the batch, or its shapes.
        """
        of_backbone = self.program, mesh, batch, self.sums[self.program.model.backbone]
        if self.program.waits:
            return partial(_WaitingRun, self, WaitingBackbone(*of_backbone))
        return partial(_FusedRun, self, FusedBackbone(*of_backbone))

    def __call__(self, params: Any, batch: Batch) -> StepGradients:
        """Loss and gradients of a batch."""
        if self._parameters is None:
            self._parameters = TreeChange(self._split_parameters, params)
        run = self._start_run(self._parameters(jax.tree.leaves(params)), batch)
        for row in self.schedule.ticks:
            for tasks in filter(None, row):
                run.start(tasks)
        return run.results()

    def sums_of(self, module: str) -> str:
        """The name by which gradients of a module, or of a bucket, are summed."""
        return self.program.model.buckets.get(module, module)

    def _find_last_backwards(self) -> frozenset[Task]:
        """The last backward of each sum."""
        last = {self.sums_of(t.module): t for _, _, t in self.schedule if t.kind is B}
        return frozenset(last.values())

    def _split_parameters(self, params: Any) -> StepParameters:
        program = self.program
        trained, constant = program.frozen.partition(params)

        def select(names: Sequence[str]) -> tuple[Any, Any]:
            both: Any = tuple({n: t[n] for n in names if n in t} for t in (trained, constant))
            return both

        modules = {program.model.buckets[bucket] for bucket in program.remote}
        heads = program.pick_heads(params)
        remote = {module: select([module]) for module in modules}
        return StepParameters(*select(program.modules_of(0)), heads, remote)


class MpmdRun(ABC):
    """One step: what its tasks have left for others.

    Args:
        tasks: the tasks.
        backbone: those of the backbone.
        params: parameters by the programs that read them.
        batch: the batch.
    """

    def __init__(
        self,
        tasks: MpmdGradients,
        backbone: BackboneTasks,
        params: StepParameters,
        batch: Batch,
    ) -> None:
        self._tasks, self._params, self._batch = tasks, params, batch
        self._layout = backbone.layout
        self._encoders, self._program = tasks.encoders, tasks.program
        rows = {name: batch.rows[name] for name in self._program.local}
        # The heads follow with the first outputs, in one transfer.
        self._arguments = BackboneArguments(
            params.trained, params.constant, params.heads, rows, batch.routes
        )
        self._heads_moved = not params.heads
        self._totals: dict[str, Total] = {name: s.nothing for name, s in tasks.sums.items()}
        self._summed: dict[str, SummedGradients] = {}
        self._losses: StepLosses | None = None
        self._head_gradients: dict[str, Params] = {}
        self._saved: dict[tuple[str, int], SavedForward] = {}
        #: Outputs of encoders on the devices of the backbone, and their gradients on those of the
        #: encoders, by bucket and microbatch.
        self._outputs: dict[tuple[str, int], jax.Array] = {}
        self._gradients: dict[tuple[str, int], jax.Array] = {}

    def start(self, tasks: ProgramTasks) -> None:
        """Start the program of what runs as one."""
        task = tasks[0]
        if task.module not in self._encoders:
            self.start_backbone(tasks)
        elif task.kind is F:
            self._encode(task)
        else:
            self._differentiate_encoder(task)

    @abstractmethod
    def start_backbone(self, tasks: ProgramTasks) -> None:
        """Start a program of the backbone."""

    def results(self) -> StepGradients:
        """Sums over microbatches."""
        assert self._losses is not None
        return StepGradients(self._losses, self._summed)

    # ---- encoders --------------------------------------------------------------------------------

    def _encode(self, task: Task) -> None:
        encoder, key = self._encoders[task.module], (task.module, task.microbatch)
        number = self._tasks.numbers[self._program.group_of(task.module)][task.microbatch]
        params = self._params.modules[self._tasks.sums_of(task.module)]
        data = self._batch.rows[task.module], number
        outputs, _, self._saved[key] = encoder.forward(Arguments(*params, {}, data))
        layout = self._layout
        if self._heads_moved:
            self._outputs[key] = transfer_arrays(outputs, layout)
            return
        both, layouts = (outputs, self._params.heads), (layout, self._tasks.head_layouts)
        self._outputs[key], heads = transfer_arrays(both, layouts)
        self._arguments, self._heads_moved = self._arguments._replace(heads=heads), True

    def _differentiate_encoder(self, task: Task) -> None:
        """Gradients of an encoder on a microbatch, by those of its outputs."""
        key, name = (task.module, task.microbatch), self._tasks.sums_of(task.module)
        encoder, total = self._encoders[task.module], self._totals[name]
        saved, gradients = self._saved.pop(key), self._gradients.pop(key)
        if task in self._tasks.last_backwards:
            others = OtherSums(self._head_gradients[name])
            self._summed[name], _ = encoder.last_backward(saved, gradients, total, others)
        else:
            self._totals[name], _ = encoder.backward(saved, gradients, total)

    def send_back(
        self, gradients: Mapping[tuple[str, int], jax.Array], heads: Params | None = None
    ) -> None:
        """Send gradients of outputs, and of heads, to the devices of the encoders.

        Args:
            gradients: by bucket and microbatch.
            heads: with the last gradients, those of heads.
        """
        needed = {key: x for key, x in gradients.items() if self._has_backward(key[0])}
        layouts = {key: self._encoders[key[0]].layout for key in needed}
        sums = self._tasks.sums if heads is not None else {}
        by_heads = {name: each.pick_heads(heads or {}) for name, each in sums.items()}
        head_layouts = {name: each.head_layouts for name, each in sums.items()}
        if not needed and not by_heads:
            return
        moved, heads_moved = transfer_arrays((needed, by_heads), (layouts, head_layouts))
        self._gradients |= moved
        self._head_gradients |= heads_moved

    def _has_backward(self, bucket: str) -> bool:
        return self._tasks.sums_of(bucket) in self._tasks.sums


class _FusedRun(MpmdRun):
    """A step whose losses are those of microbatches."""

    def __init__(
        self,
        tasks: MpmdGradients,
        backbone: FusedBackbone,
        params: StepParameters,
        batch: Batch,
    ) -> None:
        super().__init__(tasks, backbone, params, batch)
        self._backbone = backbone

    def start_backbone(self, tasks: ProgramTasks) -> None:
        """Forward, losses and backward of a microbatch."""
        name, number = tasks[-1].module, tasks[-1].microbatch
        outputs = {bucket: self._outputs.pop((bucket, number)) for bucket in self._encoders}
        of_step = self._totals[name], self._losses
        arguments = self._arguments, self._tasks.numbers[0][number], outputs, *of_step
        heads: Params | None = None
        if tasks[-1] in self._tasks.last_backwards:
            self._summed[name], self._losses, gradients = self._backbone.run_last(*arguments)
            heads = self._losses.heads
        else:
            self._totals[name], self._losses, gradients = self._backbone.run(*arguments)
        self.send_back({(bucket, number): x for bucket, x in gradients.items()}, heads)


class _WaitingRun(MpmdRun):
    """A step whose losses wait for all forwards."""

    def __init__(
        self,
        tasks: MpmdGradients,
        backbone: WaitingBackbone,
        params: StepParameters,
        batch: Batch,
    ) -> None:
        super().__init__(tasks, backbone, params, batch)
        self._backbone = backbone
        #: What the backbone has made, then the gradients of that, by microbatch.
        self._decoded: dict[int, Decoded] = {}

    def start_backbone(self, tasks: ProgramTasks) -> None:
        """Forward or backward of a microbatch, or the losses."""
        (task,) = tasks
        if task.kind is L:
            self._run_losses()
        elif task.kind is F:
            self._decode(task)
        else:
            self._differentiate(task)

    def _decode(self, task: Task) -> None:
        number = task.microbatch
        outputs = {b: self._outputs.pop((b, number)) for b in self._backbone.merged}
        self._decoded[number], self._saved[task.module, number] = self._backbone.forward(
            self._arguments, self._tasks.numbers[0][number], outputs
        )

    def _run_losses(self) -> None:
        """The losses of the step; gradients of what they have read take its place."""
        numbers = [*self._decoded]
        others = [bucket for bucket in self._encoders if bucket not in self._backbone.merged]
        outputs = DecodedOutputs(
            tuple(self._decoded.values()),
            tuple({b: self._outputs.pop((b, number)) for b in others} for number in numbers),
        )
        results = self._backbone.losses(self._arguments, outputs)
        self._totals[self._program.model.backbone], self._losses, gradients = results
        self._decoded = dict(zip(numbers, gradients.decoded, strict=True))
        by_others = {
            (bucket, number): x
            for number, each in zip(numbers, gradients.others, strict=True)
            for bucket, x in each.items()
        }
        self.send_back(by_others, self._losses.heads)

    def _differentiate(self, task: Task) -> None:
        """Gradients of the backbone on a microbatch, with what its forward has left."""
        assert self._losses is not None
        name, number = task.module, task.microbatch
        arguments = self._saved.pop((name, number)), self._decoded.pop(number), self._totals[name]
        if task in self._tasks.last_backwards:
            summed = self._backbone.last_backward(*arguments, self._losses)
            self._summed[name], gradients = summed
        else:
            self._totals[name], gradients = self._backbone.backward(*arguments)
        self.send_back({(bucket, number): x for bucket, x in gradients.items()})
