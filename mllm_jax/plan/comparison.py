"""Parts of the plans' space without the best plan: why each is slower, and what would fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from mllm_jax.checkout import load_benchmarks
from mllm_jax.plan.planner import PlanSearch
from mllm_jax.plan.prediction import (
    GIB,
    PlanPrediction,
    describe_strategy,
    format_gib,
    predict_outcome,
)
from scheduling.costs.workload import Workload
from scheduling.search.branch_and_bound import SearchResult
from scheduling.search.space import Space, with_stages

#: More devices than that many times those given are no advice.
MOST_TIMES = 8
#: Why a baseline can be faster than a best with stages, and than one without.
WITHOUT_TICKS = "its stages wait for data alone, those of the best for each other in every tick"
WITHOUT_EXCHANGE = "it counts no exchange of encoder outputs"
#: Seconds that differ by so small a share are the same.
EQUAL = 1e-9
#: Predicts the steps of other systems for a planner's model, rows and devices, by their names.
OtherSystems = Callable[[PlanSearch], dict[str, PlanPrediction]]


def other_systems() -> OtherSystems | None:
    """Other systems to compare with, which only a checkout has (`benchmarks/systems`)."""
    module = load_benchmarks("systems.planning")
    return None if module is None else module.predict_systems


def compare_with_best(
    prediction: PlanPrediction, best: PlanPrediction, limit: float
) -> PlanPrediction:
    """The prediction with the reason why it is slower than the best, or exceeds `limit` bytes."""
    if prediction.seconds is None or best.seconds is None:
        return prediction
    if prediction.memory is not None and prediction.memory > limit:
        return replace(
            prediction, reason=f"needs {format_gib(prediction.memory)} GiB of {limit / GIB:.3g}"
        )
    ratio = prediction.seconds / best.seconds
    if abs(ratio - 1) < EQUAL:
        return replace(prediction, reason="as fast as the best")
    if ratio < 1:
        why = WITHOUT_TICKS if best.stages > 1 else WITHOUT_EXCHANGE
        return replace(prediction, reason=f"{1 / ratio:.2f}x as fast as the best: {why}")
    if prediction.idle is None:
        return replace(prediction, reason=f"{ratio:.2f}x the best's seconds")
    losses = {
        kind: seconds - (best.idle or {}).get(kind, 0.0)
        for kind, seconds in prediction.idle.items()
    }
    losses["compute"] = (prediction.compute or 0.0) - (best.compute or 0.0)
    worst = max(losses, key=lambda kind: losses[kind])
    why = f"{ratio:.2f}x the best's seconds, most of it {worst} ({losses[worst]:.4g} s more)"
    return replace(prediction, reason=why)


def named_subspaces(space: Space, workload: Workload) -> dict[str, Space]:
    """Parts of the space of all plans that have a separate row, by its name."""
    return {
        "fsdp": replace(space, stages=(1,)),
        "prologue": replace(with_stages(space, workload), placements=("prologue",)),
    }


def predict_subspaces(
    planner: PlanSearch, searches: Mapping[str, SearchResult]
) -> dict[str, PlanPrediction]:
    """The best of each part of the space, by its name, or why there is none.

    Args:
        searches: results of the searches of `named_subspaces`.
    """
    return {name: _predict_subspace(planner, name, search) for name, search in searches.items()}


def _predict_subspace(planner: PlanSearch, name: str, search: SearchResult) -> PlanPrediction:
    """The best of a part of the space, or why there is none."""
    if search.best:
        return predict_outcome(planner, name, search.best[0])
    space = named_subspaces(planner.space, planner.workload)[name]
    return PlanPrediction(name, "", reason=describe_smallest(planner, search.refused, space))


def describe_smallest(
    planner: PlanSearch, refused: Mapping[str, int], space: Space | None = None
) -> str:
    """Memory of the leanest strategy of a space in which none fits, and a number that would fit.

    Args:
        refused: why its families were left out.
        space: space of the search, by default that of all plans.
    """
    leanest = planner.find_leanest(space)
    if leanest is None:
        why = "; ".join(refused) or "no degrees divide the devices, the rows and the model"
        return f"{why}; change parallel.devices or data.rows x train.accumulate"
    strategy, memory = leanest
    changes = _sufficient_devices(planner)
    if memory <= planner.hardware.memory:
        changes.append(f"--memory {format_gib(memory)}")
    advice = (
        f"fits with {', or with '.join(changes)}"
        if changes
        else f"{MOST_TIMES}x the devices do not do"
    )
    return (
        f"the leanest, {describe_strategy(strategy)}, needs {format_gib(memory)} GiB of "
        f"{planner.space.memory / GIB:.3g}; {advice}"
    )


def _sufficient_devices(planner: PlanSearch) -> list[str]:
    """Number of devices that would suffice, by doubling up to a bound."""
    times = 2
    while times <= MOST_TIMES:
        more = planner.with_devices(times * planner.space.devices)
        if fitting := more.find_fitting():
            return [f"{fitting[0].backbone.devices} devices"]
        times *= 2
    return []
