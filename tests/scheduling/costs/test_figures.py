"""No figure of the cost model moves unseen: see `tests.scheduling.costs.figures`."""

from __future__ import annotations

import json

import pytest

from scheduling.costs.memory import step_memory
from scheduling.costs.strategy import Strategy
from scheduling.lowering.lowered import BufferSizes
from scheduling.search.bounds import lower_bound
from sharding.plan import ParallelPlan
from tests.scheduling import workloads as small
from tests.scheduling.costs.figures import FILE, cases, described, figures

KEPT = json.loads(FILE.read_text())


@pytest.mark.parametrize("number", range(len(KEPT)))
def test_the_figures_of_a_case_are_those_that_are_kept(number: int) -> None:
    case, kept = cases()[number], KEPT[number]
    assert kept["case"] == described(case)
    found = figures(case)
    assert found.keys() == kept.keys() - {"case"}
    moved = {
        name: (kept[name], own)
        for name, own in found.items()
        if own != pytest.approx(kept[name], rel=1e-7, abs=0)
    }
    assert not moved, f"kept and found by name; {case[0]}"


def test_every_setting_is_among_the_cases() -> None:
    """Else its formulas would be looked at by nobody."""
    strategies = [strategy for strategy, _, _ in cases()]
    seen: dict[str, set[str]] = {
        "platform": {hardware.platform for _, _, hardware in cases()},
        "remat": {own.remat for own in strategies},
        "kind": {own.kind for own in strategies if own.backbone.stage > 1},
        "placement": {own.placement for own in strategies},
        "axes": {
            axis
            for own in strategies
            for axis in ("data", "fsdp", "stage", "expert", "context", "tensor")
            if getattr(own.backbone, axis) > 1
        },
    }
    assert {name: len(own) for name, own in seen.items()} == {
        "platform": 3,
        "remat": 3,
        "kind": 2,
        "placement": 3,
        "axes": 6,
    }


WORKLOAD, HARDWARE = small.workload(), small.hardware()
TWO = {name: ParallelPlan(stage=2) for name in WORKLOAD.modules}


@pytest.mark.parametrize(
    ("buffer", "elements"),
    [
        # A microbatch has two rows of 64 patches, of width 32 each,
        ("inputs", 64 * 32),
        ("gradients", 64 * 32),
        # of which 16 tokens come, of the decoder's width 64.
        ("output_buffer", 16 * 64),
        ("output_grad_buffer", 16 * 64),
    ],
)
def test_each_slot_of_an_encoder_is_counted_once(buffer: str, elements: int) -> None:
    strategy = Strategy(TWO, microbatches=4)
    decoder = BufferSizes(inputs=1, saved=1, gradients=1)
    none = dict.fromkeys(("inputs", "saved", "output_buffer", "output_grad_buffer", "gradients"), 0)

    def bytes_of(slots: int) -> float:
        sizes = BufferSizes(**none | {buffer: slots})
        return step_memory(
            WORKLOAD, strategy, HARDWARE, {"decoder": decoder, "vision": sizes}
        ).sources

    rows = WORKLOAD.rows / 4
    assert bytes_of(0) == 0
    for slots in (1, 3):
        assert bytes_of(slots) == slots * 2 * rows * elements


def test_the_path_of_a_decoder_with_weight_gradients_apart_by_hand() -> None:
    """Two stages of two layers, four microbatches: links take no time, and no encoder has work.

    The last stage begins after one forward of the first. Its weight gradients take less time than
    it takes its last backward to reach the first stage, and those that are left there.
    """
    workload = small.workload(encoders=())
    plan = {"decoder": ParallelPlan(stage=2)}
    free = {"bandwidth": 1e30, "latency": 0.0}
    hardware = small.hardware(
        link=HARDWARE.link.model_copy(update=free), memory=1e12, memory_bandwidth=1e30
    )
    strategy = Strategy(plan, microbatches=4, remat="none", kind="zero_bubble")
    rows, tokens, width = 2, 32, 64
    linear = 2 * rows * 24 * width**2 * tokens / 0.5e9  # of two layers, forward
    attention = 2 * rows * 4 * width * tokens**2 / 0.25e9
    forward = linear + attention
    weights = linear
    backward = 2 * forward - weights
    head = 3 * rows * 2 * width * 128 * tokens / 0.5e9 / 2
    path = forward + 4 * (forward + backward) + max(4 * weights, backward + weights)
    assert lower_bound(workload, strategy, hardware) == pytest.approx(path + 4 * head)
