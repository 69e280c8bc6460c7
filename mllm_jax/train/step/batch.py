"""Batches from the host to the devices."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec

from data.batch import PackedBatch
from mllm_jax.models.batch import ModuleRows
from mllm_jax.runtime.part import current_peers
from mllm_jax.train.step.gradient_program import Batch, PlacedSchedule, StageAssignment
from mllm_jax.train.step.host_groups import ALONE, HostGroupExchange
from mllm_jax.train.step.independent_microbatches import in_units
from mllm_jax.train.step.routes import Pair, lane_routes
from mllm_jax.train.step.step import TrainStep
from scheduling.executor.batch import StepBatch
from sharding.exchange import is_ragged
from sharding.mesh import sharded_shapes


class PlacedBatch(NamedTuple):
    """A batch on the devices.

    Attributes:
        batch: the batch.
        microbatches: how many independent microbatches each encoder runs; empty if none has any.
        spilled: as of `PlacedSchedule`.
    """

    batch: Batch
    microbatches: dict[str, int]
    spilled: str


def place(
    microbatches: Sequence[PackedBatch],
    step: TrainStep,
    following: Sequence[PackedBatch] | None = None,
    tables: PlacedSchedule | None = None,
    among: HostGroupExchange = ALONE,
) -> Batch:
    """The batch of `place_batch`."""
    return place_batch(microbatches, step, following, tables, among).batch


def place_batch(
    microbatches: Sequence[PackedBatch],
    step: TrainStep,
    following: Sequence[PackedBatch] | None = None,
    tables: PlacedSchedule | None = None,
    among: HostGroupExchange = ALONE,
) -> PlacedBatch:
    """Stack this process's rows of every microbatch into global arrays for `step`.

    The outputs that the step before carries on (`carried`) are left empty, see `TrainStep.primed`.

    Args:
        microbatches: packed batches with the rows of `local_rows` only; with `runs` and `places` of
            the whole batch if its encoder rows are dealt by themselves.
        following: microbatches of the next step, for a step that works ahead; by default the same.
        tables: schedule of this step; by default the one that follows its load, if the step does
            that, or else the one that the step was built with.
        among: how groups of processes tell each other of their media.
    """
    program = step.program
    next_microbatches = (microbatches if following is None else following)[: program.ahead]
    every = [*microbatches, *next_microbatches]
    views, view = program.views, program.grid.backbone
    rows = NamedSharding(step.mesh, PartitionSpec(view.batch_axes or None))
    local = len(every[0].decoder.inputs)
    total = _total_rows(rows, view.degree_of(view.batch_axes), local)
    ragged = is_ragged(step.mesh, view.position_axes)
    placed_tables, encoders, units = (
        tables or program.tables,
        dict[str, ModuleRows](),
        dict[str, int](),
    )
    if program.follow and tables is None:
        shared, here = local_rows(step, total), _rows_of_units(step, total)
        placed_tables, microbatches, encoders = in_units(
            program, program.follow, microbatches, shared, here, total, among
        )
        units = placed_tables.microbatches
    same = [(m, m) for m in range(len(microbatches))]
    pairs: dict[str, Sequence[Pair]] = dict.fromkeys(program.model.lanes, same)
    pairs |= placed_tables.pairs
    stacked = _stacked([_without(batch.rows, encoders) for batch in every]) | encoders
    sizes = _sizes(step, stacked, total)
    routes = lane_routes(microbatches, pairs, sizes, views, view, total, ragged, program.exchanges)
    counts = among.counts({name: lane.counts for name, lane in routes.items()})
    routes = {name: replace(lane, counts=counts[name]) for name, lane in routes.items()}
    shapes = {name: lane.shapes for name, lane in routes.items()}
    layout: Any = step.layouts(program.layout.specs(StepBatch(stacked, shapes)))
    batch = StepBatch(
        _placed(step, placed_tables.assignments, layout.rows, stacked),
        {name: lane.placed(layout.routes[name]) for name, lane in routes.items()},
        schedule=step.schedule
        if placed_tables.arrays is program.tables.arrays
        else step.placed_tables(placed_tables),
    )
    return PlacedBatch(batch, units, placed_tables.fallback_reason)


def _sizes(
    step: TrainStep, modules: Mapping[str, ModuleRows], rows: int
) -> dict[str, tuple[int, int]]:
    """By lane, rows of its microbatches, and outputs of a row.

    Args:
        modules: rows of all modules, or their shapes.
        rows: rows of the decoder's microbatches.
    """
    spread, model = _spread(step), step.program.model
    return {
        name: (
            rows * spread.get(name, 1),
            modules[name].segment_ids.shape[-1] // model.encoder(name).reduction,
        )
        for name in model.lanes
    }


def _spread(step: TrainStep) -> dict[str, int]:
    """Rows of encoders' own microbatches for each of the decoder's."""
    follow = step.program.follow
    return {name: room.spread for name, room in follow.capacities.items()} if follow else {}


def _without(rows: Mapping[str, ModuleRows], others: Collection[str]) -> dict[str, ModuleRows]:
    return {name: module_rows for name, module_rows in rows.items() if name not in others}


def _stacked(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def _placed(
    step: TrainStep,
    dealings: Mapping[str, StageAssignment],
    layouts: Mapping[str, ModuleRows],
    modules: Mapping[str, ModuleRows],
) -> dict[str, ModuleRows]:
    """The modules' rows on the devices; those of encoders that have stages dealt to these."""

    def placed(name: str) -> ModuleRows:
        put: Any = jax.make_array_from_process_local_data
        if name in dealings:
            put = partial(_deal, step, dealings[name])
        rows: ModuleRows = jax.tree.map(put, layouts[name], modules[name])
        return rows

    return {name: placed(name) for name in modules}


