"""Batches from the host to the devices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from data.batch import PackedBatch
from mllm_jax.models.module_rows import ModuleRows
from mllm_jax.runtime.run_peers import current_peers
from mllm_jax.train.step.gradient_program import Batch, PlacedSchedule, StageAssignment
from mllm_jax.train.step.host_groups import SINGLE_GROUP, HostGroupExchange
from mllm_jax.train.step.independent_microbatches import place_independent_microbatches
from mllm_jax.train.step.routes import BucketRoutes, Pair, build_bucket_routes
from mllm_jax.train.step.step import Step
from scheduling.executor.step_batch import StepBatch
from sharding.exchange import is_ragged


class PlacedBatch(NamedTuple):
    """A batch on the devices.

    Attributes:
        batch: the batch.
        microbatches: how many independent microbatches each encoder runs; empty if none has any.
        fallback_reason: as of `PlacedSchedule`.
    """

    batch: Batch
    microbatches: dict[str, int]
    fallback_reason: str


def place_microbatches(
    microbatches: Sequence[PackedBatch],
    step: Step,
    following: Sequence[PackedBatch] | None = None,
    tables: PlacedSchedule | None = None,
    groups: HostGroupExchange = SINGLE_GROUP,
) -> Batch:
    """The batch of `place_batch`."""
    return place_batch(microbatches, step, following, tables, groups).batch


def place_batch(
    microbatches: Sequence[PackedBatch],
    step: Step,
    following: Sequence[PackedBatch] | None = None,
    tables: PlacedSchedule | None = None,
    groups: HostGroupExchange = SINGLE_GROUP,
) -> PlacedBatch:
    """Stack this process's rows of every microbatch into global arrays for `step`.

    The outputs that the step before carries on (`carried`) are left empty, see
    `TrainStep.prime_batch`.

    Args:
        microbatches: packed batches with the rows of `local_rows` only; with `runs` and `places` of
            the full batch if its rows of media are assigned by themselves.
        following: microbatches of the next step, for a step that prefetches outputs; by default the
            same.
        tables: schedule of this step; by default the one that is adapted to its load, if the step
            does that, or else the one that the step was built with.
        groups: how groups of processes tell each other of their media.
    """
    program = step.program
    next_microbatches = (microbatches if following is None else following)[
        : program.prefetched_microbatches
    ]
    every = [*microbatches, *next_microbatches]
    views, view = program.views, program.grid.backbone
    mesh = step.mesh_of(program.model.backbone)
    total = _count_rows(step, every[0])
    ragged = is_ragged(mesh, view.position_axes)
    placed_tables = tables or program.placed_schedule
    encoders, independent = dict[str, ModuleRows](), dict[str, int]()
    if program.adaptive_schedules and tables is None:
        shared, rows_here = local_rows(step, total), _independent_rows(step, total)
        placed_tables, microbatches, encoders = place_independent_microbatches(
            program, program.adaptive_schedules, microbatches, shared, rows_here, total, groups
        )
        independent = placed_tables.microbatches
    one_to_one = [(m, m) for m in range(len(microbatches))]
    pairs: dict[str, Sequence[Pair]] = dict.fromkeys(program.model.buckets, one_to_one)
    pairs |= placed_tables.pairs
    stacked = _stack_leaves([_without_modules(batch.rows, encoders) for batch in every]) | encoders
    sizes = _bucket_sizes(step, stacked, total)
    routes = _count_everywhere(
        build_bucket_routes(
            microbatches, pairs, sizes, views, view, total, ragged, program.exchanges
        ),
        groups,
    )
    shapes = {name: bucket_routes.shapes for name, bucket_routes in routes.items()}
    shardings: Any = step.batch_shardings(StepBatch(stacked, shapes))
    is_usual = placed_tables.arrays is program.placed_schedule.arrays
    batch = StepBatch(
        _place_rows(step, placed_tables.assignments, shardings.rows, stacked, total),
        {name: built.place_arrays(shardings.routes[name]) for name, built in routes.items()},
        schedule=step.schedule if is_usual else step.place_schedule(placed_tables),
    )
    return PlacedBatch(batch, independent, placed_tables.fallback_reason)


def _count_everywhere(
    routes: Mapping[str, BucketRoutes], groups: HostGroupExchange
) -> dict[str, BucketRoutes]:
    """The routes of this group's media with the numbers of outputs of all groups."""
    counts = groups.sum_counts({name: built.counts for name, built in routes.items()})
    return {name: replace(built, counts=counts[name]) for name, built in routes.items()}


