"""Exchanges take the bytes of their buffers, and the cheapest that is possible is chosen."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scheduling.costs.estimate import ModuleTiming
from scheduling.costs.exchange import OutputExchange, exchange_of
from scheduling.costs.strategy import Strategy
from sharding.exchange import shared_axes
from sharding.exchange_kinds import EXCHANGES, Exchange, possible_exchanges
from sharding.grid import JointGrid
from sharding.plan import ParallelPlan
from sharding.routes import Routes, RouteSide
from tests.scheduling import workloads as small
from tests.sharding.test_exchange import PAIRS

GPU = small.hardware()
CPU = small.hardware(platform="cpu")
EIGHT = {"decoder": ParallelPlan(data=2, tensor=4), "vision": ParallelPlan(data=8)}


def exchanged(outputs: float = 100.0, tokens: float = 400.0, apart: bool = True) -> OutputExchange:
    """Four devices of a domain."""
    return OutputExchange(4, ((1, 4),), outputs, tokens, apart)


def test_the_seconds_of_an_exchange() -> None:
    """By hand: 3 hops of 10 us, 3/4 of the bytes at 160 MB/s, buffers twice at 800 MB/s."""
    expected = {
        ("gpu", "all_to_all"): (100, 100 + 400 / 2 + 400 / 2),
        ("gpu", "gather"): (400, (400 + 400) / 2),
        ("gpu", "reduce_scatter"): (1600, (1600 + 100) / 2),
        ("cpu", "all_to_all"): (400, 400 + 500 / 2),
        ("cpu", "gather"): (400, (400 + 400) / 2),
    }
    for (platform, name), (moved, written) in expected.items():
        hardware: Any = small.hardware(platform=platform)
        exchange: Any = name
        found = exchanged().exchange_seconds(exchange, hardware)
        assert found == pytest.approx(3e-5 + moved * 0.75 / 1.6e8 + 2 * written / 8e8), name


def test_outputs_for_other_domains_all_cross_the_network() -> None:
    """Two domains of four by hand: half of an all-to-all, and a quarter of what a gather brings."""
    own = OutputExchange(8, ((1, 8),), 100.0, 400.0, True)
    hops = 3e-5 + 5e-5
    written = 100 + 400 / 2 + 400 / 2
    straight = hops + 100 * 3 / 8 / 1.6e8 + 100 / 2 / 2.5e7 + 2 * written / 8e8
    assert own.exchange_seconds("all_to_all", GPU) == pytest.approx(straight)
    gathered = hops + 800 * 3 / 4 / 1.6e8 + 800 / 4 / 2 / 2.5e7 + 2 * (400 + 800) / 2 / 8e8
    assert own.exchange_seconds("gather", GPU) == pytest.approx(gathered)
    # Padded, the empty slots cross it as well, and a gather's outputs once for a domain.
    padded = hops + 800 * 3 / 8 / 1.6e8 + 800 / 2 / 2.5e7 + 2 * (800 + 500 / 2) / 8e8
    assert own.exchange_seconds("all_to_all", CPU) == pytest.approx(padded)


@pytest.mark.parametrize(
    ("hardware", "outputs", "tokens", "apart", "cheapest"),
    [
        (GPU, 1e6, 4e6, True, "all_to_all"),
        (GPU, 1e6, 4e6, False, "gather"),
        (GPU, 4e6, 1e6, False, "reduce_scatter"),
        # Padded, an all-to-all sends as much as a gather, and writes more.
        (CPU, 1e6, 4e6, True, "gather"),
        (CPU, 4e6, 1e6, True, "reduce_scatter"),
    ],
)
def test_the_cheapest_that_is_possible(
    hardware: Any, outputs: float, tokens: float, apart: bool, cheapest: Exchange
) -> None:
    own = exchanged(outputs, tokens, apart)
    assert own.find_cheapest(hardware) == own.find_leanest(hardware.platform != "cpu") == cheapest
    assert set(own.predicted_seconds(hardware)) == set(possible_exchanges(apart))


def test_what_is_asked_for_is_counted() -> None:
    """A step's times are those of the exchange that runs."""
    workload, seconds = small.workload(rows=64), {}
    strategy = Strategy(EIGHT)
    every: tuple[Exchange | Literal["auto"], ...] = ("auto", *EXCHANGES)
    for asked in every:
        own = replace(workload, exchange=asked)
        timing = ModuleTiming(own, strategy, GPU, "vision")
        (last,) = timing._end_segments(0)
        seconds[asked] = last.collective
        if asked != "auto":
            assert exchange_of(own, strategy, "vision", None, "cpu") == asked
    assert len(set(seconds.values())) == 3
    assert seconds["auto"] == min(seconds.values())


@given(
    pair=st.sampled_from(PAIRS),
    sizes=st.tuples(
        st.sampled_from([8, 16]), st.sampled_from([64, 128]), st.sampled_from([32, 64])
    ),
    apart=st.booleans(),
)
def test_bytes_are_those_of_the_buffers(
    pair: tuple[ParallelPlan, ParallelPlan], sizes: tuple[int, int, int], apart: bool
) -> None:
    plans = {"decoder": pair[0], "vision": pair[1]}
    grid = JointGrid.build(plans)
    source, target = grid.views["vision"], grid.backbone
    rows, positions, tokens = sizes
    own = replace(small.workload(rows=rows), separate_media=apart)
    own = replace(own, positions={"decoder": tokens, "vision": positions})
    found = OutputExchange.of_bucket(own, Strategy(plans), "vision")
    shared = () if apart else shared_axes(source, target)
    members = [axis for axis in target.position_axes if axis not in shared]
    assert found.devices == target.degree_of(tuple(members))
    # Digits of the numbers that differ within a block.
    numbers = np.arange(grid.devices).reshape([size for _, size in grid.axes])
    fixed = tuple(0 if axis in shared else slice(None) for axis, _ in grid.axes)
    digits = np.zeros_like(numbers)
    for low, high in found.spans:
        digits += numbers // low % (high // low) * low
    assert np.all(digits[fixed] == numbers[fixed])
    size = 64 * 2
    sides = RouteSide(source, rows, positions // 4), RouteSide(target, rows, tokens)
    each = [size * math.prod(side.device_shape) for side in sides]
    assert [found.outputs, found.tokens] == each
    assume(apart)
    for ragged in (False, True):
        routes = Routes.build(*sides, np.zeros((0, 5), np.int64), ragged)
        entries, moved = routes.entries[0] * size, found.moved_bytes("all_to_all", ragged)
        assert moved == (min(entries, found.tokens) if ragged else entries)
