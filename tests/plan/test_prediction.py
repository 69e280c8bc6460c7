"""The figures of `plan` for a step under one plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mllm_jax.config.hardware import load_hardware
from mllm_jax.plan.comparison import WITHOUT_EXCHANGE, WITHOUT_TICKS, compare_with_best
from mllm_jax.plan.prediction import COLUMNS, PlanPrediction, describe_strategy, format_gib
from mllm_jax.plan.simulate import NO_VARIATION, simulate_config
from scheduling.costs.strategy import Strategy
from scheduling.simulate.simulation import IDLE_KINDS
from sharding.plan import ParallelPlan

ALL = float("inf")


def prediction(seconds: float | None, **idle: float) -> PlanPrediction:
    made = dict.fromkeys(IDLE_KINDS, 0.0) | {name.replace("_", "-"): s for name, s in idle.items()}
    compute = None if seconds is None else seconds - sum(idle.values())
    return PlanPrediction("name", "", 4, seconds, compute, {str(k): s for k, s in made.items()})


def test_slower_ways_say_where_the_time_goes() -> None:
    best = prediction(2.0, other=0.5)
    told = compare_with_best(prediction(4.0, warm_up=1.75, other=0.25), best, ALL).reason
    assert told == "2.00x the best's seconds, most of it warm-up (1.75 s more)"
    told = compare_with_best(prediction(3.0), best, ALL).reason
    assert told == "1.50x the best's seconds, most of it compute (1.5 s more)"
    assert compare_with_best(best, best, ALL).reason == "as fast as the best"
    told = compare_with_best(prediction(1.0), best, ALL).reason
    assert told == f"2.00x as fast as the best: {WITHOUT_EXCHANGE}"
    told = compare_with_best(prediction(1.0), replace(best, stages=2), ALL).reason
    assert told == f"2.00x as fast as the best: {WITHOUT_TICKS}"


def test_plans_that_need_more_memory_say_so() -> None:
    best, large = prediction(2.0), replace(prediction(1.0), memory=3.0 * 2**30)
    assert compare_with_best(large, best, 2.0 * 2**30).reason == "needs 3.00 GiB of 2"
    assert compare_with_best(large, best, 3.0 * 2**30).reason.startswith("2.00x as fast")


@pytest.mark.parametrize(
    ("number", "microbatches", "chunks"),
    [(1, "1 microbatch", "1 chunk"), (2, "2 microbatches", "2 chunks")],
)
def test_one_is_no_plural(number: int, microbatches: str, chunks: str) -> None:
    plans = {"decoder": ParallelPlan(stage=2), "vision": ParallelPlan(data=2)}
    strategy = Strategy(plans, number, dict.fromkeys(plans, number))
    assert describe_strategy(strategy).split(", ") == [
        "decoder stage 2; vision data 2",
        microbatches,
        "remat layer",
        chunks,
        "encoders in bubbles",
        f"vision in {chunks}",
    ]


@pytest.mark.parametrize(
    ("size", "told"),
    [(0, "0"), (2**30, "1.00"), (12.341 * 2**30, "12.4"), (2**20, "0.000977"), (2**40, "1030")],
)
def test_gib_are_rounded_up(size: float, told: str) -> None:
    assert format_gib(size) == told
    assert float(told) * 2**30 >= size


def test_plans_that_cannot_be_run_have_empty_cells() -> None:
    row = PlanPrediction("name", "", reason="why").row
    assert row == ("name", *"-" * (len(COLUMNS) - 1))
    assert len(prediction(2.0).row) == len(COLUMNS)


def test_a_simulation_tells_the_exchange_of_every_bucket(small_config: Any, tmp_path: Path) -> None:
    """The chosen one and the seconds of all that are possible."""
    for balance, chosen, count in (("per_phase", "all_to_all", 3), ("none", "gather", 2)):
        config = small_config(data__balance=balance)
        made = simulate_config(config, load_hardware("h100"), tmp_path, NO_VARIATION)
        told = made.to_json()["exchanges"]
        assert [own["bucket"] for own in told] == ["vision", "audio"]
        assert all(own["counted"] == chosen for own in told)
        assert all(len(own["microbatch_seconds"]) == count for own in told)
        assert [str(own) for own in made.exchanges] == made.notes[-4:-2]