def _bucket_sizes(
    step: Step, modules: Mapping[str, ModuleRows], rows: int
) -> dict[str, tuple[int, int]]:
    """By bucket, rows of its microbatches, and outputs of a row.

    Args:
        modules: rows of all modules, or their shapes.
        rows: rows of the decoder's microbatches.
    """
    rows_per_row, model = _rows_per_backbone_row(step), step.program.model
    return {
        name: (
            rows * rows_per_row.get(name, 1),
            modules[name].segment_ids.shape[-1] // model.reduction(name),
        )
        for name in model.buckets
    }


def _rows_per_backbone_row(step: Step) -> dict[str, int]:
    """Rows of independent microbatches for each row of the backbone's, by bucket."""
    follow = step.program.adaptive_schedules
    return {name: capacity.spread for name, capacity in follow.capacities.items()} if follow else {}


def _without_modules(
    rows: Mapping[str, ModuleRows], others: Collection[str]
) -> dict[str, ModuleRows]:
    return {name: module_rows for name, module_rows in rows.items() if name not in others}


def _stack_leaves(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def _place_rows(
    step: Step,
    assignments: Mapping[str, StageAssignment],
    shardings: Mapping[str, ModuleRows],
    modules: Mapping[str, ModuleRows],
    rows: int,
) -> dict[str, ModuleRows]:
    """The modules' rows on the devices; rows of encoders with stages lie on these.

    Args:
        rows: rows of the backbone's microbatches in all processes.
    """

    def place_rows(name: str) -> ModuleRows:
        put: Any = partial(_place_local_rows, rows)
        if name in assignments:
            put = partial(_place_by_slot, step, assignments[name])
        placed: ModuleRows = jax.tree.map(put, shardings[name], modules[name])
        return placed

    return {name: place_rows(name) for name in modules}


def _place_local_rows(rows: int, sharding: NamedSharding, x: np.ndarray) -> jax.Array:
    """Local rows `[microbatches, rows, ...]` as an array with the rows of all processes.

    Args:
        rows: number of all rows, where this process has none of the devices.
    """
    if sharding.addressable_devices:
        return jax.make_array_from_process_local_data(sharding, x)
    shape = (x.shape[0], rows, *x.shape[2:])
    return jax.make_array_from_single_device_arrays(shape, sharding, [], dtype=x.dtype)


def abstract_batch(
    step: Step, microbatch: PackedBatch, rows: int, microbatches: int, by_routes: bool
) -> Batch:
    """Shapes, types and shardings of a batch, with the outputs that the step before carries on.

    Args:
        microbatch: a packed batch with at least one row.
        rows: number of rows of a full batch.
        microbatches: microbatches of a step.
        by_routes: whether microbatches list `runs`.
    """
    program = step.program
    every = microbatches + program.prefetched_microbatches
    slots = dict.fromkeys(microbatch.rows, every)
    slots |= {
        name: len(assignment.order)
        for name, assignment in program.placed_schedule.assignments.items()
    }
    adaptive, spread = program.adaptive_schedules, _rows_per_backbone_row(step)
    capacities = adaptive.capacities if adaptive else {}

    def stacked(name: str, module_rows: ModuleRows) -> ModuleRows:
        fraction = Fraction(1)
        if name in capacities:
            fraction = Fraction(capacities[name].positions, module_rows.segment_ids.shape[1])

        def shape(x: Any) -> tuple[int, ...]:
            count, total = slots[name], rows * spread.get(name, 1)
            return count, total, int(x.shape[1] * fraction), *x.shape[2:]

        shapes: ModuleRows = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(shape(x), x.dtype), module_rows
        )
        return shapes

    batch: Batch = StepBatch(
        {name: stacked(name, module_rows) for name, module_rows in microbatch.rows.items()},
        schedule=jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), program.placed_schedule.arrays
        ),
    )
    if by_routes:
        batch = replace(batch, routes=_route_shapes(step, microbatch, batch, rows, microbatches))
    return step.abstract_primed_batch(
        jax.tree.map(
            lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
            batch,
            step.batch_shardings(batch),
        )
    )


