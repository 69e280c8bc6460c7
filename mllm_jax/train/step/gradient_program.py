"""Programs for the loss and gradients of a step: a protocol, and its implementations.

::

    batch, parameters  ->  gradients of this device  ->  sums over the replicas of each parameter
      `form`               `accumulate_gradients`        `GradientProgram.__call__`

`PlainProgram` runs microbatch by microbatch with all layers on every device, `PipelineProgram` a
schedule of stages. Another executor is another subclass: `TrainStep` asks for nothing but the
members of `GradientProgram`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from mllm_jax.config.pipeline_plan import StageLayers
from mllm_jax.models.freeze import FrozenParameters
from mllm_jax.models.model import Model
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module_rows import ModuleRows
from mllm_jax.models.streams import NO_STREAMS
from mllm_jax.train.state.loads import on_loads
from mllm_jax.train.state.parameter_layout import ParameterLayout
from mllm_jax.train.step.routes import Pair, route_specs
from scheduling.executor.step_batch import StepBatch
from scheduling.lowering.instructions import InstructionTable
from scheduling.schedules.schedule import Schedule
from scheduling.schedules.tasks import Consumers
from sharding.collectives import psum
from sharding.exchange_kinds import DEFAULT_EXCHANGES, Exchanges
from sharding.grid import Axes, JointGrid, MeshView, Views
from sharding.layerstack.spec import Aux

#: A batch of the framework's modules.
Batch = StepBatch[ModuleRows]


@dataclass(frozen=True)
class StageAssignment:
    """Microbatches of an encoder on the stages that encode them.

    Attributes:
        order: `[pipelines * slots]`, the microbatch in every slot or -1; from the number of
            microbatches on it is one of the next step.
        pipelines: grid axes that number the encoder's pipelines.
        rows: grid axes over which the rows of a microbatch are split.
    """

    order: np.ndarray
    pipelines: Axes
    rows: Axes

    @property
    def spec(self) -> PartitionSpec:
        """Layout of an array `[pipelines * slots, rows, ...]`."""
        return PartitionSpec(self.pipelines or None, self.rows or None)


@dataclass(frozen=True)
class PlacedSchedule:
    """The schedule of a step, which is part of its batch.

    Attributes:
        arrays: what the executor reads; None without stages.
        assignments: how microbatches lie on stages, of the encoders of which they do.
        pairs: of these encoders, the pair of an encoder and a decoder microbatch in every slot of
            the pipelines, `[pipelines * pairs]`.
        fallback_reason: why these are the tables of the full load, as no schedule of the step fits
            what is compiled; empty if one does.
    """

    arrays: InstructionTable | None = None
    assignments: Mapping[str, StageAssignment] = field(default_factory=dict)
    pairs: Mapping[str, Sequence[Pair]] = field(default_factory=dict)
    fallback_reason: str = ""

    @property
    def microbatches(self) -> dict[str, int]:
        """Microbatches of these encoders that the step runs."""
        return {
            name: int((assignment.order >= 0).sum())
            for name, assignment in self.assignments.items()
        }


@dataclass(frozen=True)
class BatchLayout:
    """How the arrays of a step's batch lie.

    Attributes:
        rows: specs of rows `[microbatches, rows, ...]`, by module.
        target: view of the module that outputs are merged into.
        carried: specs of outputs that are carried on to the next step, by encoder.
        schedule: specs of the schedule; None without stages.
    """

    rows: Mapping[str, PartitionSpec]
    target: MeshView
    carried: Mapping[str, PartitionSpec]
    schedule: InstructionTable | None

    def specs(self, batch: Batch) -> Batch:
        """Layouts of the arrays that a batch has."""

        def rows(name: str, module_rows: ModuleRows) -> ModuleRows:
            specs: ModuleRows = jax.tree.map(lambda _: self.rows[name], module_rows)
            return specs

        return StepBatch(
            {name: rows(name, module_rows) for name, module_rows in batch.rows.items()},
            {
                name: route_specs(self.target, self.rows[name][0], routes)
                for name, routes in batch.routes.items()
            },
            {name: self.carried[name] for name in batch.carried},
            None if batch.schedule is None else self.schedule,
            dict.fromkeys(batch.encoded, microbatches_spec(self.target)),
        )


@dataclass(frozen=True)
class RowCapacity:
    """Capacity of an encoder's independent microbatches.

    Attributes:
        positions: input positions of a row.
        each: how many of them hold all that a decoder microbatch can bring.
        spread: number of their rows for each row of a decoder microbatch.
    """

    positions: int
    each: int
    spread: int = 1


@dataclass(frozen=True)
class AdaptiveSchedules:
    """How the schedules of steps are adapted to their loads.

    Attributes:
        find_schedule: from the consumers of independent microbatches, by encoder, to the schedule
            of the step; or what does not fit the compiled step, if no schedule does.
        capacities: the capacity of these microbatches, by encoder.
    """

    find_schedule: Callable[[Mapping[str, Consumers]], PlacedSchedule | str]
    capacities: Mapping[str, RowCapacity]


class Gradients(NamedTuple):
    """The results of a program for a batch.

    Attributes:
        loss: divided by the weight of the batch, and with auxiliary losses; the same on every
            rank.
        gradients: float32, of the parameters that are not frozen; shards that lie as they do. In
            the place of the gradient of a parameter that follows the load of experts is that load:
            the fraction of the step's tokens that each expert got.
        carried: outputs carried on to the next step, by encoder.
        aux: sums of auxiliary losses over layers and microbatches, from `accumulate_gradients`;
            from the program their means over the tokens, without their weights in the loss.
    """

    loss: jax.Array
    gradients: Any
    carried: dict[str, jax.Array]
    aux: Aux


def with_aux(loss: jax.Array, sums: Aux, factors: Aux) -> jax.Array:
    """`loss` with auxiliary losses, each times its factor."""
    return sum((factors[name] * value for name, value in sums.items()), loss)


class StepProgram:
    """What a step's program knows of its model, its batch and its parameters.

    Args:
        model: resolved model configuration.
        grid: joint grid of the plans.
        frozen: parameters without gradients.
        stack: how the decoder's layers are grouped; None if they are stacked as in the model.
        exchanges: by bucket, the exchange of its outputs.
        streams: as of `Model`.

    Attributes:
        form: how parameters are stored.
    """

    def __init__(
        self,
        model: ModelConfig,
        grid: JointGrid,
        frozen: FrozenParameters,
        stack: StageLayers | None = None,
        exchanges: Exchanges = DEFAULT_EXCHANGES,
        streams: Mapping[str, int] = NO_STREAMS,
    ) -> None:
        self.model, self.grid, self.frozen = model, grid, frozen
        self.exchanges, self.streams = exchanges, streams
        self.form = ParameterLayout(model, grid, stack)

    def __str__(self) -> str:
        """The joint grid of the plans."""
        return str(self.grid)

    def count_targets(self, batch: Batch) -> jax.Array:
        """Tokens of the step, or samples, that have a loss."""
        names = self.model.graph.objectives
        first, *others = (jnp.count_nonzero(self._loss_weights(batch, n)) for n in names)
        return psum(sum(others, first), self.grid.backbone.batch_axes)

    @cached_property
    def trained_shardings(self) -> Any:
        """Tree of `ParameterSharding` of the parameters that have gradients."""
        return self.frozen.partition(self.form.shardings)[0]

    @property
    def views(self) -> Views:
        """Views of the modules under which outputs are merged into the backbone's rows."""
        return self.grid.views

    @property
    def row_views(self) -> Views:
        """Views of the modules by which rows lie on devices; stages share those of a microbatch."""
        return self.views

    @cached_property
    def sharded_model(self) -> Model:
        """The model's modules under these views."""
        return Model(self.model, self.views, self.frozen, self.exchanges, self.streams)

    @property
    def schedule(self) -> Schedule | None:
        """The table of tasks that runs, of programs that have one."""
        return None

    @property
    def placed_schedule(self) -> PlacedSchedule:
        """The schedule of every step that is not adapted to its load."""
        return PlacedSchedule()

    @property
    def schedule_specs(self) -> InstructionTable | None:
        """Layouts of `PlacedSchedule.arrays`."""
        return None

    @property
    def adaptive_schedules(self) -> AdaptiveSchedules | None:
        """Finds the schedule of each step, if encoders have independent microbatches."""
        return None

    @property
    def prefetched_microbatches(self) -> int:
        """Microbatches of the next step whose outputs this one prefetches."""
        return 0

    @property
    def carried_specs(self) -> dict[str, PartitionSpec]:
        """Layouts of the outputs that are carried on to the next step, by encoder."""
        return {}

    # ---- batches ---------------------------------------------------------------------------------

    @cached_property
    def batch_layout(self) -> BatchLayout:
        """How the arrays of a batch lie: rows over each module's batch axes."""
        rows = {name: batch_spec(view) for name, view in self.grid.views.items()}
        rows |= {
            name: assignment.spec for name, assignment in self.placed_schedule.assignments.items()
        }
        return BatchLayout(rows, self.grid.backbone, self.carried_specs, self.schedule_specs)

    def _loss_weights(self, batch: Batch, objective: str) -> jax.Array:
        """Weights of the targets of this step, without those of microbatches of the next."""
        return self._without_next_step(batch.rows[self.model.backbone].targets[objective].weights)

    def _without_next_step(self, microbatches: jax.Array) -> jax.Array:
        """The microbatches of this step, without those of the next."""
        return microbatches[: len(microbatches) - self.prefetched_microbatches]

    def loss_factors(
        self, batch: Batch, tokens: jax.Array
    ) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        """What the sums of losses are divided by, and what those of auxiliary losses are multiplied
        by, each by name.

        Args:
            tokens: from `count_tokens`.
        """
        factors = self.model.backbone_config.aux.items()
        divisors = {name: self._loss_divisor(batch, name) for name in self.model.graph.objectives}
        return divisors, {name: factor / tokens for name, factor in factors}

    def _loss_divisor(self, batch: Batch, objective: str) -> jax.Array:
        """Divisor of the losses of an objective, so that its weight in the loss is its factor."""
        weights = self._loss_weights(batch, objective)
        weight = psum(jnp.sum(weights), self.grid.backbone.batch_axes)
        # All samples may turn out bad when they are read: then nothing is learnt, and not 0 / 0.
        weight = jnp.where(weight > 0, weight, 1)
        factor = self.model.graph.objectives[objective].weight
        return weight if factor == 1 else weight / factor

    def count_tokens(self, batch: Batch) -> jax.Array:
        """Number of tokens of the step, of which auxiliary losses and loads are means.

        Padding does not count; one if there is nothing else.
        """
        ids = self._without_next_step(batch.rows[self.model.backbone].segment_ids)
        tokens = psum(jnp.count_nonzero(ids), self.grid.backbone.batch_axes)
        return jnp.maximum(tokens, 1).astype(jnp.float32)


