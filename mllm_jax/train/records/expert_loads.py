"""Loads of the experts of every layer, as metrics show them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class ExpertLoad:
    """The load of one layer's experts over a window of steps.

    Attributes:
        layer: number of the layer, from 0.
        imbalance: tokens of the busiest expert over the mean of all.
        entropy: entropy of the shares over that of equal shares: 1 if all are busy alike, 0 if one
            expert gets all.
        shares: share of the tokens that each expert got; they sum to the experts of a token.

    None of the figures is a number where the logits of the layer's router were not finite.
    """

    layer: int
    imbalance: float
    entropy: float
    shares: tuple[float, ...]


def expert_loads(layers: Sequence[int], steps: Sequence[Any]) -> tuple[ExpertLoad, ...]:
    """Mean loads of some steps, `[layers, experts]` each, one for every layer that has experts."""
    if not layers or not steps:
        return ()
    mean = np.mean([np.asarray(step_shares, np.float64) for step_shares in steps], axis=0)
    return tuple(_layer_load(*pair) for pair in zip(layers, mean, strict=True))


def _layer_load(layer: int, shares: NDArray[np.float64]) -> ExpertLoad:
    total = shares.sum()
    parts = shares / total if total else np.full_like(shares, 1 / len(shares))
    some = parts[parts != 0]  # with those that are not numbers
    even = math.log(len(parts))
    entropy = float(-(some * np.log(some)).sum() / even if even else parts[0])
    imbalance = float(parts.max() * len(parts))
    return ExpertLoad(layer, imbalance, entropy, tuple(shares.tolist()))


def rank_loads(loads: ArrayLike, ranks: int) -> tuple[float, float]:
    """Tokens of the ranks that share the experts of a step, of the mean and of the fullest one.

    Loads are those of a step, so these are means over groups of expert ranks and over
    microbatches: where groups or microbatches differ, ranks wait longer for each other than this
    says. They do so in every layer, so the tokens of its fullest rank are added up::

        [[2 2 | 1 1]         ranks have 4 2 and 1 5: the means are 3 + 3, the fullest 4 + 5
         [0 1 | 3 2]]

    Args:
        loads: `[layers, experts]`, in any unit; each rank has as many successive experts.
        ranks: number of the ranks.

    Returns:
        Sums over layers, `(0, 0)` where a router's logits are not finite.
    """
    layer_loads = np.asarray(loads, np.float64)
    by_rank = layer_loads.reshape(len(layer_loads), ranks, -1).sum(-1)
    if not np.isfinite(by_rank).all():
        return 0.0, 0.0
    return float(by_rank.mean(-1).sum()), float(by_rank.max(-1).sum())


def find_nonfinite_layer(layers: Sequence[int], loads: ArrayLike | None) -> int | None:
    """The first layer whose router had logits that are not finite; its load is no number."""
    is_bad = () if loads is None else np.isnan(np.asarray(loads)).any(axis=-1)
    return next((layer for layer, bad in zip(layers, is_bad, strict=False) if bad), None)
