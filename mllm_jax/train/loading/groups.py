"""Groups of processes that balance by themselves: which one a process is in, and figures of all.

A group knows its part of every step alone. What a run reports and saves is of all groups: the
processes tell each other when a report or a save is due, and not before. In every step they tell
each other what all must know to join in the same collectives: a few numbers for each microbatch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import jax

from data.config import DataConfig
from data.planning.groups.group import WHOLE, HostGroupSpec, RowNumbers, make_groups
from data.planning.independent_microbatches import feeds_of_all
from data.planning.stream import LoaderState, joined
from mllm_jax.runtime.run_peers import current_peers
from mllm_jax.train.records.step_record import PhaseLoad, StepRecord, sum_over_microbatches
from mllm_jax.train.step.host_groups import SINGLE_GROUP, HostGroupExchange
from scheduling.schedules.tasks import Consumers


def find_group(config: DataConfig, rows: Sequence[RowNumbers], size: int | None) -> HostGroupSpec:
    """The group of this process.

    Args:
        rows: by process, the rows of a batch that it holds, by module.
        size: number of processes of a group; None for one group of all.

    Raises:
        DataError: there cannot be groups of so many processes.
    """
    if size is None:
        return WHOLE
    return make_groups(config, rows, size)[jax.process_index() // size]


def gather_from_groups(group: HostGroupSpec, name: str, value: Any) -> list[Any]:
    """Gather a value of every group, in the order of their numbers.

    The first process of each group sends its value.

    Args:
        group: the group of this process.
        name: what is gathered.
        value: value of this group, as JSON.
    """
    speaks = current_peers().index == group.hosts[0]
    answers = current_peers().gather_values(name, [group.number, value] if speaks else None)
    return list(dict(filter(None, answers)).values())


def exchange_with_groups(group: HostGroupSpec) -> HostGroupExchange:
    """The exchange in which groups learn of the media of a step; `group` is this process' group."""
    if group.count == 1:
        return SINGLE_GROUP

    def gather(name: str, values: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        return gather_from_groups(group, name, dict(values))

    def gather_feeds(local: Mapping[str, Consumers]) -> dict[str, Consumers]:
        groups = gather("what encoder microbatches feed", local)
        return {name: feeds_of_all([feeds[name] for feeds in groups]) for name in local}

    def add_counts(local: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
        if not local:  # media are in the rows of their samples
            return {}
        groups = gather("encoder outputs that are merged", local)
        return {
            name: [sum(pair) for pair in zip(*(counts[name] for counts in groups), strict=True)]
            for name in local
        }

    return HostGroupExchange(gather_feeds, add_counts)


def state_of_all(state: LoaderState, group: HostGroupSpec) -> LoaderState:
    """The state of the loaders of all groups, from that of this process after the same step."""
    if group.count == 1:
        return state
    gathered = current_peers().gather_values(
        "states of the loaders", [group.number, state.to_json()]
    )
    states = {number: LoaderState.from_json(values) for number, values in gathered}
    return joined([states[number] for number in range(group.count)])


def records_of_all(records: Sequence[StepRecord]) -> list[StepRecord]:
    """Records of all hosts, from those of the steps of this process's group."""
    if not records or records[0].group.count == 1:
        return list(records)
    figures = [_group_figures(record) for record in records]
    gathered = current_peers().gather_values(
        "figures of the groups", [records[0].group.number, figures]
    )
    by_group = dict(gathered).values()
    together = zip(records, *by_group, strict=True)
    return [_merge_record(record, groups) for record, *groups in together]


def _group_figures(record: StepRecord) -> dict[str, Any]:
    """The figures of a record that are of a group, as JSON."""
    return {
        "used": dict(record.used),
        "capacity": dict(record.capacity),
        "flops": record.flops,
        "moved_bytes": record.moved_bytes,
        "planning_seconds": record.planning_seconds,
        "microbatch_loads": [
            {name: asdict(load) for name, load in part.items()} for part in record.microbatch_loads
        ],
    }


def _merge_record(record: StepRecord, groups: Sequence[Mapping[str, Any]]) -> StepRecord:
    """A record with the figures of all groups; seconds of planning are those of the slowest."""
    parts = [
        {name: _merge_loads([PhaseLoad(**loads[name]) for loads in part]) for name in part[0]}
        for part in zip(*(figures["microbatch_loads"] for figures in groups), strict=True)
    ]
    return replace(
        record,
        used=_add_counts([figures["used"] for figures in groups]),
        capacity=_add_counts([figures["capacity"] for figures in groups]),
        flops=sum(figures["flops"] for figures in groups),
        moved_bytes=sum(figures["moved_bytes"] for figures in groups),
        planning_seconds=max(figures["planning_seconds"] for figures in groups),
        microbatch_loads=tuple(parts),
        loads=sum_over_microbatches(parts),
        group=WHOLE,
    )


def _merge_loads(loads: Sequence[PhaseLoad]) -> PhaseLoad:
    """The load of all ranks in one microbatch, from those of the ranks of every group."""
    mean = sum(load.mean for load in loads) / len(loads)
    packed, balanced = (max(getattr(x, key) for x in loads) for key in ("packed", "balanced"))
    return PhaseLoad(mean, packed, balanced)


def _add_counts(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {name: sum(count[name] for count in counts) for name in counts[0]}