class GradientProgram(StepProgram, ABC):
    """Loss and gradients of a step, on local shards inside the `shard_map` of `TrainStep`."""

    def __call__(self, params: Any, batch: Batch) -> Gradients:
        """Loss and gradients of a batch, summed over its microbatches and over replicas.

        Args:
            params: local shards, as `form` stores them.
            batch: local rows of a batch from `train.step.batch_placement.place_batch`.

        Raises:
            ValueError: `batch.carried` lacks outputs of the step before.
        """
        tokens = self.count_tokens(batch)
        results = self._divided_gradients(params, batch, tokens)
        with jax.named_scope("sum_over_replicas"):
            summed = jax.tree.map(
                lambda g, sharding: psum(g, sharding.replicated),
                results.gradients,
                self.trained_shardings,
            )
        means = {name: value / tokens for name, value in results.aux.items()}
        return results._replace(gradients=on_loads(lambda load: load / tokens, summed), aux=means)

    def local_gradients(self, params: Any, batch: Batch) -> Gradients:
        """The loss, and this device's part of the gradients, see `accumulate_gradients`.

        Args:
            params, batch: as in `__call__`.

        Raises:
            ValueError: as of `__call__`.
        """
        return self._divided_gradients(params, batch, self.count_tokens(batch))

    def _divided_gradients(self, params: Any, batch: Batch, tokens: jax.Array) -> Gradients:
        self._check_carried(batch.carried)
        return self.accumulate_gradients(params, batch, *self.loss_factors(batch, tokens))

    @abstractmethod
    def accumulate_gradients(
        self,
        params: Any,
        batch: Batch,
        divisors: Mapping[str, jax.Array],
        aux_factors: Mapping[str, jax.Array],
    ) -> Gradients:
        """The loss, and this device's part of the gradients.

        Every device differentiates a copy of the parameters that is marked as varying over all axes
        (`vary`): sums over replicas are taken once, after the last microbatch, and not inside the
        loops over layers and microbatches.

        Args:
            params, batch: as in `__call__`.
            divisors: by objective, the divisor of its summed losses; of the batch.
            aux_factors: factors by which the sums of auxiliary losses are multiplied.
        """

    def prefetch_outputs(self, params: Any, batch: Batch) -> dict[str, jax.Array]:
        """Outputs that a step with this `batch` carries on to the next, as `carried_specs` says."""
        del params, batch
        return {}

    def _check_carried(self, carried: Mapping[str, Any]) -> None:
        if carried.keys() != self.carried_specs.keys():
            raise ValueError(
                f"carried: {sorted(carried)} is refused; valid: {sorted(self.carried_specs)}, see "
                "TrainStep.prime_batch"
            )


def first_microbatch(batch: Batch) -> tuple[Any, Any, Any]:
    """Rows, routes and encoded outputs of the one microbatch of a forward pass."""
    arrays = batch.rows, batch.routes, batch.encoded
    first: tuple[Any, Any, Any] = jax.tree.map(lambda leaf: leaf[0], arrays)
    return first


def microbatches_spec(view: MeshView) -> PartitionSpec:
    """Layout of an array `[microbatches, rows, positions, ...]` of the module with `view`."""
    return PartitionSpec(None, view.batch_axes or None, view.sequence_axes or None)


def batch_spec(view: MeshView) -> PartitionSpec:
    """Layout of one array `[microbatches, rows, ...]` of the module with `view`."""
    return PartitionSpec(None, view.batch_axes or None)
