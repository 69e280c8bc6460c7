"""The stream of plans: exact epochs, exact resumption, memoised measurements."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.config import Balance
from data.planning.lengths import LengthTable, measure
from data.planning.packing import Capacity, spans_of
from data.planning.stream import (
    BatchPlanner,
    LoaderState,
    MicrobatchPlan,
    SkippedSample,
    TrainingDemand,
)
from data.processing.processor import Processor
from data.sample import DataError, SampleError
from tests.data.samples import (
    AUDIO,
    BUDGETS,
    CAPACITY,
    UNITS,
    VISION,
    WORK,
    ListSource,
    MakeConfig,
    make_sample,
    mixed_source,
)

LADDER = (0.3, 0.6, 1.0)


def make_planner(
    source: ListSource,
    processor: Processor,
    make_config: MakeConfig,
    state: LoaderState,
    microbatches: int = 1,
    hosts: int = 1,
    lengths: LengthTable | None = None,
    **changes: object,
) -> BatchPlanner:
    config = make_config(**changes)
    owners = {name: [row % hosts for row in range(config.rows)] for name in WORK}
    lengths = lengths or measure(source, processor)
    consumer = TrainingDemand(WORK, owners, microbatches=microbatches, readers=hosts)
    return BatchPlanner(source, lengths, config, CAPACITY, state, consumer)


def epochs(source: ListSource, planner: BatchPlanner, microbatches: int) -> list[int]:
    """How often each sample was placed or is carried, over `microbatches` microbatches."""
    plans = [planner.plan() for _ in range(microbatches)]
    placed = [p.index for plan in plans for p in plan.placements]
    carried = [planner._stream[p][0] for p in planner.state.carry]
    skipped = [int(name.removeprefix("bad")) for plan in plans for name, _ in plan.skipped]
    everything = placed + carried + skipped
    assert len(everything) == planner.state.position
    return [everything.count(index) for index in range(len(source))]


@settings(max_examples=12)
@given(
    count=st.integers(1, 60),
    lookahead=st.integers(1, 80),
    rows=st.integers(1, 5),
    balance=st.sampled_from(get_args(Balance)),
)
def test_every_sample_comes_once_in_every_epoch(
    count: int,
    lookahead: int,
    rows: int,
    balance: Balance,
    processor: Processor,
    make_config: MakeConfig,
) -> None:
    source = mixed_source(count, seed=count)
    changes: dict[str, Any] = {"lookahead": lookahead, "rows": rows, "balance": balance}
    planner = make_planner(source, processor, make_config, LoaderState(3), **changes)
    counts = epochs(source, planner, microbatches=12)
    full = planner.state.position // count
    assert set(counts) <= {full, full + 1}


def test_malformed_samples_are_skipped_once_an_epoch(
    processor: Processor, make_config: MakeConfig
) -> None:
    source = mixed_source(20)
    source.samples[4] = "no conversation"
    planner = make_planner(source, processor, make_config, LoaderState(3))
    counts = epochs(source, planner, microbatches=12)
    assert set(counts) <= {min(counts), min(counts) + 1}


def test_epochs_are_shuffled_differently(processor: Processor, make_config: MakeConfig) -> None:
    planner = make_planner(mixed_source(40), processor, make_config, LoaderState(3))
    orders = [[planner._stream[40 * e + i][0] for i in range(40)] for e in range(3)]
    assert all(sorted(order) == list(range(40)) for order in orders)
    assert orders[0] != orders[1] != orders[2]


@pytest.mark.parametrize("balance", get_args(Balance))
def test_a_planner_continues_from_the_state_of_every_microbatch(
    balance: Balance, processor: Processor, make_config: MakeConfig
) -> None:
    source = mixed_source(30)
    planner = make_planner(source, processor, make_config, LoaderState(3), balance=balance)
    plans: list[MicrobatchPlan] = [planner.plan() for _ in range(8)]
    for done in range(1, 8):
        saved = json.loads(json.dumps(plans[done - 1].state.to_json()))
        state = LoaderState.from_json(saved)
        resumed = make_planner(source, processor, make_config, state, balance=balance)
        for plan in plans[done:]:
            again = resumed.plan()
            assert replace(again, loads={}) == replace(plan, loads={})


def test_the_oldest_samples_are_offered_first_and_none_waits_longer_than_its_rank(
    processor: Processor, make_config: MakeConfig
) -> None:
    planner = make_planner(
        mixed_source(60), processor, make_config, LoaderState(3), rows=1, lookahead=25
    )
    waits: dict[int, int] = {}
    for _ in range(40):
        planner.plan()
        carry = planner.state.carry
        assert list(carry) == sorted(carry)
        waits = {position: waits.get(position, 0) + 1 for position in carry}
        assert max(waits.values(), default=0) < 25


@settings(max_examples=30)
@given(
    count=st.integers(1, 40),
    samples=st.integers(1, 40),
    rows=st.integers(1, 4),
    microbatches=st.integers(1, 3),
    balance=st.sampled_from(get_args(Balance)),
)
def test_steps_of_a_fixed_number_of_samples(
    count: int,
    samples: int,
    rows: int,
    microbatches: int,
    balance: Balance,
    processor: Processor,
    make_config: MakeConfig,
) -> None:
    """Every sample once an epoch; all microbatches of a step on one rung, which is no waste."""
    source = mixed_source(count, seed=count)
    changes: dict[str, Any] = {"rows": rows, "balance": balance, "ladder": LADDER}
    fixed = changes | {"batch": "samples", "samples": samples}
    planner = make_planner(source, processor, make_config, LoaderState(3), microbatches, **fixed)
    placed: list[int] = []
    for _ in range(6):
        before = planner.state
        plans = [planner.plan() for _ in range(microbatches)]
        own = [p.index for plan in plans for p in plan.placements]
        placed += own
        read = planner.state.position - before.position
        left = count - (before.position - len(before.carry)) % count  # of the epoch
        assert len(before.carry) + read == min(samples, left)
        assert len(own) == min(samples, left) - len(planner.state.carry)
        assert own
        capacities = {plan.capacity for plan in plans}
        assert len(capacities) == 1
        check_rungs(capacities.pop(), [used(plan, rows) for plan in plans])
    waiting = [planner._stream[p][0] for p in planner.state.carry]
    counts = [(placed + waiting).count(index) for index in range(count)]
    assert set(counts) <= {min(counts), min(counts) + 1}


@settings(max_examples=20, deadline=None)
@given(
    count=st.integers(1, 40),
    total=st.sampled_from([2, 4, 6, 8, 12]),
    lookahead=st.sampled_from([5, 40, 90]),
    balance=st.sampled_from(get_args(Balance)),
    samples=st.sampled_from([None, 8, 120]),
    data=st.data(),
)
def test_a_step_has_the_same_samples_however_it_is_split(
    count: int,
    total: int,
    lookahead: int,
    balance: Balance,
    samples: int | None,
    data: st.DataObject,
    processor: Processor,
    make_config: MakeConfig,
) -> None:
    """Every split over microbatches and hosts gives the same samples and leaves the same state."""
    source = mixed_source(count, seed=count)
    source.samples[count // 2] = source.samples[0] if count < 3 else "no conversation"
    fixed: dict[str, Any] = {"balance": balance, "lookahead": lookahead}
    if samples:
        fixed |= {"batch": "samples", "samples": samples, "ladder": LADDER}
    seen, lengths = [], measure(source, processor)
    for rows in (r for r in range(1, total + 1) if total % r == 0):
        hosts, number = data.draw(st.integers(1, 4)), total // rows
        changes = fixed | {"rows": rows}
        planner = make_planner(
            source, processor, make_config, LoaderState(3), number, hosts, lengths, **changes
        )
        steps = [[planner.plan() for _ in range(number)] for _ in range(3)]
        for plan in (plan for step in steps for plan in step):
            assert all(n <= plan.capacity.limit(name) for name, n in used(plan, rows).items())
        seen.append([(content_of(step), step[-1].state) for step in steps])
    assert all(other == seen[0] for other in seen[1:])


def content_of(step: Sequence[MicrobatchPlan]) -> tuple[list[int], list[SkippedSample]]:
    """Stream positions of the samples of a step, and what it has skipped."""
    positions = [p.position for plan in step for p in plan.placements]
    return sorted(positions), [skip for plan in step for skip in plan.skipped]


def used(plan: MicrobatchPlan, rows: int) -> dict[str, int]:
    """Positions of the fullest row by resource."""
    full: Counter[tuple[str, int]] = Counter()
    for p in plan.placements:
        full["tokens", p.row] += p.lengths.total("decoder")
        for spec in (VISION, AUDIO):
            own = spans_of(spec, p.lengths.counts(spec.name))
            for (row, _, _), span in zip(p.media[spec.name], own, strict=True):
                full[spec.name, row] += span
    names = ("tokens", "vision", "audio")
    return {name: max(full[name, row] for row in range(rows)) for name in names}


def check_rungs(capacity: Capacity, fullest: Sequence[Mapping[str, int]]) -> None:
    """A budget is on the ladder, holds the fullest row, and one of the microbatches needs it."""
    for name, unit in UNITS.items():
        most = max(own[name] for own in fullest)
        rungs = sorted({unit * math.ceil(s * BUDGETS[name] / unit) for s in LADDER})
        assert capacity.limit(name) == next(rung for rung in rungs if rung >= most)


@pytest.mark.parametrize("balance", get_args(Balance))
def test_a_planner_of_fixed_samples_continues_within_a_step(
    balance: Balance, processor: Processor, make_config: MakeConfig
) -> None:
    source = mixed_source(30)
    fixed: dict[str, Any] = {"batch": "samples", "samples": 17, "rows": 2, "balance": balance}
    planner = make_planner(source, processor, make_config, LoaderState(3), 3, **fixed)
    plans = [planner.plan() for _ in range(9)]
    for done in range(1, 9):
        saved = json.loads(json.dumps(plans[done - 1].state.to_json()))
        state = LoaderState.from_json(saved)
        resumed = make_planner(source, processor, make_config, state, 3, **fixed)
        for plan in plans[done:]:
            assert replace(resumed.plan(), loads={}) == replace(plan, loads={})


def test_a_sample_larger_than_a_row_does_not_depend_on_how_a_step_is_split(
    processor: Processor, make_config: MakeConfig
) -> None:
    """Three images that need two rows, among small ones: splits that have two rows agree."""
    samples = [make_sample(f"s{i}", [280] * 3 if i % 5 == 0 else [8 + i]) for i in range(30)]
    changes: dict[str, Any] = {"balance": "per_phase", "lookahead": 30}
    seen = []
    for rows, number in ((8, 1), (4, 2), (2, 4), (1, 8)):
        source = ListSource(samples)
        planner = make_planner(
            source, processor, make_config, LoaderState(3), number, rows=rows, **changes
        )
        step = [planner.plan() for _ in range(number)]
        assert all(used(plan, rows)["vision"] <= BUDGETS["vision"] for plan in step)
        seen.append((content_of(step), step[-1].state))
    assert seen[0][0][1] == []
    assert seen[0] == seen[1] == seen[2]
    assert {name for name, _ in seen[3][0][1]} == {f"s{i}" for i in range(0, 30, 5)}


def test_a_sample_larger_than_all_rows_is_skipped(
    processor: Processor, make_config: MakeConfig
) -> None:
    """Each of its images has room, and all of them have not: it must not wait for ever."""
    source = ListSource([make_sample("huge", [280] * 5), make_sample("small", [8])])
    planner = make_planner(
        source, processor, make_config, LoaderState(3), balance="per_phase", rows=2, lookahead=2
    )
    (skip,) = set(planner.plan().skipped)
    assert skip[0] == "huge"
    assert "needs 175 vision, above data.budgets' 72 for a row, and its media do" in str(skip[1])


def test_microbatches_of_a_step_are_even_in_time(
    processor: Processor, make_config: MakeConfig
) -> None:
    """Texts, images and clips in turn: as they come, each microbatch has only one of them."""
    kinds = [("1 " * 60, [], []), ("1", [140], []), ("1", [], [4000])]
    samples = [
        make_sample(f"s{i}", widths, clips, text)
        for i, (text, widths, clips) in enumerate(kinds * 8)
    ]
    fixed: dict[str, Any] = {"batch": "samples", "samples": 24, "rows": 2, "on_error": "raise"}
    even = {}
    for balance in ("none", "per_phase"):
        changes = fixed | {"balance": balance}
        planner = make_planner(
            ListSource(samples), processor, make_config, LoaderState(3), 4, **changes
        )
        plans = [planner.plan() for _ in range(4)]
        even[balance] = {
            name: max(plan.loads[name].after.sum() for plan in plans)
            / np.mean([plan.loads[name].after.sum() for plan in plans])
            for name in WORK
        }
    assert max(even["none"].values()) > 1.3
    assert max(even["per_phase"].values()) < 1.05


def test_a_sample_is_measured_once(processor: Processor, make_config: MakeConfig) -> None:
    source = mixed_source(15)
    planner = make_planner(source, processor, make_config, LoaderState(3))
    for _ in range(10):
        planner.plan()
    assert planner.state.position > 30
    # The first one is looked at before, to see that there are whole records at all.
    assert sorted(source.asked) == [0, *range(15)]


def test_a_source_without_a_usable_sample_is_an_error(
    processor: Processor, make_config: MakeConfig
) -> None:
    source = ListSource(["broken"] * 5)
    with pytest.raises(DataError, match=r"no sample is usable \(5\); the first, bad0: broken"):
        make_planner(source, processor, make_config, LoaderState(0))


def test_raise_names_the_sample(processor: Processor, make_config: MakeConfig) -> None:
    source = ListSource(["broken"])
    planner = make_planner(source, processor, make_config, LoaderState(0), on_error="raise")
    with pytest.raises(SampleError, match="sample bad0: broken"):
        planner.plan()


def test_a_state_that_counts_microbatches_goes_on_without_losing_a_sample(
    processor: Processor, make_config: MakeConfig
) -> None:
    """The state is one that was saved when each microbatch was packed separately."""
    saved = {"seed": 3, "step": 17, "position": 40, "carry": [3, 31, 38], "done": 0}
    state, source = LoaderState.from_json(saved), mixed_source(60)
    planner = make_planner(source, processor, make_config, state, 4, rows=1, lookahead=20)
    plans = [planner.plan() for _ in range(12)]
    placed = [p.position for plan in plans for p in plan.placements]
    assert 3 in {p.position for plan in plans[:4] for p in plan.placements}
    after = planner.state
    assert sorted([*placed, *after.carry]) == [3, 31, 38, *range(40, after.position)]


def test_a_state_within_a_step_is_for_steps_of_as_many_microbatches(
    processor: Processor, make_config: MakeConfig
) -> None:
    state = LoaderState(3, done=2)
    make_planner(mixed_source(5), processor, make_config, state, 3)
    with pytest.raises(DataError, match="2 microbatches into a step, which has 2 now"):
        make_planner(mixed_source(5), processor, make_config, state, 2)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"seed": 1, "step": 2, "position": 3},
        {"seed": 1, "step": "2", "position": 3, "carry": [], "done": 0},
        {"seed": 1, "step": 2, "position": 3, "carry": [], "done": 0, "plan": 4},
    ],
)
def test_a_foreign_state_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(DataError, match="not a loader state"):
        LoaderState.from_json(value)
