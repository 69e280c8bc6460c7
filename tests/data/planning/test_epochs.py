"""An epoch is an epoch for data of any size: every sample comes before any comes again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.batch import NEXT_TOKEN
from data.config import DataConfig
from data.faults import FaultKind, SampleFault
from data.loading.loader import DataLoader
from data.loading.on_read import MeasuringDataLoader, SingleHost
from data.planning.epochs import list_offered, list_readable
from data.planning.groups.group import HostGroupSpec
from data.planning.lengths import LengthTable
from data.planning.packing import make_capacity
from data.planning.stream import BatchPlanner, LoaderState, MicrobatchPlan, TrainingDemand, stream
from data.processing.processor import Processor
from data.sample import Lengths
from data.sources.make import make_source
from data.sources.order import MixedOrder
from data.sources.source import Source
from tests.data.samples import (
    AUDIO,
    TEXT,
    VISION,
    WORK,
    ListSource,
    MakeConfig,
    all_rows,
    assert_same_arrays,
    make_lengths,
    mixed_source,
)

BUDGETS = {"tokens": 60, "vision": 48, "audio": 64, "segments": 8}
CAPACITY = make_capacity(BUDGETS, (TEXT, VISION, AUDIO))


@dataclass(frozen=True)
class Pooled:
    """A sample of a pool."""

    epoch: tuple[int, int]


def test_the_oldest_epoch_of_every_member_is_on_offer() -> None:
    pool = [Pooled(own) for own in [(0, 3), (1, 0), (0, 3), (1, 1), (2, 5), (0, 4), (1, 0)]]
    assert list_offered(pool) == [0, 1, 2, 4, 6]
    assert list_offered([]) == []
    epochs = [(0, 3), (1, 1), (2, 6), (3, 0), (3, 1), (1, 2), (0, 3)]
    assert list_readable(pool, range(10, 17), lambda p: epochs[p - 10], 1) == [10, 11, 12, 13, 14]
    assert list_readable(pool, range(10, 17), lambda p: epochs[p - 10], 0) == [10]
    assert list_readable([], range(10, 17), lambda p: epochs[p - 10], 0) == [10, 11, 12, 13]


def lengths_of(count: int, seed: int, spread: float, bad: float = 0.0) -> LengthTable:
    """Lengths of samples, of which a share cannot be used, but never all."""
    rng = np.random.default_rng(seed)
    found: list[Lengths | SampleFault] = []
    for number in range(count):
        if number and rng.random() < bad:
            found.append(SampleFault(FaultKind.IMAGE, "broken"))
            continue
        tokens = int(np.clip(rng.lognormal(2.0, spread), 1, BUDGETS["tokens"]))
        patches = (int(rng.integers(1, 49)),) if rng.random() < 0.3 and tokens > 12 else ()
        starts: dict[str, tuple[int, ...]] = {"vision": (0,)} if patches else {}
        found.append(make_lengths(tokens, {"vision": patches} if patches else {}, starts))
    return LengthTable.from_lengths(found, [TEXT, VISION, AUDIO])


def mixture_of(sizes: Sequence[int], weights: Sequence[float]) -> dict[str, Any]:
    """A configuration of several sources."""
    members = {
        f"m{n}": {"weight": weight, "source": {"kind": "synthetic", "samples": size}}
        for n, (size, weight) in enumerate(zip(sizes, weights, strict=True))
    }
    return {"kind": "mixture", "members": members}


def steps_of(planner: BatchPlanner, microbatches: int, count: int) -> list[list[MicrobatchPlan]]:
    return [[planner.plan() for _ in range(microbatches)] for _ in range(count)]


def check_epochs(
    steps: Sequence[Sequence[MicrobatchPlan]], source: Source, table: LengthTable, seed: int
) -> None:
    """Every epoch of a member is a permutation of it, and no step has samples of two epochs."""
    order = stream(source, seed)
    sizes = order.sizes if isinstance(order, MixedOrder) else (len(source),)
    ends = np.cumsum(sizes)
    usable = [
        {i for i in range(end - size, end) if i not in table.unusable}
        for size, end in zip(sizes, ends.tolist(), strict=True)
    ]
    came: list[list[int]] = [[] for _ in sizes]
    for step in steps:
        placed = [p for plan in step for p in plan.placements]
        assert len({p.index for p in placed}) == len(placed) > 0
        epochs = {order.epoch_at(p.position) for p in placed}
        assert len({member for member, _ in epochs}) == len(epochs)
        for p in placed:
            assert order[p.position] == p.key
            came[order.epoch_at(p.position)[0]].append(p.index)
    for own, every in zip(came, usable, strict=True):
        for first in range(0, len(own), max(1, len(every))):
            epoch = own[first : first + len(every)]
            assert len({*epoch}) == len(epoch)
            assert {*epoch} == every or first + len(every) > len(own)


shapes = st.fixed_dictionaries(
    {
        "rows": st.integers(1, 8),
        "lookahead": st.none() | st.integers(1, 400),
        "balance": st.sampled_from(["none", "per_phase"]),
        "batch": st.sampled_from(["tokens", "tokens", "samples"]),
    }
)


def config_of(make_config: MakeConfig, shape: dict[str, Any], **changes: Any) -> DataConfig:
    own = shape | {"budgets": BUDGETS} | changes
    if own["batch"] == "samples":
        own |= {"samples": 5 * own["rows"]}
    return make_config(**own)


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(1, 60) | st.integers(1, 300),
    shape=shapes,
    microbatches=st.integers(1, 3),
    spread=st.sampled_from([0.1, 1.0, 2.0]),
    bad=st.sampled_from([0.0, 0.4]),
    seed=st.integers(0, 99),
)
def test_every_epoch_has_every_sample_once(
    count: int,
    shape: dict[str, Any],
    microbatches: int,
    spread: float,
    bad: float,
    seed: int,
    make_config: MakeConfig,
) -> None:
    """The same samples come from the state of every microbatch on, and are a permutation."""
    config, table = config_of(make_config, shape), lengths_of(count, seed, spread, bad)
    source, consumer = ListSource(["none"] * count), TrainingDemand(WORK, microbatches=microbatches)

    def begun(state: LoaderState) -> BatchPlanner:
        return BatchPlanner(source, table, config, CAPACITY, state, consumer)

    steps = steps_of(begun(LoaderState(seed)), microbatches, 7)
    check_epochs(steps, source, table, seed)
    every = [plan for step in steps for plan in step]
    for done in (n * len(every) // 4 for n in range(1, 4)):
        saved = json.loads(json.dumps(every[done - 1].state.to_json()))
        resumed = begun(LoaderState.from_json(saved))
        for plan in every[done:]:
            assert replace(resumed.plan(), loads={}) == replace(plan, loads={})


@settings(max_examples=15, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40) | st.integers(1, 300), min_size=1, max_size=4),
    shape=shapes,
    weights=st.lists(st.floats(0.05, 1.0), min_size=4, max_size=4),
    seed=st.integers(0, 99),
)
def test_every_member_of_a_mixture_has_epochs_of_its_own(
    sizes: list[int],
    shape: dict[str, Any],
    weights: list[float],
    seed: int,
    make_config: MakeConfig,
) -> None:
    mixture = mixture_of(sizes, weights[: len(sizes)])
    config = config_of(make_config, shape, source=mixture)
    source, table = make_source(config), lengths_of(sum(sizes), seed, 1.0, 0.2)

    def begun(state: LoaderState) -> BatchPlanner:
        return BatchPlanner(source, table, config, CAPACITY, state, TrainingDemand(WORK))

    steps = steps_of(begun(LoaderState(seed)), 1, 12)
    check_epochs(steps, source, table, seed)
    for done in (3, 8):
        resumed = begun(steps[done - 1][0].state)
        for (plan,) in steps[done:]:
            assert replace(resumed.plan(), loads={}) == replace(plan, loads={})


def test_a_mixture_keeps_its_weights_though_a_member_is_small(make_config: MakeConfig) -> None:
    """Ten samples of which half of all shall be: a step has each of them once at most."""
    config = make_config(
        source=mixture_of([10, 5000], [0.5, 0.5]), rows=4, lookahead=200, budgets=BUDGETS
    )
    source, table = make_source(config), lengths_of(5010, 0, 0.1)
    planner = BatchPlanner(source, table, config, CAPACITY, LoaderState(0), TrainingDemand(WORK))
    steps = steps_of(planner, 1, 30)
    check_epochs(steps, source, table, 0)
    small = [sum(p.index < 10 for p in step[0].placements) for step in steps]
    assert sum(small) / sum(len(step[0].placements) for step in steps) == pytest.approx(
        0.5, abs=0.05
    )
    assert len(planner.state.carry) <= 400


def test_samples_that_wait_take_no_room_from_others(make_config: MakeConfig) -> None:
    """Those of a small member's next epoch wait for the last ones of this."""
    mixture = mixture_of([150, 5000], [0.5, 0.5])
    config = make_config(source=mixture, rows=4, lookahead=200, budgets=BUDGETS)
    source, table = make_source(config), lengths_of(5150, 0, 0.1)
    planner = BatchPlanner(source, table, config, CAPACITY, LoaderState(0), TrainingDemand(WORK))
    waiting = []
    for (plan,) in steps_of(planner, 1, 8):
        assert plan.offered == 200
        waiting.append(len(plan.state.carry) + len(plan.placements) - plan.offered)
    assert waiting[0] == 0 < 50 < waiting[-1] <= 200


