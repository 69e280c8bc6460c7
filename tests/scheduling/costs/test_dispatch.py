"""Exchanges of tokens between ranks that share experts, by hand, and what holds for all plans."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.costs.estimate import ModuleTiming
from scheduling.costs.flops import task_flops
from scheduling.costs.hardware import Hardware
from scheduling.costs.memory import step_memory
from scheduling.costs.strategy import Strategy
from scheduling.costs.workload import Workload
from scheduling.lowering.lowered import Remat
from sharding.plan import ParallelPlan
from tests.scheduling import workloads as small

WIDTH, TOKENS, ROWS, LAYERS = 64, 32, 8, 4
HIDDEN, TOP_K, COUNT = 2 * WIDTH, 2, 4
#: FLOPs of a token in its experts, and elements of a layer's experts.
EXPERT_FLOPS, KERNELS = 6 * WIDTH * TOP_K * HIDDEN, 3 * COUNT * WIDTH * HIDDEN
#: Bytes of a token between two layers.
TOKEN = WIDTH * 2


def workload(buffer: float = 1.25, share: float = 1.0) -> Workload:
    return small.with_experts(small.workload(ROWS, WIDTH, LAYERS, encoders=()), share, buffer)


def timing(hardware: Hardware, plan: ParallelPlan, of: Workload, **changes: Any) -> ModuleTiming:
    return ModuleTiming(of, Strategy({"decoder": plan}, **changes), hardware, "decoder")


def ring(data: float, ranks: int) -> float:
    """By hand: hops of 10 us, bytes at 160 MB/s."""
    return (ranks - 1) * 1e-5 + data * (ranks - 1) / ranks / 1.6e8


def counts(ranks: int) -> float:
    """Seconds in which ranks tell each other what goes to each expert."""
    return ring(4 * COUNT * ranks, ranks)


#: Seconds of a pass of the experts' products over the tokens of four of `ROWS` rows.
PRODUCTS = 4 * TOKENS * EXPERT_FLOPS / 0.5e9
COPIES = 4 * TOKENS * TOP_K


@pytest.mark.parametrize("buffer", [1.25, 2.0, 0.5, 1e9])
def test_cpus_exchange_all_slots_and_hide_nothing(buffer: float) -> None:
    """Two ranks with four rows each; with half of the room there are two rounds.

    A rank has no slots for more than the copies of both ranks.
    """
    cpu, plan = small.hardware(platform="cpu"), ParallelPlan(expert=2)
    own = timing(cpu, plan, workload(buffer), remat="none")
    alone = timing(cpu, ParallelPlan(data=2), workload(buffer), remat="none")
    rounds = 2 if buffer < 1 else 1
    slots = COPIES * min(buffer, 2)

    def seconds(*copies: float) -> float:
        moving = sum(rounds * ring(size * slots, 2) for size in copies)
        return counts(2) + moving + sum(2 * 2 * rounds * slots * size for size in copies) / 8e8

    added = own.forward_time(3).seconds - alone.forward_time(3).seconds
    assert added == pytest.approx(3 * seconds(TOKEN, TOKEN))
    backward = seconds(2 * TOKEN + 6, TOKEN + 6) + PRODUCTS  # of the forward again
    # Gradients of parameters are added to sums: of experts, half as many.
    summed = 3 * 4 * KERNELS / 2 / 8e8
    added = own.backward_time(3).seconds - alone.backward_time(3).seconds
    assert added == pytest.approx(3 * (backward - summed))


def test_accelerators_exchange_copies_and_hide_half_of_them() -> None:
    """Both parts of a round take two hops; one of them is beside the products."""
    plan, of = ParallelPlan(expert=2), workload()
    own, alone = (timing(small.hardware(), p, of) for p in (plan, ParallelPlan(data=2)))
    moving = 2 * 2 * ring(TOKEN * COPIES / 2, 2)
    assert moving / 2 < PRODUCTS, "the case is one of hiding all that can be hidden"
    added = own.forward_time(1).collective - alone.forward_time(1).collective
    assert added == pytest.approx(moving / 2 + counts(2))
    written = 2 * 2 * TOKEN * COPIES * 1.25 / 8e8
    assert own.forward_time(1).compute - alone.forward_time(1).compute == pytest.approx(written)


def test_copies_for_other_domains_all_cross_the_network() -> None:
    """Eight ranks in two domains of four: half of a rank's copies go to the other domain."""
    own, alone = (
        timing(small.hardware(), plan, workload())
        for plan in (ParallelPlan(expert=8), ParallelPlan(data=8))
    )
    part = TOKEN * COPIES / 4 / 2  # of one row, in one of two parts
    moving = 2 * 2 * (ring(part / 2, 4) + 5e-5 + part / 2 / 2.5e7)
    assert moving / 2 < PRODUCTS / 4, "the case is one of hiding all that can be hidden"
    added = own.forward_time(1).collective - alone.forward_time(1).collective
    told = small.hardware().group_seconds(4 * COUNT * 8, 8, 8)
    assert added == pytest.approx(moving / 2 + told)


def test_a_forward_that_is_computed_again_leaves_out_shared_experts() -> None:
    """Their backward computes it anyway; where whole chunks are computed again it cannot."""
    cpu, of = small.hardware(platform="cpu"), workload()
    shared = {
        remat: timing(cpu, ParallelPlan(expert=2), of, remat=remat).backward_time(1)
        for remat in ("none", "layer", "full")
    }
    forward = timing(cpu, ParallelPlan(expert=2), of).forward_time(1)
    plain = timing(cpu, ParallelPlan(data=2), of).forward_time(1)
    again = shared["layer"].seconds - shared["none"].seconds
    assert again == pytest.approx(plain.compute - PRODUCTS)
    assert shared["full"].seconds - shared["none"].seconds == pytest.approx(forward.seconds)


