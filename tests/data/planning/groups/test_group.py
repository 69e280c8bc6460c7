"""Groups of hosts share out rows and samples; each plans by itself; together they go on exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.faults import SampleFault
from data.planning.balance import lpt
from data.planning.groups.group import WHOLE, HostGroupSpec, make_groups, sizes_of_groups
from data.planning.packing import make_capacity
from data.planning.problem import BalanceProblem
from data.planning.stream import (
    BatchPlanner,
    LoaderState,
    Measurements,
    MicrobatchPlan,
    TrainingDemand,
    joined,
)
from data.rows.spec import BucketCost, LengthBucket
from data.sample import DataError, Lengths
from data.sources.order import StreamPlace
from tests.data.planning.test_packing import sample_lengths
from tests.data.samples import (
    AUDIO,
    CAPACITY,
    TEXT,
    VISION,
    WORK,
    ListSource,
    MakeConfig,
    make_lengths,
    make_sample,
)

ROWS = 8
#: More than a step takes.
OFFERED = 40


class Told(Measurements):
    """Lengths by the index of a sample; notes which stream positions were asked for."""

    def __init__(self, lengths: Sequence[Lengths]) -> None:
        self.lengths, self.asked = list(lengths), list[int]()

    def at(self, places: Sequence[StreamPlace]) -> list[Lengths | SampleFault]:
        self.asked += [position for position, _, _ in places]
        return [self.lengths[index] for _, index, _ in places]


def held(hosts: int) -> list[dict[str, list[int]]]:
    """The rows of every host, in their order for text and against it for media."""
    share = ROWS // hosts
    texts = [[*range(h * share, (h + 1) * share)] for h in range(hosts)]
    return [
        {"decoder": own, "vision": other, "audio": other}
        for own, other in zip(texts, texts[::-1], strict=True)
    ]


def planners(
    make_config: MakeConfig,
    lengths: Sequence[Lengths],
    count: int,
    state: LoaderState,
    **changes: Any,
) -> list[BatchPlanner]:
    """The planner of every one of `count` groups."""
    config = make_config(**{"rows": ROWS, "lookahead": OFFERED} | changes)
    source = ListSource([make_sample(str(i)) for i in range(len(lengths))])
    groups = make_groups(config, held(4), 4 // count) if count > 1 else [WHOLE]
    return [
        BatchPlanner(
            source, Told(lengths), config, CAPACITY, state, TrainingDemand(WORK, group=group)
        )
        for group in groups
    ]


def positions(plans: Sequence[MicrobatchPlan]) -> list[int]:
    return [placement.position for plan in plans for placement in plan.placements]


COUNTS = st.sampled_from([1, 2, 4])
SAMPLES = st.lists(
    sample_lengths.filter(lambda n: CAPACITY.misfit(n) is None), min_size=5, max_size=60
)


@settings(max_examples=15)
@given(samples=SAMPLES, count=COUNTS, balance=st.sampled_from(["backbone", "per_phase"]))
def test_groups_fill_their_own_rows_with_every_sample_once(
    samples: list[Lengths], count: int, balance: str, make_config: MakeConfig
) -> None:
    own = planners(make_config, samples, count, LoaderState(3), balance=balance)
    plans = [[planner.plan() for _ in range(4)] for planner in own]
    for planner, made in zip(own, plans, strict=True):
        group = made[0].group
        for placement in (p for plan in made for p in plan.placements):
            if count > 1:
                assert placement.row in group.rows["decoder"]
                for name, media in placement.media.items():
                    assert {row for row, _, _ in media} <= {*group.rows[name]}
        assert all(len(plan.loads["vision"].after) == ROWS // count for plan in made)
        assert all(p % count == group.number for p in planner._lengths.asked)  # type: ignore[attr-defined]
    after = joined([planner.state for planner in own])
    seen = Counter([p for made in plans for p in positions(made)] + [*after.carry])
    assert seen == Counter(range(after.position))


@settings(max_examples=15)
@given(samples=SAMPLES, other=SAMPLES, count=st.sampled_from([2, 4]), data=st.data())
def test_a_group_plans_from_its_own_lengths_alone(
    samples: list[Lengths],
    other: list[Lengths],
    count: int,
    data: st.DataObject,
    make_config: MakeConfig,
) -> None:
    """All samples that the group has not asked for get other lengths."""
    number = data.draw(st.integers(0, count - 1))
    first = planners(make_config, samples, count, LoaderState(3))[number]
    plans = [first.plan() for _ in range(2)]
    asked = {first._stream[p][0] for p in first._lengths.asked}  # type: ignore[attr-defined]
    changed = [n if i in asked else other[i % len(other)] for i, n in enumerate(samples)]
    second = planners(make_config, changed, count, LoaderState(3))[number]
    again = [second.plan() for _ in range(2)]
    assert [p.placements for p in again] == [p.placements for p in plans]


@settings(max_examples=15)
@given(samples=SAMPLES, count=COUNTS, then=COUNTS, steps=st.integers(1, 3))
def test_a_joined_state_continues_exactly_and_with_any_number_of_groups(
    samples: list[Lengths], count: int, then: int, steps: int, make_config: MakeConfig
) -> None:
    own = planners(make_config, samples, count, LoaderState(3))
    before = [p for planner in own for p in positions([planner.plan() for _ in range(steps)])]
    saved = LoaderState.from_json(joined([planner.state for planner in own]).to_json())
    assert saved.step == steps
    resumed = planners(make_config, samples, then, saved)
    rest = [[planner.plan() for _ in range(3)] for planner in resumed]
    if then == count:
        for planner, made in zip(own, rest, strict=True):
            for plan in made:
                assert replace(plan, loads={}, state=saved) == replace(
                    planner.plan(), loads={}, state=saved
                )
    after = joined([planner.state for planner in resumed])
    seen = Counter([*before, *(p for made in rest for p in positions(made)), *after.carry])
    assert seen == Counter(range(after.position))
    if then == count:
        assert after == joined([planner.state for planner in own])


def test_a_fixed_number_of_samples_is_shared_out(make_config: MakeConfig) -> None:
    lengths = [make_lengths(20 + i % 7, {}) for i in range(48)]
    how = {"batch": "samples", "samples": 24, "ladder": (1.0,), "lookahead": None}
    for planner in planners(make_config, lengths, 4, LoaderState(3), **how):
        assert [len(planner.plan().placements) for _ in range(3)] == [6, 6, 6]


def test_hosts_of_a_group_read_its_samples_in_turn() -> None:
    group = HostGroupSpec(1, 3)
    own = group.positions(5, 4)
    assert [*own] == [7, 10, 13, 16]
    assert all(map(group.has_position, own))
    assert [group.reader_of(p, 2) for p in own] == [0, 1, 0, 1]
    assert [WHOLE.reader_of(p, 3) for p in range(6)] == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(
    ("size", "rows", "changes", "message"),
    [
        (3, held(4), {}, "3 does not divide 4, the number of hosts; valid: 1, 2, 4, or null"),
        (3, held(1), {}, "3 does not divide 1, the number of hosts; valid: 1, or null"),
        (8, held(4), {}, "8 does not divide 4, the number of hosts; valid: 1, 2, 4, or null"),
        (
            1,
            [own for own in held(2) for _ in range(2)],
            {},
            "1 would cut row 0 of decoder, which hosts of several groups hold; valid: 2, 4, or",
        ),
        (
            1,
            [{"decoder": [0, 1, 2]}, {"decoder": [3]}],
            {},
            "1 would give groups unequal numbers of the rows of decoder; valid: 2, or null",
        ),
        (
            1,
            held(4),
            {"batch": "samples", "samples": 6},
            "1 makes 4 groups, which do not divide data.samples 6; valid: 2, 4, or null",
        ),
    ],
)
def test_groups_that_cannot_be_are_refused(
    size: int,
    rows: list[dict[str, list[int]]],
    changes: dict[str, Any],
    message: str,
    make_config: MakeConfig,
) -> None:
    with pytest.raises(DataError, match=f"data.balance_group: {message}"):
        make_groups(make_config(**changes), rows, size)


def test_every_size_that_is_offered_is_accepted(make_config: MakeConfig) -> None:
    config = make_config()
    for hosts in (1, 2, 4, 8):
        for size in sizes_of_groups(config, held(hosts)):
            groups = make_groups(config, held(hosts), size)
            assert [h for own in groups for h in own.hosts] == [*range(hosts)]
            assert sorted(r for own in groups for r in own.rows["vision"]) == [*range(ROWS)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "has no effect, as data.balance is none"),
        (
            {"balance": "backbone", "batch": "samples", "samples": 8},
            r"is refused with data.ladder \[0.25, 0.5, 0.75, 1.0",
        ),
    ],
)
def test_settings_that_groups_cannot_have_are_refused(
    changes: dict[str, Any], message: str, make_config: MakeConfig
) -> None:
    with pytest.raises(ValueError, match=f"data.balance_group: 2 {message}"):
        make_config(balance_group=2, **changes)


#: Whole media on four ranks of both groups, and media split over two of these each.
LANES = {"short": BucketCost(4, 1.0, 1.0, 0.01), "long": BucketCost(2, 2.0, 0.6, 0.005)}


@settings(max_examples=20)
@given(
    st.lists(st.lists(st.integers(1, 60), max_size=3), min_size=8, max_size=30),
    st.integers(0, 1),
)
def test_media_of_buckets_are_even_over_the_devices_of_a_group_of_hosts(
    make_config: MakeConfig, media: list[list[int]], number: int
) -> None:
    """Two groups: the rows of each are distributed as if its ranks were all there are."""
    budgets = {"tokens": 200, "segments": 90, "short": 400, "long": 400, "audio": 64}
    short, long = LANES.values()
    buckets = (
        replace(VISION, name="short", bucket=LengthBucket("vision", 0, 40, short)),
        replace(VISION, name="long", bucket=LengthBucket("vision", 40, None, long)),
        AUDIO,
    )
    lengths = [
        make_lengths(5, {"vision": (*own,)}, {"vision": (*range(len(own)),)})
        if own
        else make_lengths(5)
        for own in media
    ]
    config = make_config(rows=ROWS, lookahead=OFFERED, budgets=budgets, balance="per_phase")
    work = {**WORK, "short": WORK["vision"], "long": WORK["vision"]}
    first = number * ROWS // 2
    group = HostGroupSpec(
        number, 2, (number,), dict.fromkeys(work, (*range(first, first + ROWS // 2),))
    )
    planner = BatchPlanner(
        ListSource([make_sample(str(i)) for i in range(len(lengths))]),
        Told(lengths),
        config,
        make_capacity(budgets, (TEXT, *buckets)),
        LoaderState(0),
        TrainingDemand(work, group=group),
    )
    plan = planner.plan()
    for name, cost in LANES.items():
        groups = cost.groups // 2
        rows = np.array([row - first for p in plan.placements for row, *_ in p.media[name]], int)
        assert set(rows.tolist()) <= set(range(ROWS // 2))
        own = np.array([n for p in plan.placements for n in p.lengths.counts(name)], np.int64)
        even = lpt(BalanceProblem(own, groups, cost))
        assigned = rows * groups // (ROWS // 2)
        seconds = cost.linear * own + cost.quadratic * own**2
        found, best = (np.bincount(g, seconds, groups) for g in (assigned, even))
        assert sorted(found) == pytest.approx(sorted(best))
