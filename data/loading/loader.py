"""The loader: plans -> samples -> batches as one Grain pipeline.

    plans (custom IterDataset) -> map(assemble) -> thread prefetch     data.workers: 0
                                                -> mp_prefetch         data.workers: N

Worker k of N makes every plan (from measurements, cheap) and assembles microbatches k,
k + N, ...; Grain hands them out in turn, so the batches are the same for any number of workers.
Each microbatch carries the state after it: a checkpoint saves that state, and not Grain's own, and
new workers go on from it if one dies.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import grain
import numpy as np

from data.batch import PackedBatch
from data.config import DataConfig
from data.loading.assemble import BatchAssembler, RowNumbers, capacity_of
from data.loading.prefetch import PrefetchIterator, SlicedDataset, UnseekableIterator
from data.planning.groups.group import WHOLE, HostGroupSpec
from data.planning.groups.turns import StepSample
from data.planning.layout import SamplePlacement, media_of_plan, runs_of_plan, used_lengths
from data.planning.lengths import DrawnLengths, LengthTable, open_lengths
from data.planning.packing import Capacity
from data.planning.row_assignment import Loads
from data.planning.stream import (
    NO_DEMAND,
    BatchPlanner,
    LoaderState,
    Measurements,
    MicrobatchPlan,
    SkippedSample,
    TrainingDemand,
)
from data.processing.processor import Processor
from data.sample import DataError
from data.sources.source import Source


@dataclass(frozen=True)
class MicrobatchStats:
    """Statistics of a microbatch, the same on all hosts. With `data.balance_group` they are of the
    part of the microbatch that a group of hosts has, and the same on the hosts of that group.

    Attributes:
        samples: number of placed samples.
        used, capacity: by budget, positions that are used and that there are.
        lengths: by bucket, that of the text first, lengths of the segments, int64 arrays.
        loads: by module, work of every row in forward FLOPs, as packed and as balanced.
        most_expensive: by module, the work of that item, the name of its sample and its row.
        crossing: by encoder, number of outputs that go to another host.
        seconds: duration of planning.
        sent: bytes that hosts have sent each other, of samples that one has read for another
            (`data.lengths: on_read`).
        group: the hosts.
        placements: where the placed samples lie.
        offered: number of samples that its step could choose from.
        step_samples: as of `MicrobatchPlan`.
    """

    samples: int
    used: dict[str, int]
    capacity: dict[str, int]
    lengths: dict[str, np.ndarray]
    loads: Mapping[str, Loads]
    most_expensive: Mapping[str, tuple[float, str, int]]
    crossing: Mapping[str, int]
    seconds: float
    sent: int = 0
    group: HostGroupSpec = WHOLE
    placements: tuple[SamplePlacement, ...] = ()
    offered: int = 0
    step_samples: tuple[StepSample, ...] = ()

    @property
    def stream_positions(self) -> tuple[int, ...]:
        """Stream positions of the placed samples."""
        return tuple(placement.position for placement in self.placements)

    @property
    def padding_shares(self) -> dict[str, float]:
        """Share of unused positions per budget."""
        return {name: 1 - self.used[name] / self.capacity[name] for name in self.capacity}


@dataclass(frozen=True)
class Microbatch:
    """A microbatch; a train step takes `train.accumulate` of them.

    Attributes:
        batch: arrays of the rows of this host, see `data.loading.assemble`.
        stats: statistics of the global microbatch.
        skipped: samples that were unusable; every host reports those of planning, and the hosts
            that read a sample those of reading.
        state: state of the loader after it.
        missing: stream positions of the placed samples that this host could not read. Its rows of
            `batch` leave them out; a host that holds their text, and not the medium that cannot be
            read, has to be informed.
    """

    batch: PackedBatch
    stats: MicrobatchStats
    skipped: tuple[SkippedSample, ...]
    state: LoaderState
    missing: tuple[int, ...] = ()


class _PlanIterator(UnseekableIterator):
    """Plans `offset`, `offset + stride`, ... of a planner."""

    def __init__(self, planner: BatchPlanner, offset: int, stride: int) -> None:
        super().__init__()
        self._planner, self._stride = planner, stride
        self._plans_to_skip = offset

    def make_element(self) -> MicrobatchPlan:
        for _ in range(self._plans_to_skip):
            self._planner.plan()
        self._plans_to_skip = self._stride - 1
        return self._planner.plan()


class _MicrobatchPlans(SlicedDataset):
    """The stream of plans."""

    def __init__(
        self,
        source: Source,
        lengths: Measurements,
        config: DataConfig,
        capacity: Capacity,
        state: LoaderState,
        consumer: TrainingDemand,
    ) -> None:
        super().__init__()
        self._arguments = (source, lengths, config, capacity, state, consumer)

    def __iter__(self) -> _PlanIterator:
        return _PlanIterator(BatchPlanner(*self._arguments), self.offset, self.stride)


class _AssembleMicrobatch:
    """The map of the pipeline: a plan to a microbatch."""

    def __init__(self, assembler: BatchAssembler, config: DataConfig) -> None:
        self._assembler, self._config = assembler, config

    def __call__(self, plan: MicrobatchPlan) -> dict[str, Any]:
        batch, missing = self._assembler.assemble_batch(plan.placements, plan.capacity)
        if self._config.balance == "per_phase":
            batch = with_places(batch, plan)
        stats = microbatch_stats(plan, self._config.rows)
        skipped = plan.skipped + tuple(skip for _, skip in missing)
        unread = tuple(placement.position for placement, _ in missing)
        return {"batch": batch, "host": _HostValues(stats, skipped, plan.state, unread)}


@dataclass(frozen=True)
class _HostValues:
    """The attributes of a `Microbatch` that stay on the host: all but its batch."""

    stats: MicrobatchStats
    skipped: tuple[SkippedSample, ...]
    state: LoaderState
    missing: tuple[int, ...]


def with_places(batch: PackedBatch, plan: MicrobatchPlan) -> PackedBatch:
    """A batch whose media are in rows of their own: it lists `runs` and `places`."""
    planned = plan.placements, plan.capacity.media
    return replace(batch, runs=runs_of_plan(*planned), places=media_of_plan(*planned))


def microbatch_stats(plan: MicrobatchPlan, rows: int, sent: int = 0) -> MicrobatchStats:
    """Statistics of a microbatch of `rows` rows in all groups from a plan and the bytes sent."""
    specs = plan.capacity.specs
    lengths = used_lengths(plan.placements, specs)
    used = {spec.positions_budget: int(lengths[spec.name].sum()) for spec in specs}
    group_rows = rows // plan.group.count
    total = {name: group_rows * plan.capacity.limit(name) for name in used}
    return MicrobatchStats(
        len(plan.placements),
        used,
        total,
        lengths,
        plan.loads,
        plan.most_expensive,
        plan.crossing,
        plan.seconds,
        sent,
        plan.group,
        plan.placements,
        plan.offered,
        plan.step_samples,
    )


class MicrobatchLoader(Iterator[Microbatch]):
    """Endless iterator over microbatches, to be closed (or use `with`)."""

    @abstractmethod
    def close(self) -> None:
        """Stop workers and threads; idempotent. After it, `next` raises StopIteration."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class DataLoader(MicrobatchLoader):
    """Microbatches of samples whose lengths are known beforehand; resumable.

    Media that are drawn anew in every epoch are drawn, and measured, when a step is planned.

    With `data.balance: per_phase` batches list `runs`: by encoder, which outputs are merged where,
    of all rows of the microbatch (`data.planning.layout.runs_of_plan`).

    Args:
        source: the samples.
        processor: makes tokens and encoder inputs of a sample.
        config: section `data`.
        seed: seed of the order of samples.
        rows: the global rows that this process needs of each module, e.g. {"decoder": [0, 1],
            "vision": [0, 1]}; arrays hold just these, in this order.
        state: state to continue from; None: the begin.
        consumer: what the batches are for.
        lengths: lengths of the samples; None: those in the cache.

    Raises:
        DataError: budgets that do not fit the encoders, an unusable source, a state of another
            seed; from `next`: the data have changed.
        ValueError: impossible `rows`.
        SampleError: from `next`, a bad sample with `data.on_error: raise`.
    """

    def __init__(
        self,
        source: Source,
        processor: Processor,
        config: DataConfig,
        seed: int,
        rows: RowNumbers,
        state: LoaderState | None = None,
        consumer: TrainingDemand = NO_DEMAND,
        lengths: LengthTable | None = None,
    ) -> None:
        state = initial_state(state, seed)
        if not len(source):
            raise DataError("data.source has no samples; valid: at least one")
        capacity = capacity_of(config, processor)
        assembler = BatchAssembler(source, processor, config, rows, config.balance == "per_phase")
        measured = _planned_lengths(source, processor, config, lengths)
        self._state = state

        def iterate_microbatches(_: int) -> grain.IterDataset:
            plans = _MicrobatchPlans(source, measured, config, capacity, self._state, consumer)
            return plans.map(_AssembleMicrobatch(assembler, config))

        self._microbatches = PrefetchIterator(iterate_microbatches, config.workers, config.prefetch)

    def __next__(self) -> Microbatch:
        element = next(self._microbatches)
        batch, host = element["batch"], element["host"]
        self._state = host.state
        return Microbatch(batch, host.stats, host.skipped, host.state, host.missing)

    def close(self) -> None:
        """Stop workers and threads; idempotent. After it, `next` raises StopIteration."""
        self._microbatches.close()


def _planned_lengths(
    source: Source, processor: Processor, config: DataConfig, lengths: LengthTable | None
) -> Measurements:
    """The lengths that batches are planned by."""
    if processor.is_drawn:
        return DrawnLengths(source, processor)
    return lengths or open_lengths(source, processor, config)


def initial_state(state: LoaderState | None, seed: int) -> LoaderState:
    """The state to begin from, by default the start of `seed`.

    Raises:
        DataError: `state` is of another seed.
    """
    state = state or LoaderState(seed)
    if state.seed != seed:
        raise DataError(
            f"the saved loader state has the seed {state.seed}, but train.seed is {seed}; valid: "
            f"{state.seed}, or another run.name"
        )
    return state
