"""Orders: every sample in its turn, mixtures by their weights, any place at once."""

from __future__ import annotations

import pickle
from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.sources.order import (
    MixedOrder,
    PermutedOrder,
    SampleOrder,
    ShuffledOrder,
    _block_layout,
    _random_permutation,
    interleave_members,
)

sizes = st.lists(st.integers(1, 20), min_size=1, max_size=5)
weights = st.floats(0.1, 10)


@st.composite
def mixtures(draw: st.DrawFn) -> MixedOrder:
    member_sizes = draw(sizes)
    shares = draw(st.lists(weights, min_size=len(member_sizes), max_size=len(member_sizes)))
    return MixedOrder(tuple(member_sizes), tuple(shares), draw(st.integers(0, 2**32 - 1)))


def wanted(order: MixedOrder, member: int, positions: int) -> float:
    return positions * order.weights[member] / sum(order.weights)


@settings(max_examples=25, deadline=None)
@given(mixtures(), st.integers(1, 4))
def test_members_come_up_in_proportion_to_their_weights(order: MixedOrder, blocks: int) -> None:
    count = Counter(order.member_at(p)[0] for p in range(blocks * min(order.block_size, 2000)))
    positions = count.total()
    for member in range(len(order.sizes)):
        complete = positions % order.block_size == 0
        slack = 1.001 if complete else order.block_size
        assert abs(count[member] - wanted(order, member, positions)) < slack


@settings(max_examples=25, deadline=None)
@given(mixtures())
def test_within_every_block_the_proportion_holds(order: MixedOrder) -> None:
    for block in (0, 10**6):
        positions = range(block * order.block_size, (block + 1) * order.block_size)
        count = Counter(order.member_at(p)[0] for p in positions[:5000])
        if order.block_size <= 5000:
            for member in range(len(order.sizes)):
                assert count[member] > 0
                assert abs(count[member] - wanted(order, member, order.block_size)) < 2.001


@settings(max_examples=25, deadline=None)
@given(mixtures())
def test_a_member_sees_all_its_samples_before_it_sees_one_twice(order: MixedOrder) -> None:
    firsts = [sum(order.sizes[:member]) for member in range(len(order.sizes))]
    seen: dict[int, list[int]] = {member: [] for member in range(len(order.sizes))}
    for position in range(600):
        member, number = order.member_at(position)
        assert number == len(seen[member])
        index, epoch = order[position]
        assert epoch == number // order.sizes[member] == order.epoch_at(position)[1]
        seen[member].append(index - firsts[member])
    for member, size in enumerate(order.sizes):
        indices = seen[member]
        for start in range(0, len(indices) - size + 1, size):
            assert sorted(indices[start : start + size]) == list(range(size))


@settings(max_examples=25, deadline=None)
@given(mixtures())
def test_every_sample_comes_up_in_an_epoch(order: MixedOrder) -> None:
    if order.epoch_size < 3000:
        assert {order[p][0] for p in range(order.epoch_size)} == set(range(sum(order.sizes)))


@settings(max_examples=25, deadline=None)
@given(mixtures(), st.lists(st.integers(0, 10**12), max_size=20))
def test_any_place_is_the_same_at_any_time(order: MixedOrder, positions: list[int]) -> None:
    again: MixedOrder = pickle.loads(pickle.dumps(order))
    result = [order[position] for position in positions]
    _block_layout.cache_clear()
    _random_permutation.cache_clear()
    assert [again[p] for p in positions[::-1]] == result[::-1]
    assert all(0 <= index < sum(order.sizes) for index, _ in result)


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    def epochs(seed: int) -> list[tuple[int, ...]]:
        order = MixedOrder((30, 30), (1.0, 1.0), seed)
        indices = [order[p][0] for p in range(400) if order.member_at(p)[0] == 0]
        return [tuple(indices[i : i + 30]) for i in range(0, 180, 30)]

    assert len({*epochs(0), *epochs(1), *epochs(2)}) == 18
    patterns = {
        tuple(MixedOrder((9, 9), (1, 1), s).member_at(p)[0] for p in range(64)) for s in range(5)
    }
    assert len(patterns) == 5


def test_a_member_of_little_weight_is_seen_whole() -> None:
    order = MixedOrder((5, 20), (1.0, 1e4), 0)
    assert order.block_size == pytest.approx(2e4, rel=1e-3)
    positions = [p for p in range(3 * order.block_size) if order.member_at(p)[0] == 0]
    assert len(positions) == 6
    assert {order[p] for p in positions} == {(i, 0) for i in range(5)} | {
        (order[positions[5]][0], 1)
    }
    assert order.epoch_size >= positions[4]


@settings(max_examples=25)
@given(sizes, st.integers(0, 2**31))
def test_a_plain_order_is_epochs_that_are_shuffled(member_sizes: list[int], seed: int) -> None:
    orders: tuple[SampleOrder, ...] = (
        PermutedOrder(member_sizes[0], seed),
        ShuffledOrder(member_sizes[0], seed),
    )
    for order, epoch in product(orders, range(3)):
        positions = range(epoch * order.epoch_size, (epoch + 1) * order.epoch_size)
        assert sorted(order[p] for p in positions) == [(i, epoch) for i in range(member_sizes[0])]


def test_a_large_member_is_seen_whole_too() -> None:
    order = MixedOrder((20_000, 10), (1.0, 0.01), 3)
    indices = [order[p][0] for p in range(500) if order.member_at(p)[0] == 0]
    assert len(set(indices)) == len(indices) > 480
    assert max(indices) < 20_000


@given(sizes)
def test_interleaved_lists_are_even_from_the_start(member_sizes: list[int]) -> None:
    places = interleave_members(member_sizes)
    assert sorted(places) == [(m, i) for m, size in enumerate(member_sizes) for i in range(size)]
    for end in range(len(places)):
        count = Counter(member for member, _ in places[:end])
        for member, size in enumerate(member_sizes):
            assert abs(count[member] - end * size / sum(member_sizes)) <= len(member_sizes)
