"""The best plan with the remat of baselines: the gain without that of less recomputation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mllm_jax.plan.planner import PlanSearch
from mllm_jax.plan.prediction import PlanPrediction, predict_outcome
from scheduling.search.branch_and_bound import ProgressCallback
from scheduling.search.outcome import SearchOutcome

NAME = "same remat"
#: Baselines that are searched with any remat, so that comparing seconds would say nothing.
ANY_REMAT = ("fsdp", "prologue")


def search_same_remat(
    planner: PlanSearch,
    best: SearchOutcome,
    known: Sequence[SearchOutcome],
    progress: ProgressCallback,
) -> PlanPrediction:
    """The fastest strategy with the configured `model.remat`, which configured baselines have.

    Args:
        best: the fastest of all.
        known: outcomes of other searches.
        progress: receives the progress of the search.
    """
    remat = planner.config.model.remat
    if best.strategy.remat == remat:
        return replace(
            predict_outcome(planner, NAME, best), reason="as fast as the best: it is the best"
        )
    outcomes = [outcome for outcome in known if outcome.strategy.remat == remat]
    result = planner.search_plans(1, progress, replace(planner.space, remats=(remat,)), outcomes)
    if result.best:
        return predict_outcome(planner, NAME, result.best[0])
    return PlanPrediction(NAME, "", reason=f"nothing fits with remat {remat}")


def compare_seconds(
    prediction: PlanPrediction, baselines: Mapping[str, PlanPrediction]
) -> list[str]:
    """Times of the baselines with the configured remat, relative to this plan."""
    if prediction.seconds is None:
        return []
    return [
        f"{name}: {baseline.seconds / prediction.seconds:.2f}x the seconds of {NAME}"
        for name, baseline in baselines.items()
        if baseline.seconds is not None and name not in ANY_REMAT
    ]
