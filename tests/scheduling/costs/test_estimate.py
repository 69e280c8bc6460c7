"""Times of a step's parts by hand, and what holds for all plans and devices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.costs.estimate import ModuleTiming, step_times
from scheduling.costs.hardware import Efficiency, Hardware, HardwareLink
from scheduling.costs.memory import logit_bytes
from scheduling.costs.shares import local_elements
from scheduling.costs.strategy import Strategy
from scheduling.costs.times import StepTimes
from scheduling.costs.work import ModulePart, ModuleWork
from scheduling.schedules.task_kinds import B, F
from scheduling.search.space import backbone_families, family_members
from sharding.plan import ParallelPlan
from tests.scheduling import workloads as small

WORKLOAD, HARDWARE = small.workload(), small.hardware()
#: Of the decoder of `WORKLOAD`: width, layers, tokens of a row, rows of the step.
WIDTH, LAYERS, TOKENS, ROWS = 64, 4, 32, 8
#: Bytes of a row of activations.
ROW = TOKENS * WIDTH * 2


def timing(name: str = "decoder", hardware: Hardware = HARDWARE, **changes: object) -> ModuleTiming:
    """The timing of a tower under given plans, e.g. `timing(decoder=ParallelPlan(tensor=2))`."""
    plans = {n: changes.pop(n, ParallelPlan()) for n in WORKLOAD.modules}
    return ModuleTiming(WORKLOAD, Strategy(plans, **changes), hardware, name)  # type: ignore[arg-type]


def layer_seconds(rows: float) -> float:
    """A decoder layer's forward on one device: products at half, attention at a quarter of 1e9."""
    linear = 24 * WIDTH**2 * TOKENS / 0.5e9
    attention = 4 * WIDTH * TOKENS**2 / 0.25e9
    moved = 32 * WIDTH * TOKENS * 2 / 0.8e9
    return rows * (linear + attention + moved)


# ---- by hand -------------------------------------------------------------------------------------


@pytest.mark.parametrize("microbatches", [1, 4])
def test_a_layer_of_one_device(microbatches: int) -> None:
    own = timing(microbatches=microbatches, remat="none")
    expected = layer_seconds(ROWS / microbatches)
    assert own.forward_time(3).seconds == pytest.approx(3 * expected)
    assert own.backward_time(3).seconds == pytest.approx(6 * expected)
    assert own.forward_time(3).collective == own.backward_time(3).collective == 0


@pytest.mark.parametrize("remat", ["layer", "full"])
def test_what_is_not_kept_is_computed_again(remat: str) -> None:
    assert timing(remat=remat).backward_time(1).seconds == pytest.approx(3 * layer_seconds(ROWS))


def test_an_encoder_may_compute_again_what_the_decoder_keeps() -> None:
    own: dict[str, Any] = {"remat": "none", "remats": {"vision": "full"}}
    usual, again = (timing("vision", **changes) for changes in ({"remat": "none"}, own))
    assert again.backward_time(1).seconds == pytest.approx(
        usual.backward_time(1).seconds + usual.forward_time(1).seconds
    )
    assert timing(**own).backward_time(1).seconds == timing(remat="none").backward_time(1).seconds


def test_what_a_layer_takes_besides_counts_once_forward_and_twice_backward() -> None:
    usual = HARDWARE.efficiency.model_copy(update={"layer_seconds": 0.25})
    slow = timing(hardware=HARDWARE.model_copy(update={"efficiency": usual}), remat="none")
    assert slow.forward_time(2).seconds == pytest.approx(timing().forward_time(2).seconds + 0.5)
    assert slow.backward_time(2).seconds == pytest.approx(
        timing(remat="none").backward_time(2).seconds + 1
    )


@pytest.mark.parametrize("tensor", [2, 4])
def test_tensor_parallelism_divides_compute_and_adds_collectives(tensor: int) -> None:
    own = timing(decoder=ParallelPlan(tensor=tensor), vision=ParallelPlan(tensor=tensor))
    ring = (tensor - 1) / tensor / (0.8 * 2e8)
    latency = (tensor - 1) * 1e-5
    gather = ROWS * ROW * ring + latency
    scatter = 2 * ROWS * ROW * ring + latency  # of sums in float32
    forward = own.forward_time(1)
    assert forward.compute == pytest.approx(layer_seconds(ROWS) / tensor)
    # Two blocks: gather, compute, scatter.
    assert forward.collective == pytest.approx(2 * (gather + scatter))
    half = layer_seconds(ROWS) / tensor / 2
    backward = timing(
        decoder=ParallelPlan(tensor=tensor), vision=ParallelPlan(tensor=tensor), remat="none"
    ).backward_time(1)
    assert backward.compute == pytest.approx(4 * half)
    assert backward.collective == pytest.approx(2 * (gather + max(0, gather - half)))
    # The last sum of the forward that is computed again is needed by nobody.
    again = own.backward_time(1).seconds - backward.seconds
    assert again == pytest.approx(forward.seconds - scatter)


