"""The endless stream of plans of microbatches, a pure function of (source, lengths, seed).

Stream position p is sample shuffle(p) of epoch p // len(source), or the sample that the order of a
mixture gives (`data.sources.order`). A step fills a pool of samples (carried ones first, then new
ones), packs those that may be taken (`data.planning.epochs`) and fit, and carries the rest
(`data.planning.steps`); then the samples of each of its microbatches are distributed over rows
(`data.planning.row_assignment`). Plans depend on lengths alone, so
that all hosts and workers make the same plans.

    data.batch: tokens     a step fills its budgets from a pool of `lookahead` samples
    data.batch: samples    the pool is the samples of a step; its microbatches share them, and
                           all have the lowest budgets of the ladder that hold them
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Protocol

import numpy as np

from data.config import DataConfig
from data.faults import SampleFault
from data.planning.bucket_thresholds import choose_thresholds, has_thresholds, of_group, relaid
from data.planning.epochs import Epoch, list_offered, list_readable
from data.planning.groups.group import WHOLE, HostGroupSpec
from data.planning.groups.turns import StepSample
from data.planning.ladder import Ladder
from data.planning.layout import SamplePlacement, lay_out
from data.planning.microbatches import costs_of, spread_over_time
from data.planning.packing import Capacity
from data.planning.problem import WorkModel
from data.planning.row_assignment import Hosts, Loads, RowAssigner, RowAssignment
from data.planning.steps import Packed, StepPacker
from data.sample import DataError, Lengths, SampleError, UnusableError
from data.sources.mixture import SourceMixture
from data.sources.order import SampleOrder, StreamPlace, shuffle_samples
from data.sources.source import Source

SkippedSample = tuple[str, SampleFault]  # name of the sample, and why it cannot be used


class Measurements(Protocol):
    """Source of the lengths of samples, for planning."""

    def at(self, places: Sequence[StreamPlace]) -> Sequence[Lengths | SampleFault]:
        """Lengths of samples, or the reasons why they cannot be used.

        Args:
            places: stream position, index in the source and epoch of every sample.
        """


@dataclass(frozen=True)
class TrainingDemand:
    """The training that plans are made for.

    Attributes:
        work: by module, its work on a segment, by which `data.balance` balances.
        hosts: by module, the host of every row, so that few encoder outputs go to another host.
        microbatches: number of microbatches of a step, which is packed at once.
        units: by budget, the number of which its rungs are multiples, if not 1 or the encoder's
            reduction.
        readers: number of hosts that read the samples of the stream in turn, and send them to the
            hosts of their rows.
        group: the hosts that balance among themselves; plans, `hosts` and `readers` are of these
            hosts alone.
    """

    work: Mapping[str, WorkModel] = field(default_factory=dict)
    hosts: Hosts = field(default_factory=dict)
    microbatches: int = 1
    units: Mapping[str, int] = field(default_factory=dict)
    readers: int = 1
    group: HostGroupSpec = WHOLE


NO_DEMAND = TrainingDemand()


@dataclass(frozen=True)
class LoaderState:
    """The state from which the stream continues; it is independent of hosts, workers and budgets.

    Between steps `done` is 0, and the state does not depend on how a step is split.

    Attributes:
        seed: seed of the order of samples.
        step: number of the step, from 0 (in runs that began before 2026-11-23 it also counts
            microbatches; nothing depends on it).
        position: the next stream position to read.
        carry: stream positions of samples read before but not yet placed, oldest first.
        done: number of microbatches of the step that are over.
    """

    seed: int
    step: int = 0
    position: int = 0
    carry: tuple[int, ...] = ()
    done: int = 0

    def to_json(self) -> dict[str, int | list[int]]:
        """A JSON-able dict."""
        return {
            "seed": self.seed,
            "step": self.step,
            "position": self.position,
            "carry": list(self.carry),
            "done": self.done,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> LoaderState:
        """Inverse of `to_json`.

        Raises:
            DataError: a key is missing or unknown, or a value is no whole number of at least 0, or
                no list of such numbers.
        """
        numbers = [value.get(key) for key in ("seed", "step", "position", "done")]
        carry = value.get("carry")
        carried: list[Any] = list(carry) if isinstance(carry, list | tuple) else [None]
        is_valid = all(type(n) is int and n >= 0 for n in (*numbers, *carried))
        if not is_valid or len(value) != 5:
            raise DataError(f"this is not a loader state: {json.dumps(value, default=str)[:200]}")
        seed, step, position, done = (int(n) for n in numbers)  # type: ignore[call-overload]
        return cls(seed, step, position, tuple(carried), done)


def joined(states: Sequence[LoaderState]) -> LoaderState:
    """The state from which all groups continue, however many there are then.

    Samples that a group has not reached and another one has passed are carried, as if they had been
    read before.

    Args:
        states: state of every group after the same step, in the order of their numbers.
    """
    position, count = max(state.position for state in states), len(states)
    carry = {p for state in states for p in state.carry}
    for number, state in enumerate(states):
        carry.update(p for p in range(state.position, position) if p % count == number)
    return replace(states[0], position=position, carry=tuple(sorted(carry)))


@dataclass(frozen=True)
class MicrobatchPlan:
    """The plan of one microbatch.

    Attributes:
        placements: places of its samples, oldest first.
        skipped: samples that are unusable.
        state: state of the loader after it.
        capacity: capacity of its rows.
        loads: by module, work of every row before and after balancing.
        most_expensive: by module, the work of that item, the name of its sample and its row.
        crossing: by encoder, number of outputs whose tokens are on another host.
        seconds: duration of planning.
        group: the hosts whose plan this is: `loads` and `most_expensive` are of their rows alone,
            in the order of `group.rows`.
        offered: number of samples that the step could choose from.
        step_samples: the samples of all microbatches of the step, if there are several groups.
    """

    placements: tuple[SamplePlacement, ...]
    skipped: tuple[SkippedSample, ...]
    state: LoaderState
    capacity: Capacity
    loads: Mapping[str, Loads]
    most_expensive: Mapping[str, tuple[float, str, int]]
    crossing: Mapping[str, int]
    seconds: float = field(compare=False)
    group: HostGroupSpec = WHOLE
    offered: int = 0
    step_samples: tuple[StepSample, ...] = ()


@dataclass(frozen=True)
class _Waiting:
    """A sample of the pool: stream position, index in the source, epoch and lengths."""

    position: int
    index: int
    epoch: Epoch
    lengths: Lengths


class BatchPlanner:
    """Makes the plan of microbatch after microbatch; `state` is the state after the last one.

    Args:
        source: source of the samples.
        lengths: lengths of the samples.
        config: configuration of the data.
        capacity: capacity of a row with `data.budgets`.
        state: state to begin from.
        consumer: the training that the plans are for.

    Raises (from `plan`):
        SampleError: an unusable sample, with `data.on_error: raise`.
        UnusableError: a whole epoch has no usable sample.
        DataError: the source is empty, or `state` is within a step of more microbatches.
    """

    def __init__(
        self,
        source: Source,
        lengths: Measurements,
        config: DataConfig,
        capacity: Capacity,
        state: LoaderState,
        consumer: TrainingDemand,
    ) -> None:
        if not len(source):
            raise DataError("data.source has no samples; valid: at least one")
        if state.done >= consumer.microbatches:
            raise DataError(
                f"the loader state is {state.done} microbatches into a step, which has "
                f"{consumer.microbatches} now; valid: a state between two steps"
            )
        self._group, config = consumer.group, consumer.group.share_of(config)
        carried = tuple(filter(self._group.has_position, state.carry))
        self.state = replace(state, carry=carried, done=0)
        # Thresholds and assignments both count the devices of the group alone.
        capacity = of_group(capacity, self._group.count)
        self._config, self._capacity, self._lengths = config, capacity, lengths
        self._size, self._name = len(source), source.name
        self._microbatches = consumer.microbatches
        self._wanted = config.pool_size(consumer.microbatches)
        spread_media, evenly = config.balance == "per_phase", config.batch == "samples"
        self._packer = StepPacker(
            capacity, config.rows, consumer.microbatches, spread_media, evenly
        )
        self._readers = consumer.readers
        spread = config.balance != "none" and consumer.microbatches > 1
        self._work = consumer.work if spread else {}
        units = {m.positions_budget: m.reduction for m in capacity.specs}
        units |= {m.budgets[axis]: 1 for m in capacity.specs for axis in m.axes}
        ladder = Ladder.build(config, {**units, **consumer.units})
        self._assigner = RowAssigner(config, capacity, ladder, consumer.work, consumer.hosts)
        self._stream = stream(source, state.seed)
        # Only next to other members is a sample of use that waits for its epoch.
        self._lookahead_epochs = int(isinstance(source, SourceMixture))
        self._pool: list[_Waiting] = []
        self._skipped: list[SkippedSample] = []
        self._planned: deque[MicrobatchPlan] = deque()
        # Stream positions to take before those from `_position` on.
        self._carried, self._position = deque(carried), state.position
        for _ in range(state.done):
            self.plan()

    @property
    def missing_positions(self) -> list[int]:
        """Stream positions whose lengths the next plan needs, if none of the samples is bad."""
        return [] if self._planned else self._next_positions()

    @property
    def waiting_positions(self) -> set[int]:
        """Stream positions of samples that were measured and are not yet in a returned plan."""
        planned = {p.position for plan in self._planned for p in plan.placements}
        return planned | {item.position for item in self._pool}

    def plan(self) -> MicrobatchPlan:
        """The plan of the next microbatch; advances the state."""
        if not self._planned:
            self._planned.extend(self._plan_step())
        plan = self._planned.popleft()
        self.state = plan.state
        return plan

    def _plan_step(self) -> list[MicrobatchPlan]:
        """Plans of the microbatches of a step."""
        began, first = time.perf_counter(), self.state
        self._fill_pool()
        offered = list_offered(self._pool)[: self._wanted]
        capacity = self._choose_thresholds(offered)
        packed = self._packer([self._pool[place].lengths for place in offered])
        placed = [self._pool[offered[i]] for i in packed.placed_samples]
        gone = {offered[i] for i in packed.placed_samples}
        self._pool = [item for place, item in enumerate(self._pool) if place not in gone]
        shares = self._split_step(placed, packed.select_samples(packed.placed_samples))
        parts = [[placed[i] for i in share] for share, _ in shares]
        assignments = [
            self._assign_rows(part, share) for part, (_, share) in zip(parts, shares, strict=True)
        ]
        limits = {
            name: max(share.limits[name] for share in assignments) for name in assignments[0].limits
        }
        carry = (*(item.position for item in self._pool), *self._carried)
        after = LoaderState(first.seed, first.step + 1, self._position, carry)
        states = [replace(first, done=m) for m in range(1, len(shares))] + [after]
        skipped, self._skipped = tuple(self._skipped), []
        step_samples = self._list_step_samples(placed)
        seconds = (time.perf_counter() - began) / len(shares)
        capacity = capacity.with_limits(limits)
        return [
            replace(
                self._plan_microbatch(part, share, capacity, state, () if m else skipped, seconds),
                offered=len(offered),
                step_samples=step_samples,
            )
            for m, (part, share, state) in enumerate(zip(parts, assignments, states, strict=True))
        ]

    def _list_step_samples(self, placed: Sequence[_Waiting]) -> tuple[StepSample, ...]:
        """The samples of a step, as sent to other groups, if there are any."""
        several = self._group.count > 1
        return tuple(
            StepSample(item.position, *item.epoch, item.index) for item in placed if several
        )

    def _choose_thresholds(self, offered: Sequence[int]) -> Capacity:
        """The capacity with the buckets of the step, by which the samples on offer go from now."""
        if not has_thresholds(self._capacity):
            return self._capacity
        samples, config = [self._pool[place].lengths for place in offered], self._config
        rows = config.rows * self._microbatches
        capacity = choose_thresholds(samples, self._capacity, rows, config.rows_apart)
        for place, lengths in zip(offered, relaid(samples, capacity), strict=True):
            self._pool[place] = replace(self._pool[place], lengths=lengths)
        return capacity

    def _split_step(
        self, placed: Sequence[_Waiting], packed: Packed
    ) -> list[tuple[list[int], Packed]]:
        """The samples of each microbatch among those of a step, and the rows that hold them."""
        samples, count = [item.lengths for item in placed], self._microbatches
        if self._config.batch == "samples":
            owners = spread_over_time(costs_of(samples, self._work), count)
            parts = [np.flatnonzero(owners == m).tolist() for m in range(count)]
            candidates = [
                (members, self._assigner.pack_rows([samples[i] for i in members]))
                for members in parts
            ]
            roomy = [(members, rows) for members, rows in candidates if rows is not None]
            if len(roomy) == count:
                return roomy
        return self._packer.split_step(samples, packed, self._work)

    def _assign_rows(self, part: Sequence[_Waiting], packed: Packed) -> RowAssignment:
        """Rows of the samples of one microbatch."""

        def name_of_number(number: int) -> str:
            return self._name_of(part[number])

        several = self._readers > 1
        reader = self._group.reader_of
        readers = [reader(item.position, self._readers) for item in part] if several else None
        return self._assigner([item.lengths for item in part], packed, name_of_number, readers)

    def _plan_microbatch(
        self,
        part: Sequence[_Waiting],
        assigned: RowAssignment,
        capacity: Capacity,
        state: LoaderState,
        skipped: tuple[SkippedSample, ...],
        seconds: float,
    ) -> MicrobatchPlan:
        """The plan of one microbatch."""
        samples = [(item.index, item.lengths) for item in part]
        drawn = [(item.position, item.epoch[1]) for item in part]
        placements = lay_out(samples, assigned.rows, capacity.specs, assigned.media, drawn)
        most_expensive = {
            phase: self._largest_item(part, load) for phase, load in assigned.loads.items()
        }
        return MicrobatchPlan(
            tuple(_in_batch(p, self._group, capacity.text.name) for p in placements),
            skipped,
            state,
            capacity,
            assigned.loads,
            most_expensive,
            assigned.crossing,
            seconds,
            self._group,
        )

    def _largest_item(self, part: Sequence[_Waiting], load: Loads) -> tuple[float, str, int]:
        """Work of the most expensive item of a phase, the name of its sample and its row."""
        work, sample, row = load.most_expensive
        return (work, self._name_of(part[sample]), row) if work else (0.0, "", 0)

    def _name_of(self, item: _Waiting) -> str:
        return self._name(item.index)

    def _fill_pool(self) -> None:
        """Fill the pool until as many samples are on offer as a step wants, or as there may be."""
        failed = 0
        while failed < self._stream.epoch_size and (positions := self._next_positions()):
            any_usable = self._take_positions(positions)
            failed = 0 if any_usable else failed + len(positions)
            self._skip_positions(positions)
        if not self._pool:
            name, fault = self._skipped[-1]
            text = f"none of {self._size} samples is usable; the last, {name}: {fault}"
            raise UnusableError(text, tuple(dict(self._skipped).items()))

    def _next_positions(self) -> list[int]:
        """The next stream positions that a step wants, those that were left out before first.

        Samples that wait for their epoch take no more than half of the pool.
        """
        most = min(self._wanted - len(list_offered(self._pool)), 2 * self._wanted - len(self._pool))
        count = max(0, most)
        carried = list(islice(self._carried, count))
        new = self._group.positions(self._position, count - len(carried))
        return list_readable(
            self._pool, (*carried, *new), self._stream.epoch_at, self._lookahead_epochs
        )

    def _skip_positions(self, positions: Sequence[int]) -> None:
        """Go past the next stream positions."""
        for position in positions:
            if self._carried:
                self._carried.popleft()
            else:
                self._position = position + 1

    def _take_positions(self, positions: Sequence[int]) -> bool:
        """Add samples at stream positions to the pool, or note them as skipped; whether any fit."""
        places = [(position, *self._stream[position]) for position in positions]
        before = len(self._pool)
        for (position, index, _), measured in zip(places, self._lengths.at(places), strict=True):
            lengths = (
                measured
                if isinstance(measured, SampleFault)
                else self._capacity.by_bucket(measured)
            )
            fault = lengths if isinstance(lengths, SampleFault) else self._packer.misfit(lengths)
            if fault is None:
                assert isinstance(lengths, Lengths)
                epoch = self._stream.epoch_at(position)
                self._pool.append(_Waiting(position, index, epoch, lengths))
            elif self._config.on_error == "raise":
                raise SampleError(self._name(index), fault)
            else:
                self._skipped.append((self._name(index), fault))
        return len(self._pool) > before


def _in_batch(placement: SamplePlacement, group: HostGroupSpec, text: str) -> SamplePlacement:
    """A placement in the rows of a group, in those of the whole batch."""
    if group.count == 1:
        return placement
    media = {
        name: tuple(
            (group.row_of(name, row), start, segment) for row, start, segment in media_places
        )
        for name, media_places in placement.media.items()
    }
    return replace(placement, row=group.row_of(text, placement.row), media=media)


def stream(source: Source, seed: int) -> SampleOrder:
    """The sample at every position of the stream of a source."""
    return (
        source.make_order(seed)
        if isinstance(source, SourceMixture)
        else shuffle_samples(len(source), seed)
    )
