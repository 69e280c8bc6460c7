"""Every step cuts an encoder's buckets where both together take the fewest seconds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.config import Balance
from data.planning.bucket_thresholds import (
    bucket_seconds,
    choose_thresholds,
    cut_at,
    has_thresholds,
    of_group,
    relaid,
)
from data.planning.lengths import measure
from data.planning.packing import Capacity, make_capacity
from data.planning.stream import BatchPlanner, LoaderState, MicrobatchPlan, TrainingDemand
from data.processing.processor import Processor
from data.rows.spec import BucketCost, LengthBucket
from data.sample import Lengths
from tests.data.samples import (
    AUDIO,
    CAPACITY,
    TEXT,
    VISION,
    WORK,
    MakeConfig,
    make_lengths,
    mixed_source,
)

ROWS, MOST = 4, 24
#: Whole media on four ranks; media split over two, with exchanges.
SHORT, LONG = BucketCost(4, 1.0, 1.0, 0.01), BucketCost(2, 2.0, 0.6, 0.005)


def capacity(
    short: BucketCost = SHORT,
    long: BucketCost = LONG,
    room: int = 400,
    segments: int = 60,
    most: int = MOST,
) -> Capacity:
    """Two buckets of images, cut by cost at up to `most` patches, beside audio."""
    buckets = (
        replace(VISION, name="short", bucket=LengthBucket("vision", 0, most, short)),
        replace(VISION, name="long", bucket=LengthBucket("vision", most, None, long)),
        AUDIO,
    )
    budgets = {"tokens": 100, "segments": segments, "short": room, "long": room, "audio": 64}
    return make_capacity(budgets, (TEXT, *buckets))


def by_bucket(samples: Sequence[Lengths], own: Capacity) -> list[Lengths]:
    return [own.by_bucket(lengths) for lengths in samples]


def buckets_of(own: Capacity) -> tuple[LengthBucket, LengthBucket]:
    short, long = (m.bucket for m in own.media[:2])
    assert short
    assert long
    return short, long


def outcome(samples: Sequence[Lengths], own: Capacity, rows: int = ROWS) -> tuple[float, float]:
    """Steps that the media need, and seconds of both buckets, under the cut of a capacity."""
    needs = np.array([own.needs(lengths) for lengths in by_bucket(samples, own)])
    shares = needs.sum(0) / rows / own.limits
    kept = [own.resources.index(n) for n in ("short", "long", "short segments", "long segments")]
    media = [n for lengths in samples for n in lengths.counts("vision")]
    seconds = 0.0
    for spec, bucket in zip(own.media, buckets_of(own), strict=False):
        assert bucket.cost
        taken = np.sort([n for n in media if bucket.takes(n)]).astype(np.int64)
        seconds += bucket_seconds(taken, bucket.cost)
        assert spec.bucket is bucket
    return max(1.0, *shares[kept].tolist()), seconds


costs = st.builds(
    BucketCost,
    groups=st.integers(1, 6),
    fixed=st.floats(0, 5),
    linear=st.floats(0, 2),
    quadratic=st.floats(0, 0.1),
    row=st.sampled_from([0, 24, 40]),
    by_segment=st.booleans(),
)
samples_of = st.lists(
    st.lists(st.integers(1, 40), max_size=3).map(
        lambda media: make_lengths(
            5, {"vision": tuple(media)} if media else {}, {"vision": (0,) * 3}
        )
    ),
    min_size=1,
    max_size=14,
)


def whole(samples: list[Lengths]) -> list[Lengths]:
    """Samples whose starts are as many as their media."""
    return [
        replace(n, starts={k: tuple(range(len(own))) for k, own in n.modules.items()})
        for n in samples
    ]


@given(samples_of.map(whole))
def test_a_group_of_hosts_cuts_for_its_own_devices(samples: list[Lengths]) -> None:
    """Half of the rows on half of the devices: as if there were no others."""
    every, half = capacity(), capacity(replace(SHORT, groups=2), replace(LONG, groups=1))
    own = by_bucket(samples, every)
    found = choose_thresholds(own, of_group(every, 2), ROWS // 2)
    assert buckets_limits(found) == buckets_limits(choose_thresholds(own, half, ROWS // 2))


def buckets_limits(own: Capacity) -> list[tuple[int, int | None]]:
    return [(bucket.above, bucket.up_to) for bucket in buckets_of(own)]


@given(samples_of.map(whole), costs, costs, st.sampled_from([30, 60, 400]))
def test_no_cut_is_better(
    samples: list[Lengths], short: BucketCost, long: BucketCost, room: int
) -> None:
    highest = capacity(short, long, max(room, MOST))
    usable = [n for n in samples if not highest.misfit(highest.by_bucket(n), ROWS)]
    found = (
        choose_thresholds(by_bucket(usable, highest), highest, ROWS, ROWS) if usable else highest
    )
    steps, seconds = outcome(usable, found)
    for most in range(MOST + 1):
        other = cut_at(highest, "vision", most)
        if any(other.misfit(other.by_bucket(n), ROWS) for n in usable):
            continue
        others = outcome(usable, other)
        assert (steps, seconds) <= (others[0], others[1] * (1 + 1e-9) + 1e-12), most


def fewest(lengths: list[int], room: int) -> int:
    """The fewest rows that hold media, of all ways to lay them."""

    def least(left: list[int], rows: list[int]) -> int:
        if not left:
            return len(rows)
        first, *others = left
        places = [i for i, filled in enumerate(rows) if filled + first <= room]
        laid = [[n + first * (i == place) for i, n in enumerate(rows)] for place in places]
        return min(least(others, own) for own in [*laid, [*rows, first]])

    return least(lengths, [])


@given(st.lists(st.integers(1, 40), max_size=6), costs.filter(lambda cost: cost.row == 40))
def test_the_seconds_of_rows_are_those_of_the_fewest_that_hold_the_media(
    lengths: list[int], cost: BucketCost
) -> None:
    rows, found = fewest(lengths, 40), bucket_seconds(np.array(lengths, np.int64), cost)
    fullest = -(-rows // cost.groups)  # rows of the group that has most of them
    pairs = cost.quadratic * sum(n * n for n in lengths)
    if not cost.by_segment:
        whole = fullest * (cost.linear * 40 + cost.quadratic * 40 * 40)
        assert found == pytest.approx(cost.fixed + whole if rows else 0)
    elif cost.groups == 1:
        assert found == pytest.approx(cost.fixed + rows * cost.linear * 40 + pairs if rows else 0)
    elif rows:
        least = max(fullest * cost.linear * 40, (rows * cost.linear * 40 + pairs) / cost.groups)
        assert cost.fixed + least <= found * (1 + 1e-9)


@given(samples_of.map(whole), costs, costs, st.integers(0, 2**32 - 1))
def test_what_does_not_fit_is_never_cut_off(
    samples: list[Lengths], short: BucketCost, long: BucketCost, seed: int
) -> None:
    highest = capacity(short, long, room=40, segments=4)
    usable = [n for n in samples if not highest.misfit(highest.by_bucket(n))]
    if not usable:
        return
    found = choose_thresholds(by_bucket(usable, highest), highest, ROWS)
    laid = relaid(by_bucket(usable, highest), found)
    assert laid == by_bucket(usable, found)
    assert all(found.misfit(lengths) is None for lengths in laid)
    assert all(n <= MOST for lengths in laid for n in lengths.counts("short"))
    order = np.random.default_rng(seed).permutation(len(usable))
    assert choose_thresholds([by_bucket(usable, highest)[i] for i in order], highest, ROWS) == found


def test_a_long_medium_that_keeps_ranks_waiting_is_split() -> None:
    """The example of the module: 16, 16 and 90 positions on two ranks."""
    own = capacity(BucketCost(2, 0, 1, 0), BucketCost(1, 0, 0.5 + 1 / 30, 0), most=100)
    samples = [make_lengths(5, {"vision": (n,)}, {"vision": (0,)}) for n in (16, 16, 90)]
    seconds = [outcome(samples, cut_at(own, "vision", most))[1] for most in (90, 16, 0)]
    assert seconds == pytest.approx([90, 64, 61 + 122 / 30])
    found = choose_thresholds(by_bucket(samples, own), own, ROWS)
    assert [bucket.up_to or bucket.above for bucket in buckets_of(found)] == [16, 16]


def test_rows_that_are_computed_whole_are_counted() -> None:
    """Short media beside a long one take a second long row, which is dear if computed whole."""
    samples = [make_lengths(5, {"vision": (n,)}, {"vision": (0,)}) for n in (16, 16, 90)]
    for rows, expected, cut in (
        ((0, 0), [16 + 0.45 * 90, 0.45 * 122], 0),
        ((24, 96), [24 + 0.45 * 96, 2 * 0.45 * 96], 16),
    ):
        own = capacity(
            BucketCost(2, 0, 1.0, 0, rows[0]), BucketCost(1, 0, 0.45, 0, rows[1]), room=96
        )
        seconds = [outcome(samples, cut_at(own, "vision", most))[1] for most in (16, 0)]
        assert seconds == pytest.approx(expected)
        found = choose_thresholds(by_bucket(samples, own), own, ROWS)
        assert [bucket.up_to or bucket.above for bucket in buckets_of(found)] == [cut, cut]


def test_an_empty_bucket_takes_no_seconds() -> None:
    samples = [make_lengths(5, {"vision": (8, 8)}, {"vision": (0, 1)})] * 4
    dear, cheap = BucketCost(4, 9.0, 1.0, 0.0), BucketCost(4, 1.0, 0.5, 0.0)
    for costs_, bucket in (((dear, cheap), "long"), ((cheap, dear), "short")):
        own = capacity(*costs_)
        laid = relaid(
            by_bucket(samples, own), choose_thresholds(by_bucket(samples, own), own, ROWS)
        )
        assert [{*lengths.modules} for lengths in laid] == [{"decoder", bucket}] * 4


def test_budgets_come_before_seconds() -> None:
    """The cheaper bucket takes as many media as its rows hold, and no more."""
    free, dear = BucketCost(4, 0.0, 0.0, 0.0), BucketCost(1, 0.0, 5.0, 0.0)
    samples = [make_lengths(5, {"vision": (n,)}, {"vision": (0,)}) for n in (4, 8, 12, 16, 20, 24)]
    own = capacity(free, dear, room=40)
    assert choose_thresholds(by_bucket(samples, own), own, 1) == cut_at(own, "vision", 16)


def test_buckets_with_thresholds_have_no_cuts() -> None:
    own = capacity()
    still = [replace(m, bucket=m.bucket and replace(m.bucket, cost=None)) for m in own.specs]
    assert has_thresholds(own)
    assert not has_thresholds(replace(own, specs=tuple(still)))
    assert not has_thresholds(CAPACITY)


def plans_of(
    processor: Processor, make_config: MakeConfig, state: LoaderState, hosts: int, balance: Balance
) -> list[MicrobatchPlan]:
    """Six microbatches, from a state on."""
    source = mixed_source(30)
    short, long = BucketCost(4, 0.5, 1.0, 0.1), BucketCost(1, 0.5, 0.3, 0.03)
    buckets = (
        replace(VISION, name="short", bucket=LengthBucket("vision", 0, 40, short)),
        replace(VISION, name="long", bucket=LengthBucket("vision", 40, None, long)),
        AUDIO,
    )
    budgets = {"tokens": 312, "short": 40, "long": 72, "audio": 640, "segments": 24}
    config = make_config(budgets=budgets, balance=balance)
    work = {**WORK, "short": WORK["vision"], "long": WORK["vision"]}
    owners = {name: [row % hosts for row in range(config.rows)] for name in work}
    consumer = TrainingDemand(work, owners, 2, readers=hosts)
    lengths, own = measure(source, processor), make_capacity(budgets, (TEXT, *buckets))
    planner = BatchPlanner(source, lengths, config, own, state, consumer)
    return [planner.plan() for _ in range(6)]


@pytest.mark.parametrize("balance", get_args(Balance))
def test_steps_are_cut_alike_wherever_they_are_planned(
    balance: Balance, processor: Processor, make_config: MakeConfig
) -> None:
    plans = plans_of(processor, make_config, LoaderState(3), 2, balance)
    cuts = [buckets_of(plan.capacity)[0].up_to for plan in plans]
    assert cuts[::2] == cuts[1::2], "the microbatches of a step have one cut"
    assert len({*cuts}) > 1
    for plan, most in zip(plans, cuts, strict=True):
        for placement in plan.placements:
            lengths = placement.lengths
            assert all(n <= (most or 0) for n in lengths.counts("short"))
            assert all(n > (most or 0) for n in lengths.counts("long"))
            assert {name: len(own) for name, own in lengths.modules.items()} == {
                "decoder": 1,
                **{name: len(own) for name, own in placement.media.items() if own},
            }
    alone = plans_of(processor, make_config, LoaderState(3), 1, balance)
    assert [buckets_of(plan.capacity) for plan in alone] == [buckets_of(p.capacity) for p in plans]
    for done in range(1, 5):
        saved = LoaderState.from_json(json.loads(json.dumps(plans[done - 1].state.to_json())))
        again = plans_of(processor, make_config, saved, 2, balance)
        for first, second in zip(plans[done:], again, strict=False):
            assert replace(first, loads={}) == replace(second, loads={})
