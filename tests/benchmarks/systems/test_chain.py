"""Baselines: cuts against brute force, steps against formulas, memory by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.systems.chain import (
    LayerChain,
    balanced_cuts,
    decoder_alone,
    run_balanced,
    run_megatron,
)
from benchmarks.systems.memory import state_bytes
from scheduling.costs.hardware import Hardware, HardwareLink
from scheduling.costs.memory import layer_residual_bytes, logit_bytes, residual_bytes
from scheduling.costs.strategy import Strategy
from scheduling.costs.work import ModulePart, ModuleWork
from scheduling.costs.workload import LayerSplit, Workload
from scheduling.schedules.schedule import ScheduleError
from sharding.plan import ParallelPlan
from tests.scheduling import workloads as small

#: Links that take no time.
FREE = HardwareLink(bandwidth=1e30, latency=0)
NOTHING = ModulePart(ModuleWork(0, 0), 0)


def chain(
    workload: Workload | None = None,
    plan: ParallelPlan | None = None,
    hardware: Hardware | None = None,
    chunks: int = 1,
    **changes: Any,
) -> LayerChain:
    """Two stages with eight microbatches, unless something else is given."""
    plans = {"decoder": plan or ParallelPlan(data=2, stage=2)}
    strategy = Strategy(plans, **{"microbatches": 4, "chunks": {"decoder": chunks}, **changes})
    return LayerChain(workload or small.workload(), strategy, hardware or small.hardware())


def without_head(workload: Workload) -> Workload:
    """The workload without the decoder's head, so that the decoder's layers are all alike."""
    decoder = replace(workload.modules["decoder"], end=NOTHING)
    return replace(workload, modules={**workload.modules, "decoder": decoder})


# ---- cuts ----------------------------------------------------------------------------------------


def sums(costs: list[int], cuts: tuple[int, ...]) -> list[int]:
    """Sums of the runs that end at `cuts`."""
    return [sum(costs[a:b]) for a, b in zip((0, *cuts), cuts, strict=False)]


def value(costs: list[int], cuts: tuple[int, ...]) -> tuple[int, int]:
    """The value of cuts: their largest sum, then their squares."""
    runs = sums(costs, cuts)
    return max(runs), sum(run**2 for run in runs)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=9), st.data())
def test_cuts_are_those_of_brute_force(costs: list[int], data: st.DataObject) -> None:
    parts = data.draw(st.integers(1, len(costs)))
    found = tuple(balanced_cuts([float(cost) for cost in costs], parts))
    assert found[-1] == len(costs)
    assert len(found) == parts
    assert all(a < b for a, b in zip((0, *found), found, strict=False))
    every = [(*cuts, len(costs)) for cuts in combinations(range(1, len(costs)), parts - 1)]
    assert value(costs, found) == min(value(costs, cuts) for cuts in every)


def test_squares_count_where_a_later_run_is_the_largest() -> None:
    # The least largest sum of what comes before the 6 is 5, yet 2, 3 and 5 + 1 are more even.
    assert balanced_cuts([2.0, 3.0, 5.0, 1.0, 6.0], 4) == [1, 2, 4, 5]


@pytest.mark.parametrize("parts", [0, 4])
def test_cuts_that_leave_a_run_empty_are_refused(parts: int) -> None:
    with pytest.raises(ScheduleError, match=f"3 layers cannot be cut into {parts} virtual stages"):
        balanced_cuts([1.0, 2.0, 3.0], parts)


# ---- steps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stages", "chunks", "microbatches"), [(1, 1, 3), (2, 1, 4), (4, 2, 8)])
def test_equal_layers_take_the_time_of_the_formula(
    stages: int, chunks: int, microbatches: int
) -> None:
    workload = without_head(small.workload(16, layers=8, encoders=()))
    hardware = small.hardware(link=FREE, network=FREE)
    own = chain(
        workload, ParallelPlan(stage=stages), hardware, microbatches=microbatches, chunks=chunks
    )
    own_times = [own.timings["decoder"].forward_time(1), own.timings["decoder"].backward_time(1)]
    both = sum(time.seconds for time in own_times) * 8 / stages
    update = own.update_seconds(own.timings["decoder"])
    expected = (microbatches + (stages - 1) / chunks) * both + update
    assert run_balanced(own).simulation.makespan == pytest.approx(expected)
    assert decoder_alone(own).simulation.makespan == pytest.approx(expected)
    assert run_megatron(own).simulation.makespan == pytest.approx(expected)


def test_ranks_gather_and_scatter_with_nothing_beside() -> None:
    workload = without_head(small.workload(16, encoders=()))
    own = chain(workload, ParallelPlan(data=4, stage=2), small.hardware())
    timing = own.timings["decoder"]
    shared = workload.modules["decoder"].parameters / 2
    gather, scatter = (own.hardware.group_seconds(size * shared, 4, 8) for size in (2, 4))
    assert own.gather_seconds(timing) == pytest.approx(gather)
    assert own.scatter_seconds(timing) == pytest.approx(scatter)
    idle = run_balanced(own).simulation.idle
    assert (idle["gather"], idle["scatter"]) == pytest.approx((gather, scatter))


def test_stages_stop_to_exchange() -> None:
    """Each send and each receipt holds a stage up, unless they are overlapped."""
    workload = without_head(small.workload(16, layers=8, encoders=()))
    # Links whose latency is all that they cost.
    link = HardwareLink(bandwidth=1e30, latency=1e-3)
    own = chain(workload, ParallelPlan(stage=2), small.hardware(link=link, network=link), chunks=2)
    free = replace(own, overlapped=True)
    send = own.timings["decoder"].send_seconds()
    stopped, beside = (decoder_alone(made).simulation for made in (own, free))
    # Forwards and backwards of two chunks of four microbatches, but for the last of them.
    assert stopped.makespan - beside.makespan >= (2 * 2 * 4 - 1) * 2 * send - 8 * send
    assert stopped.compute == pytest.approx(beside.compute)
    assert stopped.idle["tensor"] == beside.idle["tensor"]


def test_sums_of_tensor_ranks_have_the_type_of_activations() -> None:
    own = chain(plan=ParallelPlan(stage=2, tensor=2))
    timing = own.timings["decoder"]
    assert timing.scattered_sums == timing.gathered_rows > 0


def test_how_ranks_share_parameters_makes_no_difference() -> None:
    """All ways hold parameters whole, whatever the decoder's plan would gather."""
    workload = small.workload(16)
    for stages, gather in ((1, "step"), (2, "step"), (2, "layer")):
        made = [
            chain(workload, ParallelPlan(stage=stages, **{axis: 4}), gather=gather)
            for axis in ("data", "fsdp")
        ]
        for way in (run_megatron, run_balanced, decoder_alone):
            one, other = (way(own) for own in made)
            assert one.memory == other.memory
            assert one.simulation.makespan == other.simulation.makespan