def _route_shapes(
    step: Step, microbatch: PackedBatch, batch: Batch, rows: int, microbatches: int
) -> dict[str, Any]:
    """Shapes and types of the routes of a batch, by bucket.

    Args:
        batch: shapes of its rows; the others are as of `abstract_batch`.
    """
    program = step.program
    nothing = dict.fromkeys(program.model.buckets, np.zeros((0, 5), np.int64))
    pairs: dict[str, Sequence[Pair]]
    pairs = {name: [None] * microbatches for name in program.model.buckets}
    pairs |= {
        name: [None] * len(of_bucket) for name, of_bucket in program.placed_schedule.pairs.items()
    }
    view = program.grid.backbone
    routes = build_bucket_routes(
        [replace(microbatch, runs=nothing)],
        pairs,
        _bucket_sizes(step, batch.rows, rows),
        program.views,
        view,
        rows,
        is_ragged(step.mesh_of(program.model.backbone), view.position_axes),
        program.exchanges,
    )
    return {name: built.shapes for name, built in routes.items()}


def _place_by_slot(
    step: Step, assignment: StageAssignment, sharding: NamedSharding, x: np.ndarray
) -> jax.Array:
    """Local rows `[microbatches, rows, ...]` in the order of the slots; empty slots hold zeros."""
    mesh = step.mesh_of(step.program.model.backbone)
    rows = NamedSharding(mesh, PartitionSpec(assignment.rows or None))
    total = _total_rows(rows, step.program.grid.backbone.degree_of(assignment.rows), x.shape[1])
    where = {row: i for i, row in enumerate(_addressable_rows(rows, total))}

    def shard(index: tuple[slice, ...] | None) -> np.ndarray:
        assert index is not None  # every device holds a shard
        slots = assignment.order[index[0]]
        local = [where[row] for row in range(*index[1].indices(total))]
        part = x[np.maximum(slots, 0)][:, local]
        part[slots < 0] = 0
        return part

    shape = (len(assignment.order), total, *x.shape[2:])
    return jax.make_array_from_callback(shape, sharding, shard)


def _total_rows(rows: NamedSharding, degree: int, local: int) -> int:
    """Rows of all processes, given the number of rows of this one."""
    return local * degree // len(_addressable_rows(rows, degree))


def _count_rows(step: Step, batch: PackedBatch) -> int:
    """Rows of the backbone's microbatches in all processes.

    The rows of this process tell: the backbone's, or those of a module whose devices it has.
    """
    for name, view in step.program.grid.views.items():
        sharding = NamedSharding(step.mesh_of(name), PartitionSpec(view.batch_axes or None))
        if sharding.addressable_devices:
            local = len(batch.rows[name].segment_ids)
            return _total_rows(sharding, view.degree_of(view.batch_axes), local)
    raise ValueError(f"process {jax.process_index()} has no device of any module")


def local_rows(step: Step, rows: int) -> dict[str, list[int]]:
    """Rows of a batch of `rows` rows that this process must read, by module."""
    return process_rows(step, rows)[jax.process_index()]


