"""Items of a step distributed over its microbatches, so that the microbatches take equal time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from data.planning.problem import RESOLUTION, Ints, WorkModel
from data.sample import Lengths


def spread_over_time(
    costs: NDArray[np.float64], microbatches: int, most: int | None = None
) -> Ints:
    """Microbatch of every item, such that the heaviest phase of each microbatch is light.

    Dearest first, each item goes to the microbatch whose heaviest phase would then be lightest.
    Phases count in shares of their work in the whole step, as their seconds are not known here.

    Args:
        costs: `[items, phases]`: costs of samples or rows; without phases, items are distributed in
            turn.
        microbatches: number of microbatches.
        most: most items of a microbatch; by default any number.

    Returns:
        `[items]`: microbatch of each item.
    """
    items, phases = costs.shape
    if microbatches == 1 or not phases:
        return np.array(in_turn(items, microbatches), np.int64)
    # Whole numbers, whose sums are the same on every host.
    integers = np.rint(costs / np.maximum(costs.max(0, initial=0), 1) * RESOLUTION).astype(np.int64)
    shares = integers * RESOLUTION // np.maximum(integers.sum(0), 1)
    loads = np.zeros((microbatches, phases), np.int64)
    left = np.full(microbatches, items if most is None else most)
    chosen = np.zeros(items, np.int64)
    for i in np.argsort(-shares.max(1), kind="stable"):
        heaviest = (loads + shares[i]).max(1)
        chosen[i] = np.where(left > 0, heaviest, np.iinfo(np.int64).max).argmin()
        loads[chosen[i]] += shares[i]
        left[chosen[i]] -= 1
    return chosen


def costs_of(samples: Sequence[Lengths], work: Mapping[str, WorkModel]) -> NDArray[np.float64]:
    """Forward FLOPs of every sample in every phase whose `work` is known, `[samples, phases]`."""
    costs = [[_work_of(s.counts(name), model) for name, model in work.items()] for s in samples]
    return np.array(costs, np.float64).reshape(len(samples), len(work))


def _work_of(items: Sequence[int], work: WorkModel) -> float:
    """Forward FLOPs of the items of a sample in one phase."""
    n = np.array(items, np.float64)
    return sum((work.linear * n + work.attention(n)).tolist())


def in_turn(count: int, rows: int) -> list[int]:
    """Rows, or microbatches, of `count` items in their order, equally many in each."""
    return [i * rows // count for i in range(count)]
