"""Buckets of an encoder in a configuration: what they need, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from data.planning.bucket_thresholds import bucket_seconds, has_thresholds
from data.planning.packing import make_capacity
from data.rows.spec import BucketCost, LengthBucket
from mllm_jax.config.buckets import bucket_cost, planning_specs
from mllm_jax.config.configured_step import build_workload, configure_step, on_platform
from mllm_jax.config.hardware import load_hardware
from mllm_jax.config.inputs import media_specs
from mllm_jax.config.load import ConfigError, ExperimentConfig
from mllm_jax.plan.traced import traced_workload
from scheduling.costs.estimate import ModuleTiming
from scheduling.costs.memory import step_memory
from tests.configs import VALUES, config

LANES = {"short": 16, "long": None}
AUDIO = VALUES["parallel"]["encoders"]["audio"]
PLANS = {"short": {"data": 4}, "long": {"data": 2, "context": 2}, "audio": AUDIO}
BUDGETS = {"tokens": 64, "segments": 8, "short": 32, "long": 64, "audio": 128}


def bucketed(**changes: Any) -> ExperimentConfig:
    given = {
        "model__encoders__vision__buckets": LANES,
        "parallel__encoders": PLANS,
        "data__budgets": BUDGETS,
    }
    return config(**(given | changes))


def test_buckets_are_to_plans_and_budgets_what_encoders_are() -> None:
    own = bucketed()
    assert own.model.buckets == {"short": "vision", "long": "vision", "audio": "audio"}
    assert own.budget_units == {"tokens": 2, "short": 1, "long": 2, "audio": 16}
    found = {m.name: (m.module, m.bucket) for m in media_specs(own.model)}
    assert found == {
        "short": ("vision", LengthBucket("vision", 0, 16)),
        "long": ("vision", LengthBucket("vision", 16, None)),
        "audio": ("audio", None),
    }


def test_parameters_are_counted_once_and_work_by_bucket() -> None:
    hardware, memory, flops = load_hardware("h100"), [], []
    plans = {"parallel__decoder": {"data": 4}}
    audio = {"parallel__encoders": PLANS | {"audio": {"data": 4}}}
    whole = {"parallel__encoders": {"vision": {"data": 4}, "audio": {"data": 4}}}
    for own in (config(**plans, **whole), bucketed(**plans, **audio)):
        workload = traced_workload(on_platform(own, "gpu"), [(1, False)])
        memory.append(step_memory(workload, configure_step(own).strategy, hardware))
        flops.append({name: workload.forward_flops(name) for name in workload.sources})
    alone, shared = memory
    assert shared.parameters == alone.parameters
    assert shared.optimizer == alone.optimizer
    assert shared.gradients == alone.gradients
    assert flops[1]["short"] < flops[0]["vision"] == flops[1]["long"]


BY_COST = {
    "model__encoders__vision__buckets": {"short": "auto", "long": None},
    "schedule__hardware": "h100",
}


def test_auto_is_cut_up_to_the_rows_of_short_media_by_seconds() -> None:
    own = bucketed(**BY_COST)
    found = {m.name: m.bucket for m in planning_specs(own)[1:]}
    short, long = (bucket_cost(own, name) for name in ("short", "long"))
    assert found == {
        "short": LengthBucket("vision", 0, 32, short),
        "long": LengthBucket("vision", 32, None, long),
        "audio": None,
    }
    assert (short.groups, long.groups) == (4, 2)
    # The lowered configuration is that of the hardware, not of the emulated devices.
    assert [configure_step(own, place).workload.dtype for place in (None, "gpu")] == [
        "float32",
        "bfloat16",
    ]


def test_buckets_with_thresholds_have_seconds_and_are_not_cut() -> None:
    own = bucketed(schedule__hardware="h100")
    found = {m.name: m.bucket for m in planning_specs(own)[1:]}
    short, long = (bucket_cost(own, name) for name in ("short", "long"))
    assert found == {
        "short": LengthBucket("vision", 0, 16, short, fixed=True),
        "long": LengthBucket("vision", 16, None, long, fixed=True),
        "audio": None,
    }
    assert not has_thresholds(make_capacity(own.data.budgets, planning_specs(own)))
    assert has_thresholds(make_capacity(own.data.budgets, planning_specs(bucketed(**BY_COST))))
    # Without hardware there are no seconds.
    assert [m.bucket for m in planning_specs(bucketed())[1:]] == [
        m.bucket for m in media_specs(bucketed().model)
    ]


def test_seconds_of_buckets_differ_by_the_exchange_of_heads() -> None:
    """Half the compute, and 4 M (P-1) / P^2 bytes on a link in every pass over a layer."""
    hardware, size = load_hardware("h100"), 2

    def costs(positions: int) -> list[BucketCost]:
        # Rows whose compute hides the adding up of gradients.
        budgets = BUDGETS | {"short": positions, "long": 2 * positions}
        values = {"data__budgets": budgets, "model__remat": "none"}
        own = bucketed(**BY_COST, **values, model__encoders__vision__d_model=64)
        return [bucket_cost(own, name) for name in ("short", "long")]

    (short, long), twice = costs(2**15), costs(2**16)
    assert long.quadratic == pytest.approx(short.quadratic / 2)
    # Latencies of a row are in the seconds of its positions, half as much in one of twice as many.
    own, other = (2 * b.linear - a.linear for a, b in zip((short, long), twice, strict=True))
    assert own == pytest.approx(short.linear)  # no collective is without bytes, or waits for others
    assert other < long.linear
    link = hardware.link.bandwidth * hardware.efficiency.link
    sent = 4 * (64 * size) * (2 - 1) / 2**2 / link
    assert other == pytest.approx(own / 2 + 2 * sent, rel=1e-6)
    assert long.fixed > 0
    assert short.fixed > 0


@pytest.mark.parametrize(("lengths", "rows"), [([8], 1), ([8, 8, 24], 1), ([1, 5, 30, 30], 2)])
@pytest.mark.parametrize("attention", ["reference", "blockwise"])
def test_seconds_of_a_bucket_are_those_of_the_cost_model(
    lengths: list[int], rows: int, attention: str
) -> None:
    """Rows one after the other on one group, each as long as the budget; or their media's pairs."""
    own = bucketed(**BY_COST, model__attention=attention)
    cost = bucket_cost(own, "long")
    assert cost.row == own.data.budgets["long"] == 64
    whole, parts = (
        build_workload(on_platform(own, "gpu")),
        (configure_step(own).strategy, load_hardware("h100"), "long"),
    )
    timing = ModuleTiming(replace(whole, rows=2), *parts)  # a row for each group
    tasks = (
        sum(task.seconds for task in timing.chunk_times().values()) - timing.task_exchange_seconds
    )
    seconds = ModuleTiming(whole, *parts).task_exchange_seconds + rows * tasks
    if attention == "blockwise":
        assert cost.by_segment
        seconds -= cost.quadratic * (rows * 64**2 - sum(n**2 for n in lengths))
    one = replace(cost, groups=1)
    assert bucket_seconds(np.array(lengths), one) == pytest.approx(seconds, rel=1e-6)