@given(st.data())
def test_even_chains_are_no_slower_balanced(data: st.DataObject) -> None:
    """Encoder layers that cost as much as the decoder's, and as many layers as go evenly."""
    count = data.draw(st.sampled_from([4, 8]))
    plain = without_head(small.workload(16, encoders=()))
    decoder = replace(plain.modules["decoder"], layers=count)
    towers = {"decoder": decoder, "vision": replace(decoder, layers=12 - count)}
    kept = {
        split._replace(module=name): size
        for split, size in plain.residual_bytes.items()
        for name in towers
    }
    positions = {"decoder": 32, "vision": 32}
    workload = replace(plain, modules=towers, positions=positions, residual_bytes=kept)
    plan = ParallelPlan(stage=data.draw(st.sampled_from([1, 2])))
    own = chain(workload, plan, chunks=data.draw(st.sampled_from([1, 2])))
    ways = run_balanced(own), run_megatron(own)
    assert ways[0].simulation.makespan <= ways[1].simulation.makespan * (1 + 1e-9)


def test_encoders_make_every_way_longer() -> None:
    own = chain(small.workload(encoders=[("vision", 64, 4)]))
    alone = decoder_alone(own).simulation
    least = sum(layer.seconds for layer in own.encoder_layers) * 4 / 2
    for made in (run_megatron(own).simulation, run_balanced(own).simulation):
        assert made.makespan > alone.makespan
        update = own.update_seconds(own.timings["vision"])
        assert made.compute - alone.compute == pytest.approx(least + update)