def abstract_batch(
    step: TrainStep, microbatch: PackedBatch, rows: int, microbatches: int, by_routes: bool
) -> Batch:
    """Shapes, types and layouts of a batch from `place`, with what the step before carries on.

    Args:
        microbatch: a packed batch with at least one row.
        rows: number of rows of a whole batch.
        microbatches: microbatches of a step.
        by_routes: whether microbatches list `runs`.
    """
    program = step.program
    every = microbatches + program.ahead
    slots = dict.fromkeys(microbatch.rows, every)
    slots |= {name: len(dealing.order) for name, dealing in program.tables.assignments.items()}
    rooms, spread = program.follow.capacities if program.follow else {}, _spread(step)

    def stacked(name: str, module_rows: ModuleRows) -> ModuleRows:
        share = Fraction(1)
        if name in rooms:
            share = Fraction(rooms[name].positions, module_rows.segment_ids.shape[1])

        def shape(x: Any) -> tuple[int, ...]:
            count, total = slots[name], rows * spread.get(name, 1)
            return count, total, int(x.shape[1] * share), *x.shape[2:]

        shapes: ModuleRows = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(shape(x), x.dtype), module_rows
        )
        return shapes

    batch: Batch = StepBatch(
        {name: stacked(name, module_rows) for name, module_rows in microbatch.rows.items()},
        schedule=jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), program.tables.arrays
        ),
    )
    if by_routes:
        nothing = dict.fromkeys(program.model.lanes, np.zeros((0, 5), np.int64))
        ragged = is_ragged(step.mesh, program.grid.backbone.position_axes)
        pairs: dict[str, Sequence[Pair]]
        pairs = {name: [None] * microbatches for name in program.model.lanes}
        pairs |= {
            name: [None] * len(module_rows) for name, module_rows in program.tables.pairs.items()
        }
        empty = [replace(microbatch, runs=nothing)]
        sizes = _sizes(step, batch.rows, rows)
        module_rows = program.views, program.grid.backbone
        routes = lane_routes(empty, pairs, sizes, *module_rows, rows, ragged, program.exchanges)
        batch = replace(
            batch, routes={name: module_rows.shapes for name, module_rows in routes.items()}
        )
    return step.abstract_primed(sharded_shapes(batch, step.mesh, program.layout.specs(batch)))


