"""How uneven a step is if groups of hosts balance by themselves, before anything is balanced.

Within a group an assignment is nearly as even as can be: the heaviest rank has hardly more than
the mean, or than the most expensive item (`BalanceProblem.bound`). Nothing moves between groups,
and one group's samples may be heavier than another's. So steps are drawn from samples of the data,
each group takes what its rows hold, and the heaviest group counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.planning.microbatches import costs_of
from data.planning.packing import Capacity
from data.planning.problem import WorkModel
from data.sample import DataError, Lengths

#: Steps that are drawn.
STEPS = 8
#: Samples that are drawn for a group, over those that fill it in the mean.
OVERSAMPLING = 2

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Shares:
    """What one of several groups has of a step.

    Attributes:
        groups: number of groups.
        rows: rows of the group in a step, those of all microbatches together.
        ranks: by phase, parts of the step that ranks of the group do at the same time, those of all
            microbatches together: rows are distributed over them.
        samples: samples of the group in a step; None where its rows are filled.
    """

    groups: int
    rows: int
    ranks: Mapping[str, int]
    samples: int | None = None


@dataclass(frozen=True)
class DrawnSteps:
    """Steps that have been drawn.

    Attributes:
        heaviest, mean: by phase, forward FLOPs of the heaviest rank and of ranks in the mean.
        samples: samples of a group in the mean.
    """

    heaviest: Mapping[str, float]
    mean: Mapping[str, float]
    samples: float


def draw_steps(
    samples: Sequence[Lengths], capacity: Capacity, work: Mapping[str, WorkModel], shares: Shares
) -> DrawnSteps:
    """Steps of groups that are filled with samples, which are drawn with replacement.

    Args:
        samples: lengths of samples by bucket, each of which fits a row.
        capacity: capacity of a row.
        work: work of the phases.
        shares: the groups.

    Raises:
        DataError: there are no samples.
    """
    if not samples:
        raise DataError("no sample can be used to draw steps from; valid: at least one")
    phases = list(work)
    costs = costs_of(samples, work)
    most_expensive = _most_expensive(samples, work)
    needs = np.array([capacity.needs(lengths) for lengths in samples], np.int64)
    rng, limits = np.random.default_rng(0), shares.rows * np.array(capacity.limits)
    count = shares.samples or _count_filling(needs, limits)
    heaviest, mean, placed = np.zeros(len(phases)), np.zeros(len(phases)), 0.0
    ranks = np.array([shares.ranks[name] for name in phases])
    for _ in range(STEPS):
        chosen = rng.integers(0, len(samples), (shares.groups, count))
        over = (needs[chosen].cumsum(1) > limits).any(2) & (shares.samples is None)
        here = np.where(over, 0, 1)[..., None]
        loads = (costs[chosen] * here).sum(1) / ranks
        single = (most_expensive[chosen] * here).max(1)
        heaviest += np.maximum(loads, single).max(0) / STEPS
        mean += loads.mean(0) / STEPS
        placed += here.sum() / shares.groups / STEPS
    return DrawnSteps(
        dict(zip(phases, heaviest.tolist(), strict=True)),
        dict(zip(phases, mean.tolist(), strict=True)),
        placed,
    )


def _count_filling(needs: NDArray[np.int64], limits: NDArray[np.int64]) -> int:
    """Samples of which some are left when the rows of a group are full."""
    mean = needs.mean(0)
    return OVERSAMPLING * int((limits[mean > 0] / mean[mean > 0]).min()) + 1


def _most_expensive(samples: Sequence[Lengths], work: Mapping[str, WorkModel]) -> Floats:
    """FLOPs of the most expensive item of every sample by phase, `[samples, phases]`."""
    flops = np.zeros((len(samples), len(work)))
    for number, lengths in enumerate(samples):
        for phase, (name, model) in enumerate(work.items()):
            n = np.array(lengths.counts(name), np.float64)
            flops[number, phase] = (model.linear * n + model.attention(n)).max(initial=0.0)
    return flops
