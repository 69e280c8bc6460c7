"""Loss and gradients of a step on groups of devices, task by task.

Every program is started as soon as its turn comes and waits for its arrays on its devices: what the
host starts one after the other runs side by side, if devices differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from mllm_jax.layers.parameters import Params
from mllm_jax.models.model import Outputs
from mllm_jax.train.step.gradient_program import Batch
from mllm_jax.train.step.mpmd.program import MpmdProgram
from mllm_jax.train.step.mpmd.split_gradient import SavedForward
from mllm_jax.train.step.mpmd.tasks import BackboneTasks, EncoderTasks, SavedMicrobatch, StepFactors
from mllm_jax.train.step.mpmd.transfer import transfer_arrays
from scheduling.schedules.modules.schedule import L
from scheduling.schedules.task_kinds import F
from scheduling.schedules.tasks import Task
from sharding.layerstack.spec import Aux
from sharding.mesh import named_shardings


class GroupGradients(NamedTuple):
    """Results of a step before its update.

    Attributes:
        loss: on the devices of the backbone.
        aux: means of auxiliary losses over the tokens.
        totals: by group, gradients of every device, `[devices, ...]`.
        heads: gradients of heads of remote modules, on the devices of the backbone.
        factors: of the batch.
    """

    loss: jax.Array
    aux: Aux
    totals: list[Any]
    heads: Params
    factors: StepFactors


class MpmdGradients:
    """Loss and gradients for batches of one shape.

    Args:
        program: what all groups have in common.
        meshes: the mesh of every group.
        batch: the batch, or its shapes.
    """

    def __init__(self, program: MpmdProgram, meshes: Sequence[Mesh], batch: Batch) -> None:
        self._program = program
        self._backbone = BackboneTasks(program, meshes[0], batch)
        self._encoders = {
            name: EncoderTasks(program, name, meshes[program.group_of(name)])
            for name in program.remote
        }
        self._head_layouts = named_shardings(meshes[0], program.head_specs)
        self.schedule = program.make_schedule(len(batch.rows[program.model.backbone].inputs))

    def __call__(self, params: Any, batch: Batch) -> GroupGradients:
        """Loss and gradients of a batch."""
        run = _StepRun(self, params, batch)
        for _, _, task in self.schedule:
            run.start(task)
        return run.results()


class _StepRun:
    """One step: what its tasks have left for others."""

    def __init__(self, tasks: MpmdGradients, params: Any, batch: Batch) -> None:
        self._program, self._batch = tasks._program, batch
        self._backbone, self._encoders = tasks._backbone, tasks._encoders
        self._trained, self._constant = self._program.frozen.partition(params)
        self._local = self._select(self._program.modules_of(0))
        self._factors = self._backbone.factors(batch)
        heads = self._program.pick_heads(params)
        self._heads = transfer_arrays(heads, tasks._head_layouts)
        self._total = self._backbone.zeros(self._local[0])
        self._totals = {
            task.module: task.zeros(self._select([task.module])[0])
            for task in self._encoders.values()
        }
        self._losses = list[jax.Array]()
        self._aux, self._by_heads = list[Aux](), list[Params]()
        self._saved: dict[int, SavedMicrobatch] = {}
        self._encoded: dict[tuple[str, int], SavedForward] = {}
        #: Outputs of encoders on the devices of the backbone, then their gradients on those of the
        #: encoders.
        self._outputs: dict[tuple[str, int], jax.Array] = {}
        self._read: dict[int, Outputs] = {}

    def start(self, task: Task) -> None:
        """Start the programs of a task of the schedule."""
        if task.kind is L:
            self._differentiate_step_losses()
        elif task.module == self._program.model.backbone:
            run = self._decode if task.kind is F else self._differentiate_backbone
            run(task.microbatch)
        elif task.kind is F:
            self._encode(task.module, task.microbatch)
        else:
            self._differentiate_encoder(task.module, task.microbatch)

    def _encode(self, bucket: str, microbatch: int) -> None:
        task = self._encoders[bucket]
        encoded, self._encoded[bucket, microbatch] = task.forward(
            *self._select([task.module]), self._batch, jnp.int32(microbatch)
        )
        self._outputs[bucket, microbatch] = transfer_arrays(encoded, self._backbone.layout)

    def _decode(self, microbatch: int) -> None:
        """The backbone on a microbatch, and its losses."""
        outputs = {name: self._outputs.pop((name, microbatch)) for name in self._encoders}
        loss, aux, self._read[microbatch], self._saved[microbatch] = self._backbone.forward(
            *self._local,
            self._batch,
            jnp.int32(microbatch),
            outputs,
            self._heads,
            self._factors,
        )
        self._losses.append(loss)
        self._aux.append(aux)

    def _differentiate_step_losses(self) -> None:
        """The losses of objectives that wait for all microbatches; their gradients by what they
        have read take its place."""
        loss, self._total, gradients = self._backbone.step_losses(
            *self._local, self._batch, self._factors, [*self._read.values()], self._total
        )
        self._losses.append(loss)
        self._read = dict(zip(self._read, gradients, strict=True))

    def _differentiate_backbone(self, microbatch: int) -> None:
        """Gradients of the backbone on a microbatch, with what its forward has left."""
        self._total, gradients, by_heads = self._backbone.backward(
            self._saved.pop(microbatch), self._read.pop(microbatch), self._total
        )
        self._by_heads.append(by_heads)
        for name, task in self._encoders.items():
            self._outputs[name, microbatch] = transfer_arrays(gradients[name], task.layout)

    def _differentiate_encoder(self, bucket: str, microbatch: int) -> None:
        """Gradients of an encoder on a microbatch, by those of its outputs."""
        task = self._encoders[bucket]
        by_outputs = self._outputs.pop((bucket, microbatch))
        saved = self._encoded.pop((bucket, microbatch))
        self._totals[task.module] = task.backward(saved, by_outputs, self._totals[task.module])

    def results(self) -> GroupGradients:
        """Sums over microbatches."""
        by_module = self._total | {
            n: t for total in self._totals.values() for n, t in total.items()
        }
        modules = [self._program.modules_of(n) for n in range(len(self._program.groups))]
        totals = [{n: by_module[n] for n in names if n in by_module} for names in modules]
        means = jax.tree.map(lambda x: x / self._factors.tokens, _sum_trees(self._aux))
        return GroupGradients(
            sum(self._losses[1:], self._losses[0]),
            means,
            totals,
            _sum_trees(self._by_heads),
            self._factors,
        )

    def _select(self, modules: Sequence[str]) -> tuple[Any, Any]:
        """Trained and constant parameters of modules."""
        trained, constant = (
            {name: tree[name] for name in modules if name in tree}
            for tree in (self._trained, self._constant)
        )
        return trained, constant


def _sum_trees(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: sum(leaves[1:], leaves[0]), *trees)
