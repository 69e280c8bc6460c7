"""Independent microbatches of encoders: the media of a step in units, and their schedule.

All of it follows from the lengths of the whole step, which every process knows, so that all
processes place the same tasks. Where groups of processes balance by themselves, each knows the
lengths of its own group; the groups then tell each other which microbatches their media feed.
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
    GradientProgram,
    PlacedSchedule,
    RowCapacity,
)
from mllm_jax.train.step.host_groups import ALONE, HostGroupExchange

logger = logging.getLogger(__name__)

_told: set[str] = set()


def in_units(
    program: GradientProgram,
    follow: AdaptiveSchedules,
    microbatches: Sequence[PackedBatch],
    rows: Mapping[str, Sequence[int]],
    here: Mapping[str, Sequence[int]],
    total: int,
    among: HostGroupExchange = ALONE,
) -> tuple[PlacedSchedule, Sequence[PackedBatch], dict[str, ModuleRows]]:
    """The step with its encoders' media in units.

    Rows of units fill by themselves. If no schedule of these units fits what is compiled, rows go
    on together (`data.planning.independent_microbatches`), those of each group, so that units feed
    fewer microbatches.
    If none fits then, the step has the program's own tables, and every decoder microbatch has
    units of its own (`PlacedSchedule.fallback_reason`).

    Args:
        program: the program of the step.
        follow: its `follow`.
        microbatches: packed batches of the rows that are here.
        rows: these rows by module.
        here: by module, the rows of units that are here.
        total: number of rows of a whole microbatch.
        among: how groups of processes tell each other of their media.

    Returns:
        The tables of the step; the microbatches, whose `runs` name units; and the encoders' rows,
        `[units, rows, ...]`.
    """
    kinds = {own.name: own for own in media_specs(program.model)}
    entries = {
        name: entries_of_row(spec, microbatches[0].rows[name]) for name, spec in kinds.items()
    }
    tables, units = _planned(program, follow, microbatches, total, among, entries)
    encoders = {
        name: rows_of_independent_microbatches(
            units[name],
            [batch.rows[name] for batch in microbatches],
            rows[name],
            here[name],
            spec,
            follow.capacities[name].positions,
        )
        for name, spec in kinds.items()
    }
    moved = [
        replace(
            batch,
            runs={
                name: units[name].move_runs(m, runs, kinds[name].reduction)
                for name, runs in (batch.runs or {}).items()
            },
        )
        for m, batch in enumerate(microbatches)
    ]
    return tables, moved, encoders


def _planned(
    program: GradientProgram,
    follow: AdaptiveSchedules,
    microbatches: Sequence[PackedBatch],
    total: int,
    among: HostGroupExchange,
    entries: Mapping[str, Sequence[int]],
) -> tuple[PlacedSchedule, dict[str, IndependentMicrobatches]]:
    """The tables of the step, and by lane the units that its media lie in.

    Args:
        entries: by lane, entries of a row on each further axis of its media.
    """

    def planned(**ways: bool) -> dict[str, IndependentMicrobatches]:
        media = {name: _media(microbatches, name) for name in follow.capacities}
        return {
            name: _units(media[name], room, total, entries[name], **ways)
            for name, room in follow.capacities.items()
        }

    excess = ""
    for together in (False, True):
        units = planned(together=together)
        feeds = among.feeds({name: plan.feeds for name, plan in units.items()})
        tables = follow.tables(feeds)
        if isinstance(tables, str):
            excess = tables
        else:
            if together:
                _tell_once(
                    "the media of a step fill the encoders' rows so unevenly that no schedule fits "
                    "what is compiled; its rows go on together, in a few more microbatches"
                )
            return tables, {n: replace(plan, count=len(feeds[n])) for n, plan in units.items()}
    return replace(program.tables, fallback_reason=excess), planned(apart=True)


def _units(
    media: Sequence[Ints],
    room: RowCapacity,
    rows: int,
    entries: Sequence[int],
    *,
    apart: bool = False,
    together: bool = False,
) -> IndependentMicrobatches:
    """Independent microbatches of a bucket: rows by themselves, together, or apart."""
    each = room.each if apart else None
    return plan_independent_microbatches(
        media, rows, room.positions, each, room.spread, together, entries
    )


def _media(microbatches: Sequence[PackedBatch], name: str) -> list[Ints]:
    """The places of a lane's media, of every microbatch.

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


def _tell_once(message: str) -> None:
    if message not in _told:
        _told.add(message)
        logger.warning(message)