@pytest.mark.parametrize(
    ("context", "tensor", "kv_heads", "copied"), [(2, 1, 8, 8), (4, 1, 2, 4), (2, 2, 2, 4)]
)
def test_context_parallelism_divides_compute_and_exchanges_heads(
    context: int, tensor: int, kv_heads: int, copied: int
) -> None:
    plan = ParallelPlan(context=context, tensor=tensor)
    tower = replace(WORKLOAD.modules["decoder"], kv_heads=kv_heads)
    grouped = replace(WORKLOAD, modules={**WORKLOAD.modules, "decoder": tower})
    own = replace(timing(decoder=plan, vision=plan, remat="none"), workload=grouped)
    # Queries and outputs with 8 heads of 8, keys and values with at least one for every rank.
    exchanged = ROWS * TOKENS * (2 * 8 + 2 * copied) * 8 * 2 / plan.sequence
    exchange = exchanged * (context - 1) / context / (0.8 * 2e8) + (context - 1) * 1e-5
    forward, backward = own.forward_time(1), own.backward_time(1)
    assert forward.compute == pytest.approx(layer_seconds(ROWS) / plan.sequence)
    assert backward.compute == pytest.approx(2 * layer_seconds(ROWS) / plan.sequence)
    gather = (tensor - 1) / tensor * ROWS * ROW / context / (0.8 * 2e8) + (tensor - 1) * 1e-5
    scatter = 2 * gather - (tensor - 1) * 1e-5
    assert forward.collective == pytest.approx(exchange + 2 * (gather + scatter))
    half = layer_seconds(ROWS) / plan.sequence / 2
    assert backward.collective == pytest.approx(exchange + 2 * (gather + max(0, gather - half)))


def with_decoder(own: ModuleTiming, **changes: Any) -> ModuleTiming:
    """The decoder with other values."""
    towers = {**WORKLOAD.modules, "decoder": replace(WORKLOAD.modules["decoder"], **changes)}
    return replace(own, workload=replace(WORKLOAD, modules=towers))


def test_ranks_with_the_same_heads_make_them_all_and_sum_their_gradients() -> None:
    """Two heads of keys on four ranks take what four take, and an all-reduce by two."""
    plan = ParallelPlan(tensor=4)

    def grouped(heads: int) -> ModuleTiming:
        kernels = 2 * WIDTH * heads * 8
        layer = WORKLOAD.modules["decoder"].layer
        work = replace(layer.work, linear=layer.work.linear + 2 * kernels)
        return with_decoder(
            timing(decoder=plan, vision=plan),
            kv_heads=heads,
            layer=replace(layer, work=work),
            layer_parameters={("embed", "kv_heads", None): kernels},
        )

    few, many = grouped(2), grouped(4)
    assert few.stored_elements == many.stored_elements
    assert few.forward_time(1).compute == pytest.approx(many.forward_time(1).compute)
    shared = 4 * LAYERS * 2 * WIDTH * 8  # one head of keys, and one of values
    summed = 2 * few.hardware.group_seconds(shared, 2, 2)
    assert few.scatter_seconds() == pytest.approx(many.scatter_seconds() + summed)


def test_the_padding_of_a_vocabulary_is_computed_and_stored() -> None:
    plan = ParallelPlan(stage=2, tensor=4)
    whole, padded = (
        with_decoder(
            timing(decoder=plan, vision=ParallelPlan(data=8), microbatches=2),
            vocab=outputs,
            end=ModulePart(ModuleWork(2 * WIDTH * outputs, 0), 0),
            rest_parameters={("embed", "vocab"): WIDTH * outputs},
        )
        for outputs in (136, 129)
    )
    assert padded.head_time().seconds == pytest.approx(whole.head_time().seconds)
    assert padded.stored_elements == whole.stored_elements
    assert logit_bytes(padded) == logit_bytes(whole)


def test_heads_for_other_domains_all_cross_the_network() -> None:
    """Eight context ranks in two domains: half of a rank's heads go to the other domain."""
    plan = ParallelPlan(context=8)
    own = timing(decoder=plan, vision=plan)
    heads = ROWS * TOKENS / 8 * 4 * 8 * 8 * 2
    hops = 3e-5 + 5e-5
    expected = hops + heads * 3 / 8 / 1.6e8 + heads / 2 / 2.5e7
    assert own.exchanged_heads == pytest.approx(expected)