def _deal(
    step: TrainStep, dealing: StageAssignment, layout: NamedSharding, x: np.ndarray
) -> jax.Array:
    """Local rows `[microbatches, rows, ...]` in the order of the slots; empty slots hold zeros."""
    rows = NamedSharding(step.mesh, PartitionSpec(dealing.rows or None))
    total = _total_rows(rows, step.program.grid.backbone.degree_of(dealing.rows), x.shape[1])
    where = {row: i for i, row in enumerate(_addressable(rows, total))}

    def shard(index: tuple[slice, ...] | None) -> np.ndarray:
        assert index is not None  # every device holds a shard
        slots = dealing.order[index[0]]
        local = [where[row] for row in range(*index[1].indices(total))]
        part = x[np.maximum(slots, 0)][:, local]
        part[slots < 0] = 0
        return part

    shape = (len(dealing.order), total, *x.shape[2:])
    return jax.make_array_from_callback(shape, layout, shard)


def _total_rows(rows: NamedSharding, degree: int, local: int) -> int:
    """Rows of all processes, given the number that this one holds."""
    return local * degree // len(_addressable(rows, degree))


def local_rows(step: TrainStep, rows: int) -> dict[str, list[int]]:
    """Rows of a batch of `rows` rows that this process must read, by module."""
    return process_rows(step, rows)[jax.process_index()]


def process_rows(step: TrainStep, rows: int) -> list[dict[str, list[int]]]:
    """Rows of a batch of `rows` rows that every process must read, by module."""
    spread = _spread(step)
    return [
        {
            name: sorted({row // spread.get(name, 1) for row in rows_of_module})
            for name, rows_of_module in by_name.items()
        }
        for by_name in _held_rows(step, rows)
    ]


def _rows_of_units(step: TrainStep, rows: int) -> dict[str, list[int]]:
    """Rows of an encoder's own microbatches that lie on this process, by module."""
    rows_here = _held_rows(step, rows)[jax.process_index()]
    return {name: sorted(numbers) for name, numbers in rows_here.items()}


def _held_rows(step: TrainStep, rows: int) -> list[dict[str, set[int]]]:
    """Rows of microbatches on every process, by module; encoders may have more than `rows`."""
    axes = {name: view.batch_axes for name, view in step.program.grid.views.items()}
    axes |= {name: dealing.rows for name, dealing in step.program.tables.assignments.items()}
    by_process: list[dict[str, set[int]]] = [
        {name: set() for name in axes} for _ in range(jax.process_count())
    ]
    spread = _spread(step)
    for name, spread_axes in axes.items():
        layout = NamedSharding(step.mesh, PartitionSpec(spread_axes or None))
        count = rows * spread.get(name, 1)
        shares: Mapping[Any, Any] = layout.devices_indices_map((count,))
        for device, index in shares.items():
            by_process[device.process_index][name].update(range(*index[0].indices(count)))
    return by_process


def row_hosts(step: TrainStep, rows: int) -> dict[str, list[int]]:
    """Process that holds each row of a batch of `rows` rows, by module; the first of several."""
    hosts, spread = {}, _spread(step)
    for name, view in step.program.views.items():
        layout = NamedSharding(step.mesh, PartitionSpec(view.batch_axes or None))
        own, each = [step.mesh.devices.size] * rows, spread.get(name, 1)
        shares: Mapping[Any, Any] = layout.devices_indices_map((rows * each,))
        for device, index in shares.items():
            for row in range(*index[0].indices(rows * each)):
                own[row // each] = min(own[row // each], device.process_index)
        hosts[name] = own
    return hosts


def select_rows(batch: PackedBatch, rows: Mapping[str, Sequence[int]]) -> PackedBatch:
    """The rows of a whole batch that `rows` lists by module; its lists of all rows as they are."""

    def pick(tree: ModuleRows, chosen: Sequence[int]) -> ModuleRows:
        picked: ModuleRows = jax.tree.map(lambda leaf: leaf[list(chosen)], tree)
        return picked

    return replace(
        batch,
        rows={name: pick(module_rows, rows[name]) for name, module_rows in batch.rows.items()},
    )


def whole(array: jax.Array) -> np.ndarray:
    """The whole of a global array, on every process."""
    if array.is_fully_addressable:
        return np.asarray(array)
    with current_peers().watching_collective("an array is collected"):
        return np.asarray(multihost_utils.process_allgather(array, tiled=True))


def _addressable(sharding: NamedSharding, rows: int) -> list[int]:
    """Rows of an array of `rows` rows that this process's devices hold."""
    shares = sharding.addressable_devices_indices_map((rows,)).values()
    return sorted({row for share in shares if share for row in range(*share[0].indices(rows))})
