"""Groups of processes that balance by themselves: which one a process is in, and figures of all.

A group knows its own part of every step alone. What a run reports and saves is of all groups: the
processes tell each other when a report or a save is due, and not before. In every step they tell
each other what all must know to join in the same collectives: a few numbers for each microbatch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import jax

from data.config import DataConfig
from data.planning.groups.group import WHOLE, Group, Rows, make_groups
from data.planning.independent_microbatches import feeds_of_all
from data.planning.stream import LoaderState, joined
from mllm_jax.runtime.part import peers
from mllm_jax.train.records.metrics import PhaseLoad, StepRecord, over_microbatches
from mllm_jax.train.step.host_groups import ALONE, Among
from scheduling.schedules.tasks import Feeds


def own_group(config: DataConfig, rows: Sequence[Rows], size: int | None) -> Group:
    """The group of this process.

    Args:
        rows: by process, the rows of a batch that it holds, by tower.
        size: number of processes of a group; None for one group of all.

    Raises:
        DataError: there cannot be groups of so many processes.
    """
    if size is None:
        return WHOLE
    return make_groups(config, rows, size)[jax.process_index() // size]


def told_by_groups(group: Group, name: str, own: Any) -> list[Any]:
    """What every group says, in the order of their numbers; `group` is that of this process.

    The first process of each group speaks for it.

    Args:
        name: what is told.
        own: what this group says, as JSON.
    """
    speaks = peers().index == group.hosts[0]
    said = peers().gather(name, [group.number, own] if speaks else None)
    return list(dict(filter(None, said)).values())


def among_groups(group: Group) -> Among:
    """How the groups tell each other of the media of a step; `group` is that of this process."""
    if group.count == 1:
        return ALONE

    def told(name: str, own: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        return told_by_groups(group, name, dict(own))

    def feeds(own: Mapping[str, Feeds]) -> dict[str, Feeds]:
        groups = told("what encoder microbatches feed", own)
        return {name: feeds_of_all([each[name] for each in groups]) for name in own}

    def counts(own: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
        if not own:  # media are in the rows of their samples
            return {}
        groups = told("encoder outputs that land", own)
        return {
            name: [sum(pair) for pair in zip(*(each[name] for each in groups), strict=True)]
            for name in own
        }

    return Among(feeds, counts)


def state_of_all(state: LoaderState, group: Group) -> LoaderState:
    """The state of the loaders of all groups, from that of this process after the same step."""
    if group.count == 1:
        return state
    told = peers().gather("states of the loaders", [group.number, state.to_json()])
    states = {number: LoaderState.from_json(own) for number, own in told}
    return joined([states[number] for number in range(group.count)])


def records_of_all(records: Sequence[StepRecord]) -> list[StepRecord]:
    """Records of the whole job, from those of the steps of this process's group."""
    if not records or records[0].group.count == 1:
        return list(records)
    figures = [_figures(record) for record in records]
    told = peers().gather("figures of the groups", [records[0].group.number, figures])
    of_groups = dict(told).values()
    return [_of_all(record, own) for record, *own in zip(records, *of_groups, strict=True)]


def _figures(record: StepRecord) -> dict[str, Any]:
    """The figures of a record that are of a group, as JSON."""
    return {
        "used": dict(record.used),
        "capacity": dict(record.capacity),
        "flops": record.flops,
        "moved_bytes": record.moved_bytes,
        "planning_seconds": record.planning_seconds,
        "parts": [{name: asdict(load) for name, load in part.items()} for part in record.parts],
    }


def _of_all(record: StepRecord, groups: Sequence[Mapping[str, Any]]) -> StepRecord:
    """A record with the figures of all groups; seconds of planning are those of the slowest."""
    parts = [
        {name: _over_groups([PhaseLoad(**own[name]) for own in part]) for name in part[0]}
        for part in zip(*(own["parts"] for own in groups), strict=True)
    ]
    return replace(
        record,
        used=_summed([own["used"] for own in groups]),
        capacity=_summed([own["capacity"] for own in groups]),
        flops=sum(own["flops"] for own in groups),
        moved_bytes=sum(own["moved_bytes"] for own in groups),
        planning_seconds=max(own["planning_seconds"] for own in groups),
        parts=tuple(parts),
        loads=over_microbatches(parts),
        group=WHOLE,
    )


def _over_groups(loads: Sequence[PhaseLoad]) -> PhaseLoad:
    """The load of all ranks in one microbatch, from those of the ranks of every group."""
    mean = sum(load.mean for load in loads) / len(loads)
    packed, balanced = (max(getattr(x, key) for x in loads) for key in ("packed", "balanced"))
    return PhaseLoad(mean, packed, balanced)


def _summed(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {name: sum(own[name] for own in counts) for name in counts[0]}