@pytest.mark.parametrize("plan", [ParallelPlan(data=2, context=2), ParallelPlan(context=4)])
def test_gradients_are_summed_over_data_and_context_ranks(plan: ParallelPlan) -> None:
    own = timing(decoder=plan, vision=ParallelPlan(data=4))
    data = timing(decoder=ParallelPlan(data=4), vision=ParallelPlan(data=4))
    assert data.scatter_seconds() > 0
    assert own.scatter_seconds() == pytest.approx(data.scatter_seconds())
    assert own.stored_elements == data.stored_elements


def test_layers_that_are_gathered_one_by_one_hide_that_beside_compute() -> None:
    bare = timing(decoder=ParallelPlan(data=4), vision=ParallelPlan(data=4))
    own = timing(decoder=ParallelPlan(fsdp=4), vision=ParallelPlan(fsdp=4))
    assert own.layer_gather > 0
    exposed = max(0.0, own.layer_gather - layer_seconds(ROWS / 4))
    assert own.forward_time(1).seconds == pytest.approx(bare.forward_time(1).seconds + exposed)
    emulated = HARDWARE.model_copy(update={"platform": "cpu"})
    waits = timing(hardware=emulated, decoder=ParallelPlan(fsdp=4), vision=ParallelPlan(fsdp=4))
    added = waits.forward_time(1).seconds - bare.forward_time(1).seconds
    assert added == pytest.approx(own.layer_gather)


def test_parameters_go_over_the_network_as_they_are_used_and_gradients_in_float32() -> None:
    narrow = timing(decoder=ParallelPlan(fsdp=4), vision=ParallelPlan(fsdp=4))
    wide = replace(narrow, workload=replace(WORKLOAD, dtype="float32"))
    no_latency = HARDWARE.model_copy(update={"link": HardwareLink(bandwidth=1e6, latency=0)})
    narrow, wide = (replace(own, hardware=no_latency) for own in (narrow, wide))
    assert narrow.layer_gather == pytest.approx(wide.layer_gather / 2)
    assert narrow.layer_scatter == wide.layer_scatter == wide.layer_gather


def test_a_group_around_the_stages_is_on_as_many_domains_as_it_reaches() -> None:
    """Tensor 4 of an encoder: two neighbours of four domains, as the stages are between them."""
    hardware = HARDWARE.model_copy(update={"domain": 2})
    decoder = ParallelPlan(data=2, stage=2, tensor=2)
    around = timing(hardware=hardware, decoder=decoder, vision=ParallelPlan(data=2, tensor=4))
    vision = replace(around, name="vision")
    pairs = hardware.group_seconds(1e6, 2, 2) + hardware.group_seconds(0.5e6, 2, 8)
    assert vision.group_seconds(1e6, "tensor") == pytest.approx(pairs)
    assert vision.group_seconds(1e6, "data") == pytest.approx(hardware.group_seconds(1e6, 2, 4))


def test_the_ends_of_a_step() -> None:
    plan = ParallelPlan(data=2, fsdp=2, stage=2)
    own = timing(decoder=plan, vision=ParallelPlan(data=8), microbatches=2)
    layer, rest = 12 * WIDTH**2 + 2 * WIDTH, WIDTH * 128 / 2 + WIDTH
    assert local_elements(own.profile, own.profile.layer_parameters, plan) == layer / 2
    assert own.stored_elements == (2 * layer + rest) / 2
    assert own.trained_resident_elements == 2 * layer + rest
    # Of eight devices in hosts of four: fsdp ranks are 2 apart, data ranks 4.
    assert own.gather_seconds() == pytest.approx((2 * 2 * layer + 4 * rest) / 2 / 1.6e8 + 1e-5)
    inside, across = (
        4 * own.trained_resident_elements / 2 / 1.6e8 + 1e-5,
        4 * own.stored_elements / 2 / 2.5e7 + 5e-5,
    )
    assert own.scatter_seconds() == pytest.approx(inside + 2 * across)
    # Gradient, parameter and two moments are read, three of them written.
    assert own.update_seconds() == pytest.approx(7 * 4 * own.stored_elements / 0.8e9)
    frozen = replace(own, workload=replace(WORKLOAD, frozen=frozenset(["vision"])), name="vision")
    assert (frozen.scatter_seconds(), frozen.update_seconds()) == (0, 0)
    assert own.send_seconds() == pytest.approx(1e-5 + ROWS / 2 / 4 * ROW / (0.8 * 2e8))
    assert timing().send_seconds() == 0