def process_rows(step: Step, rows: int) -> list[dict[str, list[int]]]:
    """Rows of a batch of `rows` rows that every process must read, by module."""
    spread = _rows_per_backbone_row(step)
    return [
        {
            name: sorted({row // spread.get(name, 1) for row in rows_of_module})
            for name, rows_of_module in by_name.items()
        }
        for by_name in _rows_by_process(step, rows)
    ]


def _independent_rows(step: Step, rows: int) -> dict[str, list[int]]:
    """Rows of independent microbatches on this process, by module."""
    rows_here = _rows_by_process(step, rows)[jax.process_index()]
    return {name: sorted(numbers) for name, numbers in rows_here.items()}


def _rows_by_process(step: Step, rows: int) -> list[dict[str, set[int]]]:
    """Rows of microbatches on every process, by module; encoders may have more than `rows`."""
    axes = {name: view.batch_axes for name, view in step.program.grid.views.items()}
    axes |= {
        name: assignment.rows
        for name, assignment in step.program.placed_schedule.assignments.items()
    }
    by_process: list[dict[str, set[int]]] = [
        {name: set() for name in axes} for _ in range(jax.process_count())
    ]
    spread = _rows_per_backbone_row(step)
    for name, spread_axes in axes.items():
        sharding = NamedSharding(step.mesh_of(name), PartitionSpec(spread_axes or None))
        count = rows * spread.get(name, 1)
        indices: Mapping[Any, Any] = sharding.devices_indices_map((count,))
        for device, index in indices.items():
            by_process[device.process_index][name].update(range(*index[0].indices(count)))
    return by_process


def row_hosts(step: Step, rows: int) -> dict[str, list[int]]:
    """Process that holds each row of a batch of `rows` rows, by module; the first of several."""
    hosts, spread = {}, _rows_per_backbone_row(step)
    for name, view in step.program.row_views.items():
        sharding = NamedSharding(step.mesh_of(name), PartitionSpec(view.batch_axes or None))
        row_owners, rows_per_row = [jax.process_count()] * rows, spread.get(name, 1)
        indices: Mapping[Any, Any] = sharding.devices_indices_map((rows * rows_per_row,))
        for device, index in indices.items():
            for row in range(*index[0].indices(rows * rows_per_row)):
                row_owners[row // rows_per_row] = min(
                    row_owners[row // rows_per_row], device.process_index
                )
        hosts[name] = row_owners
    return hosts


def select_rows(batch: PackedBatch, rows: Mapping[str, Sequence[int]]) -> PackedBatch:
    """The rows of a full batch that `rows` lists by module; its lists of all rows as they are."""

    def pick(tree: ModuleRows, numbers: Sequence[int]) -> ModuleRows:
        picked: ModuleRows = jax.tree.map(lambda leaf: leaf[list(numbers)], tree)
        return picked

    return replace(
        batch,
        rows={name: pick(module_rows, rows[name]) for name, module_rows in batch.rows.items()},
    )


def gather_to_host(array: jax.Array) -> np.ndarray:
    """All of an array, on every process.

    All processes must ask for it, also those with none of its devices.
    """
    if jax.process_count() == 1:
        return np.asarray(array)
    assert isinstance(array.sharding, NamedSharding)
    mesh = array.sharding.mesh
    assert isinstance(mesh, Mesh)
    holders = {device.process_index for device in mesh.devices.flat}
    with current_peers().watching_collective("an array is collected"):
        if len(holders) < jax.process_count():
            return _send_to_all(array, mesh, min(holders))
        if array.is_fully_replicated:
            return np.asarray(array.addressable_data(0))
        return np.asarray(multihost_utils.process_allgather(array, tiled=True))


def _send_to_all(array: jax.Array, mesh: Mesh, source: int) -> np.ndarray:
    """All of an array on `mesh`, on every process, of which some have none of its devices.

    Args:
        source: number of a process that has some.
    """
    if mesh.local_devices and not array.is_fully_replicated:
        array = _replicate_on(mesh)(array)
    is_source = jax.process_index() == source
    local = (
        np.asarray(array.addressable_data(0)) if is_source else np.zeros(array.shape, array.dtype)
    )
    return np.asarray(multihost_utils.broadcast_one_to_all(local, is_source=is_source))


@cache
def _replicate_on(mesh: Mesh) -> Callable[[jax.Array], jax.Array]:
    """A program that gives all devices of a mesh all of an array."""
    return jax.jit(lambda x: x, out_shardings=NamedSharding(mesh, PartitionSpec()))


def _addressable_rows(sharding: NamedSharding, rows: int) -> list[int]:
    """Rows of an array of `rows` rows that this process's devices hold."""
    indices = sharding.addressable_devices_indices_map((rows,)).values()
    return sorted({row for index in indices if index for row in range(*index[0].indices(rows))})