@settings(max_examples=10, deadline=None)
@given(count=st.integers(1, 200), shape=shapes, others=st.lists(shapes, min_size=3, max_size=3))
def test_an_epoch_goes_on_with_other_rows_and_another_look_ahead(
    count: int, shape: dict[str, Any], others: list[dict[str, Any]], make_config: MakeConfig
) -> None:
    table, source = lengths_of(count, count, 1.0), ListSource(["none"] * count)
    state, steps = LoaderState(7), []
    for own in (shape, *others):
        config = config_of(make_config, own)
        planner = BatchPlanner(source, table, config, CAPACITY, state, TrainingDemand(WORK))
        steps += steps_of(planner, 1, 3)
        state = planner.state
    check_epochs(steps, source, table, 7)


def test_a_state_with_samples_of_several_epochs_goes_on(make_config: MakeConfig) -> None:
    """Runs of earlier versions carry samples of later epochs beside those of this one."""
    count = 12
    table, source = lengths_of(count, 0, 1.0), ListSource(["none"] * count)
    config = make_config(rows=1, lookahead=20, budgets=BUDGETS)
    carry = (3, 7, 11, 12, 15, 16, 20, 23, 25, 26, 30, 35, 36)
    planner = BatchPlanner(
        source, table, config, CAPACITY, LoaderState(1, 4, 38, carry), TrainingDemand(WORK)
    )
    positions = [p.position for (plan,) in steps_of(planner, 1, 30) for p in plan.placements]
    epochs = [position // count for position in positions]
    assert epochs == sorted(epochs)
    assert len({*positions}) == len(positions)
    assert {*carry} <= {*positions}
    read = sorted({*positions, *planner.state.carry})
    assert read == [*carry, *range(38, planner.state.position)]


def test_a_state_before_the_end_of_an_epoch_names_what_is_left(make_config: MakeConfig) -> None:
    """Between epochs nothing is carried, and what a step may not take is not read."""
    count = 30
    table, source = lengths_of(count, 0, 1.0), ListSource(["none"] * count)
    config = make_config(rows=1, lookahead=500, budgets=BUDGETS)
    planner, left = (
        BatchPlanner(source, table, config, CAPACITY, LoaderState(1), TrainingDemand(WORK)),
        count,
    )
    for _ in range(30):
        plan = planner.plan()
        assert plan.offered == left
        left -= len(plan.placements)
        assert len(planner.state.carry) == left
        left = left or count


@pytest.mark.parametrize("count", [1, 3, 17])
@pytest.mark.parametrize("batch", ["tokens", "samples"])
def test_data_smaller_than_a_step_fill_the_rest_with_padding(
    count: int, batch: str, processor: Processor, make_config: MakeConfig
) -> None:
    """Also if microbatches and rows are empty; the same whether lengths are known or read."""
    source = mixed_source(count, seed=count)
    changes: dict[str, Any] = {"batch": batch, "samples": 40 if batch == "samples" else None}
    config = make_config(rows=8, on_error="raise", **changes)
    consumer, rows = TrainingDemand(WORK, microbatches=4), all_rows(8)
    known = DataLoader(source, processor, config, 0, rows, consumer=consumer)
    read = MeasuringDataLoader(source, processor, config, 0, [rows], None, consumer, SingleHost())
    with known, read:
        for _ in range(3):
            step = [next(known) for _ in range(4)]
            assert sorted(p for own in step for p in own.stats.stream_positions) == [
                *range(step[-1].state.position - count, step[-1].state.position)
            ]
            segments = sum((own.batch.text_rows.segment_ids > 0).sum() for own in step)
            assert segments == sum(own.stats.used["tokens"] for own in step)
            for own in step:
                decoder = own.batch.text_rows
                assert not decoder.targets[NEXT_TOKEN].weights[decoder.segment_ids == 0].any()
                other = next(read)
                assert other.state == own.state
                assert_same_arrays(other.batch, own.batch)


def test_a_group_of_hosts_takes_its_samples_once_in_every_epoch(make_config: MakeConfig) -> None:
    table, source = lengths_of(50, 0, 1.0), ListSource(["none"] * 50)
    config = make_config(rows=4, budgets=BUDGETS)
    for number in range(2):
        consumer = TrainingDemand(WORK, group=HostGroupSpec(number, 2))
        planner = BatchPlanner(source, table, config, CAPACITY, LoaderState(2), consumer)
        for step in (steps := steps_of(planner, 1, 12)):
            assert len({p.position // 50 for p in step[0].placements}) == 1
        positions = [p.position for (plan,) in steps for p in plan.placements]
        whole = len(positions) // 25 * 25
        assert sorted(positions[:whole]) == [*range(number, 2 * whole, 2)]