REFUSED = [
    (
        {"parallel__encoders": {k: v for k, v in PLANS.items() if k != "long"}},
        r"parallel\.encoders\.long: required, as model\.encoders\.vision\.buckets\.long exists",
    ),
    (
        {"parallel__encoders": PLANS | {"vision": {"data": 4}}},
        r"parallel\.encoders\.vision: has no effect, as vision has buckets; plans are of short, ",
    ),
    (
        {"data__budgets": {k: v for k, v in BUDGETS.items() if k != "short"}},
        r"data\.budgets\.short: required, as model\.encoders\.vision\.buckets\.short exists",
    ),
    (
        {"data__budgets": BUDGETS | {"vision": 64}},
        r"data\.budgets\.vision: the model has no such bucket; budgets are of tokens",
    ),
    (
        {"parallel__encoders": PLANS | {"long": {"data": 2, "tensor": 2}}},
        r"parallel\.encoders\.long: data 2 x tensor 2 splits the parameters of vision in another "
        r"way than data 4 of short: tensor is over other devices; valid",
    ),
    (
        {"model__encoders__vision__buckets": {"short": 16, "long": 32}},
        r"do not give every medium one bucket; valid: null for one of the buckets",
    ),
    (
        {"model__encoders__vision__buckets": {"short": None, "long": None}},
        r"do not give every medium one bucket; valid: null for one of the buckets",
    ),
    (
        {"model__encoders__vision__buckets": {"audio": 16, "long": None}},
        r"buckets\.audio: the name is taken; valid: a name other than decoder, vision, audio",
    ),
    (
        {
            "model__encoders__vision__buckets": {"tokens": 16, "long": None},
            "parallel__encoders": {"tokens": {"data": 4}, "long": {"data": 4}, "audio": AUDIO},
            "data__budgets": {k: v for k, v in BUDGETS.items() if k != "short"},
        },
        r"model\.encoders\.vision\.buckets\.tokens: the name is taken",
    ),
    (
        {"model__encoders__vision__buckets": {"short": "auto", "long": None}},
        r"schedule\.hardware: required, as model\.encoders\.vision\.buckets\.short is auto and "
        r"cuts by seconds; valid: a100",
    ),
    (
        {**BY_COST, "data__budgets": BUDGETS | {"long": 16}},
        r"budgets\.long: 16 is less than the 32 of short, whose media may go there; valid: 32",
    ),
    (
        {"model__encoders__vision__buckets": {"short": "auto", "long": 32}},
        r"are not two of which one is cut from the other; valid: auto for one of two buckets",
    ),
    (
        {"data__balancing": {"vision": {"cost": "padded"}}},
        r"data\.balancing",
    ),
]


@pytest.mark.parametrize(("changes", "said"), REFUSED)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        bucketed(**changes)


def test_stages_that_evaluation_would_lay_out_in_another_way_are_refused() -> None:
    staged = {
        "parallel__devices": 4,
        "parallel__decoder": {"data": 2, "stage": 2},
        "parallel__encoders": {
            "short": {"data": 2, "stage": 2},
            "long": {"stage": 2, "context": 2},
            "audio": {"data": 4},
        },
        "model__decoder__layers": 2,
        "model__encoders__vision__layers": 2,
        "train__accumulate": 2,
    }
    with pytest.raises(ConfigError, match=r"encoders\.long: in evaluation, whose stages are part"):
        bucketed(**staged)
    assert bucketed(**staged, evaluate__enabled=False).parallel.plans["long"].context == 2