def test_a_frozen_encoder_computes_its_connectors_gradients_alone() -> None:
    def backwards(**changes: Any) -> float:
        own = replace(timing("vision", remat="none"), workload=replace(WORKLOAD, **changes))
        return sum(time.seconds for key, time in own.chunk_times().items() if key[0] == B)

    vision = frozenset(["vision"])
    connector = timing("vision").compute_seconds(WORKLOAD.modules["vision"].end)
    assert backwards() > backwards(frozen=vision) == pytest.approx(3 * connector)
    assert backwards(frozen=vision, frozen_connectors=vision) == 0


# ---- for all plans -------------------------------------------------------------------------------


@st.composite
def strategies(draw: st.DrawFn) -> Strategy:
    """One of all strategies of eight devices."""
    space = small.space(8, WORKLOAD)
    family = draw(st.sampled_from(list(backbone_families(space, WORKLOAD))))
    return draw(st.sampled_from(list(family_members(space, WORKLOAD, family)) or [family]))


@given(strategies())
def test_every_plan_computes_the_same(strategy: Strategy) -> None:
    """All devices together, whatever the degrees."""
    times = step_times(WORKLOAD, strategy, HARDWARE)
    plan = strategy.backbone
    layers = strategy.microbatches * strategy.backbone_chunks * times.forward.compute
    assert layers * plan.devices == pytest.approx(4 * layer_seconds(ROWS))
    heads = strategy.microbatches * times.head.compute * plan.devices
    end = WORKLOAD.modules["decoder"].end
    once = 2 * WIDTH * 128 / 0.5e9 + end.moved * 2 / 0.8e9
    assert heads == pytest.approx(3 * ROWS * TOKENS * once)
    pieces = sum(own.compute for key, own in times.sources.items() if key[0] == F)
    # The pieces of a microbatch run on one stage of the decoder each.
    one = timing("vision").chunk_times()
    alone = sum(own.compute for key, own in one.items() if key[0] == F)
    assert pieces / plan.stage * strategy.microbatches * plan.devices == pytest.approx(alone)


def seconds(times: StepTimes) -> list[float]:
    """Seconds of all parts of a step."""
    parts = (times.forward, times.backward, times.head, *times.sources.values())
    others = (times.send, times.embed, times.gather, times.scatter, times.update)
    return [*(part.seconds for part in parts), *others]


def test_compute_hides_one_collective_at_a_time() -> None:
    """If links are slow, faster compute would otherwise make a layer's backward slower."""
    plan = ParallelPlan(fsdp=2, tensor=4)
    slow = small.hardware(domain=8, link=HardwareLink(bandwidth=2e6, latency=0))
    own = timing(hardware=slow, decoder=plan, vision=plan, remat="none")
    backward = own.backward_time(1)
    collectives = 4 * own.gathered_rows + own.layer_gather + own.layer_scatter
    # All compute has something beside it, and none of it two things.
    assert min(own.gathered_rows, own.layer_gather) > own.block_seconds
    assert backward.collective == pytest.approx(collectives - backward.compute)


@given(strategies(), small.devices(), st.sampled_from([1.5, 10.0]))
def test_more_of_anything_makes_nothing_slower(
    strategy: Strategy, hardware: Hardware, factor: float
) -> None:
    def more(link: HardwareLink) -> HardwareLink:
        return link.model_copy(update={"bandwidth": factor * link.bandwidth})

    usual = seconds(step_times(WORKLOAD, strategy, hardware))
    for change in (
        {"flops": {name: factor * own for name, own in hardware.flops.items()}},
        {"memory_bandwidth": factor * hardware.memory_bandwidth},
        {"link": more(hardware.link)},
        {"network": more(hardware.network)},
        {"efficiency": Efficiency(matmul=1, attention=1, memory=1, link=1, network=1)},
    ):
        better = hardware.model_copy(update=change)
        made = seconds(step_times(WORKLOAD, strategy, better))
        assert all(new <= old * (1 + 1e-9) for new, old in zip(made, usual, strict=True)), change


@given(strategies())
def test_costs_of_placement_are_the_seconds_of_tasks(strategy: Strategy) -> None:
    times = step_times(WORKLOAD, strategy, HARDWARE)
    costs = times.costs
    assert (costs.forward, costs.backward) == (times.forward.seconds, times.backward.seconds)
    assert (costs.gather, costs.scatter) == (times.gather, times.scatter)
    for (kind, name, piece), own in times.sources.items():
        cost = costs.sources[name]
        assert (cost.forward if kind == F else cost.backward)[piece] == own.seconds
