"""The best plan with the remat of baselines: the gain without that of less recomputation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mllm_jax.plan.planner import Planner
from mllm_jax.plan.prediction import Prediction, predicted
from scheduling.search.branch_and_bound import Progress
from scheduling.search.outcome import Outcome

NAME = "same remat"
#: Baselines that are searched with any remat, so that comparing seconds would say nothing.
ANY_REMAT = ("fsdp", "prologue")


def same_remat(
    planner: Planner, best: Outcome, known: Sequence[Outcome], progress: Progress
) -> Prediction:
    """The fastest strategy with the configured `model.remat`, which configured baselines have.

    Args:
        best: the fastest of all.
        known: outcomes of other searches.
        progress: told of the search.
    """
    remat = planner.config.model.remat
    if best.strategy.remat == remat:
        return replace(predicted(planner, NAME, best), reason="as fast as the best: it is the best")
    alike = [own for own in known if own.strategy.remat == remat]
    found = planner.search(1, progress, replace(planner.space, remats=(remat,)), alike)
    if found.best:
        return predicted(planner, NAME, found.best[0])
    return Prediction(NAME, "", reason=f"nothing fits with remat {remat}")


def beside(own: Prediction, baselines: Mapping[str, Prediction]) -> list[str]:
    """Times of the baselines with the configured remat, relative to this plan."""
    if own.seconds is None:
        return []
    return [
        f"{name}: {made.seconds / own.seconds:.2f}x the seconds of {NAME}"
        for name, made in baselines.items()
        if made.seconds is not None and name not in ANY_REMAT
    ]
