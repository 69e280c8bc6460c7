"""Independent microbatches of encoders: where the media of a step lie, and their schedule.

All of it follows from the lengths of the step, which every process knows, so that all
processes place the same tasks. Where groups of processes balance by themselves, each knows the
lengths of its group; the groups then exchange which microbatches their media feed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from data.batch import ModuleRows, PackedBatch
from data.planning.independent_microbatches import (
    IndependentMicrobatches,
    Ints,
    plan_independent_microbatches,
    rows_of_independent_microbatches,
)
from data.rows.pack import entries_of_row
from mllm_jax.config.inputs import media_specs
from mllm_jax.train.step.gradient_program import (
    AdaptiveSchedules,
    PlacedSchedule,
    RowCapacity,
    StepProgram,
)
from mllm_jax.train.step.host_groups import SINGLE_GROUP, HostGroupExchange

logger = logging.getLogger(__name__)

_warned: set[str] = set()


def place_independent_microbatches(
    program: StepProgram,
    adaptive: AdaptiveSchedules,
    microbatches: Sequence[PackedBatch],
    rows: Mapping[str, Sequence[int]],
    here: Mapping[str, Sequence[int]],
    total: int,
    groups: HostGroupExchange = SINGLE_GROUP,
) -> tuple[PlacedSchedule, Sequence[PackedBatch], dict[str, ModuleRows]]:
    """The step with its encoders' media in independent microbatches.

    Each of their rows is filled by itself. If no schedule of them fits what is compiled, the rows
    of a group advance together (`data.planning.independent_microbatches`), so that a microbatch
    feeds fewer microbatches of the decoder. If none fits then, the step has the schedule of the
    full load, and no two decoder microbatches share an encoder microbatch
    (`PlacedSchedule.fallback_reason`).

    Args:
        program: the program of the step.
        adaptive: its `adaptive_schedules`.
        microbatches: packed batches of the rows that are here.
        rows: these rows by module.
        here: by module, the rows of independent microbatches that are here.
        total: number of rows of a full microbatch.
        groups: how groups of processes exchange what they know of their media.

    Returns:
        The schedule of the step; the microbatches, whose `runs` name independent microbatches; and
        the encoders' rows, `[independent microbatches, rows, ...]`.
    """
    specs = {media_spec.name: media_spec for media_spec in media_specs(program.model)}
    entries = {
        name: entries_of_row(spec, microbatches[0].rows[name]) for name, spec in specs.items()
    }
    tables, plans = _plan_schedule(program, adaptive, microbatches, total, groups, entries)
    encoders = {
        name: rows_of_independent_microbatches(
            plans[name],
            [batch.rows[name] for batch in microbatches],
            rows[name],
            here[name],
            spec,
            adaptive.capacities[name].positions,
        )
        for name, spec in specs.items()
    }
    moved = [
        replace(
            batch,
            runs={
                name: plans[name].move_runs(m, runs, specs[name].reduction)
                for name, runs in (batch.runs or {}).items()
            },
        )
        for m, batch in enumerate(microbatches)
    ]
    return tables, moved, encoders


def _plan_schedule(
    program: StepProgram,
    adaptive: AdaptiveSchedules,
    microbatches: Sequence[PackedBatch],
    total: int,
    groups: HostGroupExchange,
    entries: Mapping[str, Sequence[int]],
) -> tuple[PlacedSchedule, dict[str, IndependentMicrobatches]]:
    """The schedule of the step, and by bucket the microbatches of its media.

    Args:
        entries: by bucket, entries of a row on each further axis of its media.
    """

    def plan_buckets(**options: bool) -> dict[str, IndependentMicrobatches]:
        media = {name: _media_places(microbatches, name) for name in adaptive.capacities}
        return {
            name: _plan_bucket(media[name], room, total, entries[name], **options)
            for name, room in adaptive.capacities.items()
        }

    excess = ""
    for together in (False, True):
        plans = plan_buckets(together=together)
        consumers = groups.gather_consumers({name: plan.feeds for name, plan in plans.items()})
        tables = adaptive.find_schedule(consumers)
        if isinstance(tables, str):
            excess = tables
        else:
            if together:
                _warn_once(
                    "the media of a step fill the encoders' rows so unevenly that no schedule fits "
                    "what is compiled; its rows go on together, in a few more microbatches"
                )
            return tables, {n: replace(plan, count=len(consumers[n])) for n, plan in plans.items()}
    return replace(program.placed_schedule, fallback_reason=excess), plan_buckets(by_pipeline=True)


def _plan_bucket(
    media: Sequence[Ints],
    capacity: RowCapacity,
    rows: int,
    entries: Sequence[int],
    *,
    by_pipeline: bool = False,
    together: bool = False,
) -> IndependentMicrobatches:
    """Independent microbatches of a bucket: by row, across rows, or by pipeline."""
    each = capacity.each if by_pipeline else None
    return plan_independent_microbatches(
        media, rows, capacity.positions, each, capacity.spread, together, entries
    )


def _media_places(microbatches: Sequence[PackedBatch], name: str) -> list[Ints]:
    """The places of a bucket's media, of every microbatch.

    Raises:
        ValueError: the microbatches do not list the places of their media.
    """
    listed = [batch.places for batch in microbatches if batch.places and batch.runs]
    if len(listed) < len(microbatches):
        raise ValueError(
            "a step whose encoders have independent microbatches needs batches that list the runs "
            "and the places of their media; valid: batches with data.balance: per_phase"
        )
    return [places[name] for places in listed]


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        logger.warning(message)