@pytest.mark.parametrize("stages", [1, 2])
def test_megatron_runs_all_layers(stages: int) -> None:
    """Also where no virtual stage is left for the encoders alone."""
    own = chain(plan=ParallelPlan(stage=stages))
    layers = [*own.encoder_layers, *own.decoder_layers]
    compute = 4 * sum(own.forward.compute + own.backward.compute for own in layers) / stages
    update = sum(map(own.update_seconds, own.timings.values()))
    assert run_megatron(own).simulation.compute == pytest.approx(compute + update)


def test_frozen_encoders_have_no_backward_and_nothing_to_scatter() -> None:
    workload = small.workload()
    own = chain(workload)
    frozen = chain(replace(workload, frozen=frozenset(["vision"])))
    assert [layer.forward for layer in frozen.encoder_layers] == [
        layer.forward for layer in own.encoder_layers
    ]
    assert all(layer.backward.seconds == 0 for layer in frozen.encoder_layers)
    timing = frozen.timings["vision"]
    assert frozen.scatter_seconds(timing) == frozen.update_seconds(timing) == 0
    assert frozen.gather_seconds(timing) == own.gather_seconds(own.timings["vision"]) > 0
    # Neither gradients nor an optimizer: 4 bytes, and 12 spread over two ranks.
    wide = small.workload(encoders=[("vision", 128, 8)])
    trained, fixed = chain(wide), chain(replace(wide, frozen=frozenset(["vision"])))
    count = wide.modules["vision"].parameters
    less = run_megatron(trained).memory - run_megatron(fixed).memory
    assert less == pytest.approx(count * (4 + 12 / 2))
    for way in (run_megatron, run_balanced):
        assert way(frozen).simulation.makespan < way(own).simulation.makespan


# ---- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chunks", "microbatches", "waiting"),
    [
        (1, 8, 2),  # one chunk: as many as there are stages
        (1, 1, 1),
        (2, 8, 5),  # 2 (P - 1) + (V - 1) P + 1
        (2, 2, 4),  # as many microbatches as stages: all chunks of all
    ],
)
def test_memory_by_hand(chunks: int, microbatches: int, waiting: int) -> None:
    workload = small.workload(16, encoders=())
    plan = ParallelPlan(data=2, stage=2)
    own = chain(workload, plan, chunks=chunks, microbatches=microbatches, remat="full")
    timing = own.timings["decoder"]
    # Two layers, half of the vocabulary, and the last norm.
    parameters = 2 * (12 * 64**2 + 2 * 64) + 64 * 128 / 2 + 64
    # Parameters in bfloat16, gradients in float32; float32 copy and two moments over two ranks.
    state = (2 + 4 + 3 * 4 / 2) * parameters
    # One input of a chunk: rows x positions x width in bfloat16.
    chunk = 16 / microbatches / 2 * 32 * 64 * 2
    # What a backward makes again: all layers of a chunk. Logits and their gradient.
    again = 4 / (2 * chunks) * layer_residual_bytes(timing)
    head = logit_bytes(timing)
    expected = state + waiting * chunk + again
    assert run_balanced(own).memory == pytest.approx(expected, abs=head, rel=0)
    layer = replace(own, strategy=replace(own.strategy, remat="layer"))
    expected = state + waiting * chunk * 4 / (2 * chunks) + layer_residual_bytes(timing)
    assert run_balanced(layer).memory == pytest.approx(expected, abs=head, rel=0)


def test_encoders_take_memory_where_their_layers_are() -> None:
    workload = small.workload(encoders=[("vision", 128, 8)])
    own = chain(workload, ParallelPlan(stage=2), remat="none", microbatches=8)
    alone, first = decoder_alone(own).memory, run_megatron(own).memory
    vision = own.timings["vision"]
    state = state_bytes(vision) * vision.profile.parameters
    # All eight layers are in the first stage, where two microbatches wait; the decoder's may be in
    # the second.
    assert (
        state + 2 * residual_bytes(vision, 8)
        <= first
        <= alone + state + 2 * residual_bytes(vision, 8)
    )
    assert run_balanced(own).memory < first


def test_a_degree_that_an_encoder_does_not_divide_by_is_refused() -> None:
    workload = small.workload(encoders=[("vision", 64, 4)])
    kept = {
        key: size for key, size in workload.residual_bytes.items() if key != LayerSplit("vision", 2)
    }
    own = chain(replace(workload, residual_bytes=kept), ParallelPlan(stage=2, tensor=2))
    with pytest.raises(ScheduleError, match="vision does not divide by tensor 2"):
        _ = run_megatron(own).memory