def test_flops_count_what_a_backward_of_shared_experts_computes_again() -> None:
    cases: dict[Remat, int] = {"none": 1, "layer": 0, "full": 1}
    for remat, again in cases.items():
        shared, alone = (
            task_flops(workload(), Strategy({"decoder": plan}, remat=remat))
            for plan in (ParallelPlan(expert=2), ParallelPlan(data=2))
        )
        assert shared.forward == alone.forward
        experts = LAYERS * ROWS * TOKENS * EXPERT_FLOPS
        assert shared.backward - alone.backward == pytest.approx(again * experts)


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_state_and_sums_of_experts_are_divided_and_all_else_is_not(share: float) -> None:
    of = workload(share=share)
    # Attention, a dense MLP in the other layers, two norms; head and last norm.
    layer = 4 * WIDTH**2 + (1 - share) * 8 * WIDTH**2 + 2 * WIDTH
    whole = 4 * (LAYERS * layer + 128 * WIDTH + WIDTH)

    def of_plan(plan: ParallelPlan) -> tuple[float, float]:
        own = timing(small.hardware(), plan, of)
        made = step_memory(of, own.strategy, own.hardware)
        assert made.optimizer == 2 * made.parameters == 2 * made.gradients
        return made.parameters, own.scatter_seconds()

    stored, summed = of_plan(ParallelPlan(expert=4))
    assert stored == pytest.approx(whole + 4 * LAYERS * share * KERNELS / 4)
    # Experts of four ranks are nowhere else: dense parameters alone are summed.
    assert summed == pytest.approx(2 * ring(whole, 4))
    stored, summed = of_plan(ParallelPlan(data=2, expert=2))
    experts = 4 * LAYERS * share * KERNELS / 2
    assert stored == pytest.approx(whole + experts)
    assert summed == pytest.approx(2 * (ring(whole, 4) + ring(experts, 2)))


@pytest.mark.parametrize("tensor", [1, 2])
def test_loops_of_cpus_have_kernels_and_copies_of_their_own(tensor: int) -> None:
    """Those of the layers with experts, whatever the others are."""

    def work(platform: Any, of: Workload, expert: int = 1) -> float:
        plan = ParallelPlan(data=4 // tensor // expert, expert=expert, tensor=tensor)
        own = timing(small.hardware(platform=platform), plan, of)
        return step_memory(of, own.strategy, own.hardware).work

    kernels, copies = 2 * KERNELS / tensor, COPIES / 2 * tensor
    for share in (0.5, 1.0):
        of = workload(share=share)
        loops = work("cpu", of) - work("tpu", of)
        assert loops == pytest.approx(kernels + copies * WIDTH * (4 * 2 + 4))
    dense = small.workload(ROWS, WIDTH, LAYERS, encoders=())
    assert work("cpu", dense) == work("tpu", dense)
    # Where ranks share experts, copies are in the buffers of the exchange, which differ as well.
    of, plan = workload(), ParallelPlan(data=2 // tensor, expert=2, tensor=tensor)
    shared = timing(small.hardware(), plan, of).dispatched
    assert shared is not None
    cpu, gpu = (shared.buffer_bytes(platform, HIDDEN / tensor) for platform in ("cpu", "gpu"))
    loops = work("cpu", of, expert=2) - work("gpu", of, expert=2)
    assert loops == pytest.approx(kernels / 2 + cpu - gpu)


@pytest.mark.parametrize(
    ("buffer", "rounds", "slots"),
    [(1e-320, COPIES // 4, 4), (0.5, 2, COPIES // 2), (4.0, 1, 4 * COPIES), (1e9, 1, 4 * COPIES)],
)
def test_rounds_and_slots_of_any_buffer(buffer: float, rounds: int, slots: int) -> None:
    """Four ranks, with one slot for each other at least."""
    plan = ParallelPlan(expert=4)
    of = small.with_experts(small.workload(16, WIDTH, LAYERS, encoders=()), buffer=buffer)
    own = timing(small.hardware(platform="cpu"), plan, of).dispatched
    assert own is not None
    assert (own.copies, own.rounds) == (COPIES, rounds)
    assert own.slots_of_part() == pytest.approx(slots)


@given(
    expert=st.sampled_from([2, 4, 8]),
    context=st.sampled_from([1, 2]),
    share=st.sampled_from([0.25, 1.0]),
    buffer=st.floats(0.3, 3),
    platform=st.sampled_from(["cpu", "gpu", "tpu"]),
)
def test_less_of_the_layers_exchange_less(
    expert: int, context: int, share: float, buffer: float, platform: Any
) -> None:
    """Seconds grow with the layers that have experts, and buffers of a layer do not."""
    plan = ParallelPlan(expert=expert, context=context)
    hardware = small.hardware(platform=platform)
    part, whole = (timing(hardware, plan, workload(buffer, own)) for own in (share, 1.0))
    assert part.dispatched is not None
    assert whole.dispatched is not None
    for task in ("_experts_forward", "_experts_backward"):
        ((one,), (other,)) = getattr(part, task), getattr(whole, task)
        assert one.compute == pytest.approx(share * other.compute)
        assert one.collective == pytest.approx(share * other.collective)
    one, other = (own.buffer_bytes(platform, HIDDEN) for own in (part.dispatched, whole.dispatched))
    assert one == other
    # A rank has room for its even share, in one round or in several.
    assert part.dispatched.rounds * part.dispatched.slots_of_part() >= part.dispatched.copies
