"""The gradient program of a decoder with stages: modules handed to the executor of a schedule.

::

    gather parameters (fsdp)  ->  prologue, ticks, epilogue  ->  scatter gradients
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec

from mllm_jax.config.pipeline_plan import PipelinePlan
from mllm_jax.models import module as multimodal
from mllm_jax.models.freeze import FrozenParameters
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.train.step.gradient_program import (
    AdaptiveSchedules,
    Batch,
    GradientProgram,
    Gradients,
    PlacedSchedule,
    RowCapacity,
    StageAssignment,
    with_aux,
)
from mllm_jax.train.step.routes import Pair
from scheduling.executor.pipeline import Pipeline
from scheduling.lowering.bounds import ScheduleBounds
from scheduling.lowering.check import check_lowered
from scheduling.lowering.instructions import InstructionTable
from scheduling.lowering.lower import lower_schedule
from scheduling.lowering.lowered import FusedKind, LoweredFeed, LoweredModule, LoweredSchedule
from scheduling.schedules.schedule import Schedule
from scheduling.schedules.tasks import Consumers
from scheduling.search.scheduler import StepScheduler
from sharding.axes import stored_dimension
from sharding.collectives import axis_index, psum, reduce_scatter, vary
from sharding.exchange_kinds import DEFAULT_EXCHANGES, Exchanges
from sharding.grid import JointGrid, MeshView, Views
from sharding.layerstack.partition import select_like
from sharding.rules import ParameterSharding, gather_parameters
from sharding.shared_parameters import module_views
from sharding.stages import StageViews

#: Number of schedules that are cached for later steps of the same load.
CACHED_SCHEDULES = 64


class PipelineProgram(GradientProgram):
    """The program of a decoder with stages.

    Args:
        model: configuration of the model; its `remat` and `remats` are the pipeline's policies.
        grid: joint grid of the plans.
        frozen: parameters without gradients.
        plan: schedule and stacks of layers.
        exchanges: as of `GradientProgram`.

    Attributes:
        full_load_schedule: the schedule of all steps that are not adapted to their load.
        bounds: what is compiled of the schedules that it can run.
    """

    def __init__(
        self,
        model: ModelConfig,
        grid: JointGrid,
        frozen: FrozenParameters,
        plan: PipelinePlan,
        exchanges: Exchanges = DEFAULT_EXCHANGES,
    ) -> None:
        self.plan, self.stack = plan, plan.stage_layers(model)
        super().__init__(model, grid, frozen, self.stack, exchanges)
        self.full_load_schedule: LoweredSchedule = self._lower_schedule(plan.schedule)
        check_lowered(self.full_load_schedule)
        self.bounds = plan.bounds or self._schedule_bounds()
        self._schedules: dict[Any, PlacedSchedule | str] = {}
        self._inside = StageViews.build(grid, plan.gather)

    def _lower_schedule(self, schedule: Schedule) -> LoweredSchedule:
        named = schedule.with_name(self.model.backbone)
        return lower_schedule(named, self.model.remat, self.model.remats)

    def _schedule_bounds(self) -> ScheduleBounds:
        """Bounds of the full load, and with independent microbatches of all that fits its slots."""
        independent = self.plan.independent_microbatches is not None
        make = (
            ScheduleBounds.for_independent_microbatches
            if independent
            else ScheduleBounds.of_schedule
        )
        return make(self.full_load_schedule, single_tasks=self.plan.single_tasks)

    @property
    def adaptive_schedules(self) -> AdaptiveSchedules | None:
        """See `GradientProgram.adaptive_schedules`."""
        scheduler = self.plan.independent_microbatches
        if scheduler is None:
            return None
        capacities = {
            feed.source: RowCapacity(
                scheduler.positions[feed.source],
                feed.per_target,
                scheduler.spread.get(feed.source, 1),
            )
            for feed in self.schedule.feeds
        }
        return AdaptiveSchedules(partial(self._find_schedule, scheduler), capacities)

    def _find_schedule(
        self, scheduler: StepScheduler, consumers: Mapping[str, Consumers]
    ) -> PlacedSchedule | str:
        """The schedule of a step whose encoder microbatches have these consumers.

        It is the first under the scheduler's placement limits that fits what is compiled; if none
        does, what of the last one does not fit.
        """
        key = tuple(consumers.items())
        if key not in self._schedules:
            while len(self._schedules) >= CACHED_SCHEDULES:
                del self._schedules[next(iter(self._schedules))]
            self._schedules[key] = self._place_fitting_schedule(scheduler, consumers)
        return self._schedules[key]

    def _place_fitting_schedule(
        self, scheduler: StepScheduler, consumers: Mapping[str, Consumers]
    ) -> PlacedSchedule | str:
        for name, targets in consumers.items():
            most = self.schedule.microbatches_of(name)
            if len(targets) > most:
                return f"{name}: {len(targets)} microbatches do not fit; valid: at most {most}"
        excess: str | None = None
        for limits in scheduler.placement_limits():
            lowered = self._lower_schedule(scheduler(consumers, limits))
            if self.plan.checked:
                check_lowered(lowered)
            excess = self.bounds.find_excess(lowered)
            if excess is None:
                return self.place_schedule(lowered)
        return excess or "the scheduler has no limits to place a step under"

    def with_plan(self, **changes: Any) -> PipelineProgram:
        """The same program with other values in its `PipelinePlan`."""
        plan = replace(self.plan, **changes)
        return PipelineProgram(self.model, self.grid, self.frozen, plan, self.exchanges)

    @property
    def views(self) -> Views:
        """Views inside a stage."""
        return self._inside.views

    @property
    def schedule(self) -> Schedule:
        """The table of tasks."""
        return self.plan.schedule

    @property
    def prefetched_microbatches(self) -> int:
        """The largest number of all encoders; additional microbatches of others are not encoded."""
        return max((module.prefetch for module in self.schedule.sources), default=0)

    def accumulate_gradients(
        self,
        params: Any,
        batch: Batch,
        divisors: Mapping[str, jax.Array],
        aux_factors: Mapping[str, jax.Array],
    ) -> Gradients:
        """Outputs as this device's stage makes them."""
        with jax.named_scope("gather_parameters"):
            gathered = self._copy_gathered(params)
        losses, sums, grads, carried = self._pipeline.loss_and_gradients(
            self._flatten_chunks(gathered), batch, divisors, aux_factors, batch.carried
        )
        if not self.plan.overlap_gather:
            grads = lax.optimization_barrier(grads)
        view = self.grid.backbone
        sums = psum(sums, view.all_axes)
        objectives = self.sharded_model.objectives
        summed = [psum(loss, objectives[name].summed_axes(view)) for name, loss in losses.items()]
        loss = with_aux(sum(summed[1:], summed[0]), sums, aux_factors)
        with jax.named_scope("scatter_gradients"):
            return Gradients(loss, self._scatter_gradients(grads, gathered), carried, sums)

    def prefetch_outputs(self, params: Any, batch: Batch) -> dict[str, jax.Array]:
        """See `Pipeline.prefetch_outputs`; `params` are as the step stores them."""
        prefetch_schedule = self.full_load_schedule.prefetch_only
        bounds = ScheduleBounds.of_schedule(prefetch_schedule)
        schedule = jax.tree.map(jnp.asarray, bounds.make_instructions(prefetch_schedule))
        of_stage = partial(lax.dynamic_index_in_dim, index=axis_index(self.grid.backbone.stage))
        by_stage, merges = jax.tree.map(of_stage, (schedule.by_stage, schedule.merges))
        schedule = replace(schedule, by_stage=by_stage, merges=merges)
        pipeline = replace(self._pipeline, bounds=bounds)
        return pipeline.prefetch_outputs(
            self._flatten_chunks(self._copy_gathered(params)), batch.with_schedule(schedule)
        )

    @cached_property
    def carried_specs(self) -> dict[str, PartitionSpec]:
        """Layouts of outputs for the next step, `[stages * slots, rows, outputs, d_decoder]`."""
        stage = self.grid.backbone.stage or None
        views = {
            name: self.views[name] for name, module in self.bounds.modules.items() if module.carried
        }
        return {
            name: PartitionSpec(stage, view.batch_axes or None, view.sequence_axes or None)
            for name, view in views.items()
        }

    def profile_task(
        self, params: Any, batch: Batch, kind: FusedKind, chunk: int, together: bool, ticks: int
    ) -> jax.Array:
        """See `Pipeline.profile_task`; `params` are in the form in which the step stores them."""
        gathered = self._flatten_chunks(self._copy_gathered(params))
        return self._pipeline.profile_task(gathered, batch, kind, chunk, together, ticks)

    @cached_property
    def placed_schedule(self) -> PlacedSchedule:
        """Those of `full_load_schedule`."""
        return self.place_schedule(self.full_load_schedule)

    def place_schedule(self, lowered: LoweredSchedule) -> PlacedSchedule:
        """The schedule of a step as its batch carries it.

        Raises:
            ScheduleError: the schedule does not fit `bounds`.
        """
        assignments = {
            name: self._assign_stages(name, module) for name, module in lowered.sources.items()
        }
        pairs = {feed.feed.source: self._microbatch_pairs(feed) for feed in lowered.feeds}
        return PlacedSchedule(self.bounds.make_instructions(lowered), assignments, pairs)

    @property
    def schedule_specs(self) -> InstructionTable:
        """See `GradientProgram.schedule_specs`."""
        by_stage: Any = PartitionSpec(self.grid.backbone.stage or None)
        shared: Any = PartitionSpec()
        assert self.placed_schedule.arrays is not None  # a pipeline has a schedule
        pairs = jax.tree.map(lambda _: by_stage, self.placed_schedule.arrays.merges)
        return InstructionTable(by_stage, shared, shared, pairs)

    def _assign_stages(self, name: str, module: LoweredModule) -> StageAssignment:
        """The assignment of a source's microbatches to stages."""
        pipelines, slots = self._inside.pipelines[name], self.bounds.modules[name].slots
        order = np.full((self.grid.backbone.degree_of(pipelines), slots), -1)
        for number, (owner, local) in enumerate(zip(module.owners, module.local, strict=True)):
            prefetched = number < module.stages.prefetch
            order[owner, local] = number + prefetched * self.plan.schedule.microbatches
        return StageAssignment(order.ravel(), pipelines, self.views[name].batch_axes)

    def _microbatch_pairs(self, feed: LoweredFeed) -> list[Pair]:
        """The pairs of microbatches on the last stage of every pipeline of a feed's source."""
        source, merges = feed.feed.source, feed.merges
        most, module = self.bounds.feed_of(source).merges, self.schedule.module_named(source)
        first = module.stage_of(module.chunks - 1)
        pairs: list[Pair] = []
        for stage in range(first, self.bounds.stages, module.stages):
            tables = (column[stage].tolist() for column in (merges.source, merges.target))
            column = [pair if pair[0] >= 0 else None for pair in zip(*tables, strict=True)]
            pairs += column + [None] * (most - len(column))
        return pairs

    @cached_property
    def _pipeline(self) -> Pipeline:
        backbone = self.model.backbone
        layers = {backbone: self.stack.per_chunk}
        for module in self.schedule.sources:
            layers[module.name] = self.model.encoder(module.name).layers // module.chunks
        return Pipeline(
            self.bounds,
            {backbone: self.sharded_model.backbone, **self.sharded_model.others},
            self.sharded_model.merges,
            self.sharded_model.losses_by_name,
            self.grid.backbone.stage,
            self.grid.backbone.all_axes,
            layers,
            {backbone: self._layer_exists} if self.stack.stored_layers > self.stack.layers else {},
            self.plan.co_issue,
            self.plan.observe,
        )

    def _layer_exists(self, index: jax.Array) -> jax.Array:
        """Whether layer `index` of this stage's stack is one of the model and not padding."""
        per_chunk, stages = self.stack.per_chunk, self.stack.stages
        chunk, layer = index // per_chunk, index % per_chunk
        run = chunk * stages + axis_index(self.grid.backbone.stage)
        return run * per_chunk + layer < self.stack.layers

    def _copy_gathered(self, params: Any) -> Any:
        """This device's copy of the parameters, gathered if they are gathered once a step."""
        return vary(self._gather_parameters(params), self.grid.backbone.all_axes)

    def _gather_parameters(self, params: Any) -> Any:
        if self.plan.gather == "layer":
            return params
        dtype = multimodal.compute_dtype(self.model)
        backbone = self.model.backbone
        views = {backbone: self.grid.backbone, **module_views(self.grid, self.model.buckets)}
        gathered = {
            name: _gather_module(tree, self.form.shardings[name], views[name], dtype)
            for name, tree in params.items()
        }
        return gathered if self.plan.overlap_gather else lax.optimization_barrier(gathered)

    def _flatten_chunks(self, params: Any) -> Any:
        """The backbone's layers without the dimension of chunks."""
        backbone = params[self.model.backbone]
        layers = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), backbone["layers"])
        return params | {self.model.backbone: backbone | {"layers": layers}}

    def _scatter_gradients(self, grads: Any, gathered: Any) -> Any:
        """Shards with the shardings and types of the parameters."""

        def leaf(g: jax.Array, p: jax.Array, sharding: ParameterSharding) -> jax.Array:
            g = g.reshape(p.shape)
            dim = stored_dimension(sharding.axes, "gathered")
            if self.plan.gather == "layer" or dim is None:
                return g
            return reduce_scatter(g, sharding.mesh_axes[dim], dim)

        trees = (select_like(tree, self.trained_shardings) for tree in (grads, gathered))
        return jax.tree.map(leaf, *trees, self.trained_shardings)


def _gather_module(params: Any, shardings: Any, view: MeshView, dtype: jnp.dtype) -> Any:
    """Parameters gathered along fsdp; those of layers are sent in `dtype`, that of their products.

    Gradients of all else, such as embeddings, are added up in the type of the parameter.
    """
    axes = jax.tree.map(lambda leaf: leaf.axes, shardings)
    return {
        name: gather_parameters(tree, axes[name], view, dtype if name == "layers" else None)
        for name, tree in params.items()
    }
