"""Where one more chunk in a tick shortens the step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

import numpy as np

from scheduling.schedules.task_queue import TOLERANCE


def gainful_stages(
    load: np.ndarray, floor: np.ndarray, costs: np.ndarray, share: float, stretch: bool
) -> np.ndarray:
    """`[ticks, stages]`: where one more chunk makes the tick longer by less than its share.

    Several stages may make a tick longer at the same time: the set of stages that gains most is
    taken.

    Args:
        load: `[ticks, stages]`: cost of the tasks.
        floor: `[ticks]`: least length of each tick.
        costs: `[ticks, stages]`: cost of a chunk; infinite where none may run.
        share: share of a round that one chunk is.
        stretch: whether chunks may make a tick longer at all.
    """
    possible = np.isfinite(costs)
    costs = np.where(possible, costs, 0)
    length = np.maximum(load.max(axis=1), floor)[:, None]
    longer = np.maximum(load + costs - length, 0)
    longer[longer <= TOLERANCE * costs] = 0
    if not stretch:
        return possible & (longer == 0) & (costs > 0)
    longer[~possible] = inf
    rows = np.arange(len(load))[:, None]
    order = longer.argsort(axis=1, kind="stable")
    level, worth = longer[rows, order], share * costs[rows, order].cumsum(axis=1)
    best = (worth - level).argmax(axis=1)[:, None]
    level, worth = level[rows, best], worth[rows, best]
    return possible & (longer <= level) & (worth - level > TOLERANCE * worth)


def gainful_stages_of_tick(
    load: Sequence[float], floor: float, costs: Mapping[int, float], share: float, stretch: bool
) -> list[int]:
    """`gainful_stages` in one tick, which is faster for a few stages than arrays are.

    Args:
        load: `[stages]`: cost of the tasks.
        floor, share, stretch: as in `gainful_stages`.
        costs: cost of a chunk, by the stages that may run one.

    Returns:
        The stages, in rising order.
    """
    if not costs:
        return []
    length = max(max(load), floor)
    longer = {
        stage: _tick_growth(load[stage] + cost - length, cost) for stage, cost in costs.items()
    }
    if not stretch:
        return [stage for stage in sorted(costs) if not longer[stage] and costs[stage] > 0]
    best = level = worth = total = 0.0
    for stage in sorted(costs, key=lambda stage: (longer[stage], stage)):
        total += costs[stage]
        if (gain := share * total - longer[stage]) > best:
            best, level, worth = gain, longer[stage], share * total
    if best <= TOLERANCE * worth:
        return []
    return [stage for stage in sorted(costs) if longer[stage] <= level]


def _tick_growth(excess: float, cost: float) -> float:
    """The seconds by which a tick grows; 0 if they are a rounding error."""
    return excess if excess > TOLERANCE * cost else 0.0
