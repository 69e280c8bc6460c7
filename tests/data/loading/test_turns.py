"""Groups of hosts go through epochs together: no step has samples of two, also after resumes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.batch import PackedBatch
from data.loading.loader import DataLoader, Microbatch, MicrobatchLoader, microbatch_stats
from data.loading.on_read import MeasuringDataLoader, SingleHost
from data.loading.turns import GatherFromGroups, GroupTurnLoader, padding_of
from data.planning.groups.group import HostGroupSpec, make_groups
from data.planning.groups.turns import GroupOffer, contested, of_oldest_epoch, without_repeats
from data.planning.lengths import LengthTable
from data.planning.stream import BatchPlanner, LoaderState, TrainingDemand, joined, stream
from data.processing.processor import Processor
from data.sources.make import make_source
from data.sources.order import MixedOrder, SampleOrder
from data.sources.source import Source
from mllm_jax.models.short_form import BACKBONE
from tests.data.planning.groups.test_group import held
from tests.data.planning.test_epochs import BUDGETS, CAPACITY, lengths_of, mixture_of
from tests.data.samples import TEXT, WORK, ListSource, MakeConfig, arrays, mixed_source, of_tokens

ROWS, HOSTS = 8, 4


class Planned(MicrobatchLoader):
    """The plans of a planner, in place of a loader."""

    def __init__(self, planner: BatchPlanner) -> None:
        self._planner = planner

    def __next__(self) -> Microbatch:
        plan = self._planner.plan()
        batch = PackedBatch({BACKBONE: TEXT.empty_rows((0, 0), [])})
        return Microbatch(batch, microbatch_stats(plan, ROWS), plan.skipped, plan.state)

    def close(self) -> None: ...


class Groups:
    """All groups of a run, each in a thread of its own."""

    def __init__(self, count: int) -> None:
        self._said: list[Any] = [None] * count
        self._meet = Barrier(count)

    def tell(self, number: int) -> GatherFromGroups:
        """How a group hears what all say."""

        def told(name: str, value: Any) -> list[Any]:
            self._said[number] = json.loads(json.dumps([name, value]))
            self._meet.wait(60)
            every = list(self._said)
            self._meet.wait(60)
            assert len({name for name, _ in every}) == 1
            return [value for _, value in every]

        return told

    def steps(self, loaders: Sequence[MicrobatchLoader], count: int) -> list[list[Microbatch]]:
        """The next microbatches of every group."""

        def take(loader: MicrobatchLoader) -> list[Microbatch]:
            try:
                return list(islice(loader, count))
            except BaseException:
                self._meet.abort()
                raise

        with ThreadPoolExecutor(len(loaders)) as pool:
            return list(pool.map(take, loaders))


Begin = Callable[[LoaderState], list[GroupTurnLoader]]


def begun(
    source: Source,
    table: LengthTable,
    config: Any,
    groups: Sequence[HostGroupSpec],
    accumulate: int,
) -> tuple[Groups, Begin]:
    """Begins the loaders of all groups from a state."""
    groups_of_hosts, mixed = Groups(len(groups)), isinstance(stream(source, 0), MixedOrder)

    def begin(state: LoaderState) -> list[GroupTurnLoader]:
        results = []
        for group in groups:
            consumer = TrainingDemand(WORK, microbatches=accumulate, group=group)
            start = replace(state, done=0)
            planner = BatchPlanner(source, table, config, CAPACITY, start, consumer)
            gather = groups_of_hosts.tell(group.number)
            results.append(
                GroupTurnLoader(Planned(planner), state, group, accumulate, mixed, gather)
            )
        return results

    return groups_of_hosts, begin


def positions(microbatches: Sequence[Microbatch]) -> list[int]:
    return [p for microbatch in microbatches for p in microbatch.stats.stream_positions]


def of_steps(microbatches: Sequence[Sequence[Microbatch]], accumulate: int) -> list[list[int]]:
    """The stream positions of all groups in every step."""
    count = len(microbatches[0]) // accumulate
    return [
        positions(
            [
                m
                for microbatch in microbatches
                for m in microbatch[n * accumulate : (n + 1) * accumulate]
            ]
        )
        for n in range(count)
    ]


def check_same(
    again: Sequence[Sequence[Microbatch]], before: Sequence[Sequence[Microbatch]], done: int
) -> None:
    """All groups have the same samples and states as before the resume after some microbatches."""
    for one, other in zip(again, before, strict=True):
        for a, b in zip(one, other[done:], strict=True):
            assert (a.stats.stream_positions, a.skipped) == (b.stats.stream_positions, b.skipped)
    for later in range(1, len(again[0]) + 1):
        assert saved(again, later) == saved(before, done + later)


@settings(max_examples=15, deadline=None)
@given(
    count=st.integers(1, 40) | st.integers(1, 200),
    groups=st.sampled_from([2, 4]),
    accumulate=st.integers(1, 3),
    spread=st.sampled_from([0.1, 1.0, 2.0]),
    bad=st.sampled_from([0.0, 0.4]),
    batch=st.sampled_from(["tokens", "samples"]),
    lookahead=st.integers(1, 200),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_no_step_of_several_groups_has_samples_of_two_epochs(
    count: int,
    groups: int,
    accumulate: int,
    spread: float,
    bad: float,
    batch: str,
    lookahead: int,
    seed: int,
    data: st.DataObject,
    make_config: MakeConfig,
) -> None:
    """And each epoch is a permutation; the same from the joined state of any microbatch on."""
    how: dict[str, Any] = {"lookahead": lookahead}
    if batch == "samples":
        how = {"batch": batch, "samples": 24, "ladder": (1.0,), "lookahead": None}
    config = make_config(rows=ROWS, budgets=BUDGETS, **how)
    bad = bad if count > 30 else 0.0  # every group must have samples that can be used
    source, table = ListSource(["none"] * count), lengths_of(count, seed, spread, bad)
    parts = make_groups(config, held(HOSTS), HOSTS // groups)
    groups_of_hosts, begin = begun(source, table, config, parts, accumulate)
    loaders = begin(LoaderState(seed))
    results = groups_of_hosts.steps(loaders, 12 * accumulate)
    steps = of_steps(results, accumulate)
    good, order = {*range(count)} - {*table.unusable}, stream(source, seed)
    check_epochs(steps, order, good)
    done = data.draw(st.integers(1, 12 * accumulate - 1))
    state = saved(results, done)
    assert (state.step, state.done) == divmod(done, accumulate)
    check_same(groups_of_hosts.steps(begin(state), 12 * accumulate - done), results, done)
    done //= accumulate
    state = saved(results, done * accumulate) if done else LoaderState(seed)
    others = make_groups(config, held(HOSTS), HOSTS // (6 - groups))
    groups_of_hosts, begin = begun(source, table, config, others, accumulate)
    remaining = groups_of_hosts.steps(begin(state), 6 * accumulate)
    check_epochs([*steps[:done], *of_steps(remaining, accumulate)], order, good)


def saved(microbatches: Sequence[Sequence[Microbatch]], done: int) -> LoaderState:
    """The state of all groups after so many microbatches, as it comes from a file."""
    state = joined([microbatch[done - 1].state for microbatch in microbatches])
    return LoaderState.from_json(json.loads(json.dumps(state.to_json())))


def check_epochs(steps: Sequence[Sequence[int]], order: SampleOrder, good: set[int]) -> None:
    """Every epoch is a permutation, and no step has samples of two epochs."""
    for step in steps:
        assert len({order.epoch_at(position) for position in step}) == 1
    every = [order[position][0] for step in steps for position in step]
    for first in range(0, len(every), len(good)):
        epoch = every[first : first + len(good)]
        assert len({*epoch}) == len(epoch)
        assert {*epoch} == good or first + len(good) > len(every)


@settings(max_examples=8, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 30) | st.integers(30, 300), min_size=1, max_size=4),
    weights=st.lists(st.floats(0.05, 1.0), min_size=4, max_size=4),
    groups=st.sampled_from([2, 4]),
    accumulate=st.integers(1, 2),
    seed=st.integers(0, 99),
    done=st.integers(1, 23),
)
def test_no_step_of_several_groups_has_a_sample_of_a_mixture_twice(
    sizes: list[int],
    weights: list[float],
    groups: int,
    accumulate: int,
    seed: int,
    done: int,
    make_config: MakeConfig,
) -> None:
    mixture = mixture_of(sizes, weights[: len(sizes)])
    config = make_config(rows=ROWS, budgets=BUDGETS, source=mixture, lookahead=60)
    source, table = make_source(config), lengths_of(sum(sizes), seed, 1.0)
    parts = make_groups(config, held(HOSTS), HOSTS // groups)
    groups_of_hosts, begin = begun(source, table, config, parts, accumulate)
    results = groups_of_hosts.steps(begin(LoaderState(seed)), 24)
    order = stream(source, seed)
    every: list[int] = []
    for step in of_steps(results, accumulate):
        indices = [order[position][0] for position in step]
        assert len({*indices}) == len(indices) > 0
        every += step
    last = joined([microbatch[-1].state for microbatch in results])
    assert sorted([*every, *last.carry]) == [*range(last.position)]
    check_same(groups_of_hosts.steps(begin(saved(results, done)), 24 - done), results, done)


def test_a_mixture_goes_on_without_waiting_where_no_sample_comes_twice(
    make_config: MakeConfig,
) -> None:
    """Epochs of three large members end at other times in every group, and nearly nobody waits."""
    mixture = mixture_of([900, 1200, 2100], [1.0, 1.0, 2.0])
    config = make_config(rows=ROWS, budgets=BUDGETS, source=mixture, lookahead=100)
    source, table = make_source(config), lengths_of(4200, 0, 1.0)
    parts = make_groups(config, held(HOSTS), 1)
    groups_of_hosts, begin = begun(source, table, config, parts, 1)
    results = groups_of_hosts.steps(begin(LoaderState(0)), 150)
    assert joined([microbatch[-1].state for microbatch in results]).position > 4200
    assert sum(not m.stats.samples for microbatch in results for m in microbatch) <= 0.02 * 4 * 150


def test_groups_that_wait_are_those_with_samples_of_later_epochs() -> None:
    offers = [
        GroupOffer(9, {0: 1}),
        GroupOffer(3, {0: 0}),
        GroupOffer(5, {0: 0}),
        GroupOffer(12, {0: 2}),
    ]
    assert contested(offers) == {0}
    assert of_oldest_epoch(offers) == [False, True, True, False]
    assert not contested(offers[1:3])
    offers = [
        GroupOffer(9, {0: 1, 1: 0}),
        GroupOffer(3, {0: 0}),
        GroupOffer(5, {1: 0, 2: 4}),
        GroupOffer(7, {0: 1}),
    ]
    assert contested(offers) == {0}
    assert without_repeats(offers, [[1, 2], [3, 2], [], [1]]) == [False, True, True, True]
    assert without_repeats(offers, [[1], [2], [], [3]]) == [True] * 4


@pytest.mark.parametrize("lengths", ["cached", "on_read"])
@pytest.mark.parametrize("balance", ["backbone", "per_phase"])
def test_a_step_that_waits_is_one_of_padding(
    lengths: str, balance: str, processor: Processor, make_config: MakeConfig
) -> None:
    """Three samples for two groups: the second has one of the first epoch, the first has two."""
    config = make_config(rows=4, balance=balance)
    source, groups_of_hosts = mixed_source(3, seed=0), Groups(2)
    loaders: list[MicrobatchLoader] = []
    for number in range(2):
        rows = dict.fromkeys(("decoder", "vision", "audio"), (2 * number, 2 * number + 1))
        group = HostGroupSpec(number, 2, (number,), rows)
        common = source, processor, config, 0
        consumer = TrainingDemand(WORK, microbatches=2, group=group)
        loader = (
            DataLoader(*common, rows, None, consumer)
            if lengths == "cached"
            else MeasuringDataLoader(*common, [rows], None, consumer, SingleHost())
        )
        loaders.append(
            GroupTurnLoader(loader, LoaderState(0), group, 2, False, groups_of_hosts.tell(number))
        )
    results = groups_of_hosts.steps(loaders, 8)
    order = stream(source, 0)
    for first in range(0, 8, 2):
        step = [m for microbatch in results for m in microbatch[first : first + 2]]
        assert sorted(order[p][0] for p in positions(step)) == [0, 1, 2]
    waits = [m for microbatch in results for m in microbatch if not m.stats.samples]
    assert waits
    for wait in waits:
        decoder = wait.batch.text_rows
        assert not any(array.any() for array in of_tokens(decoder))
        assert all((merged == -1).all() for merged in decoder.merges.values())
        media = {name: wait.batch.rows[name] for name in decoder.merges}
        assert not any(array.any() for _, array in arrays(media))
        assert all(not len(runs) for runs in (wait.batch.runs or {}).values())
        assert not any(load.after.any() for load in wait.stats.loads.values())
        assert {*wait.stats.used.values()} == {0}
        assert wait.stats.padding_shares["tokens"] == 1
    shapes = [
        [array.shape for array in of_tokens(microbatch.batch.text_rows)]
        for microbatch in (waits[0], padding_of(waits[0]), results[0][0])
    ]
    assert shapes[0] == shapes[1] == shapes[2]
    for turns_loader in loaders:
        turns_loader.close()
