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
    """

    layer: int
    imbalance: float
    entropy: float
    shares: tuple[float, ...]


def expert_loads(layers: Sequence[int], steps: Sequence[Any]) -> tuple[ExpertLoad, ...]:
    """Mean loads of some steps, `[layers, experts]` each, one for every layer that has experts."""
    if not layers or not steps:
        return ()
    mean = np.mean([np.asarray(own, np.float64) for own in steps], axis=0)
    return tuple(_of_layer(*pair) for pair in zip(layers, mean, strict=True))


def _of_layer(layer: int, shares: NDArray[np.float64]) -> ExpertLoad:
    total = shares.sum()
    parts = shares / total if total else np.full_like(shares, 1 / len(shares))
    some = parts[parts > 0]
    entropy = float(-(some * np.log(some)).sum()) / math.log(len(parts)) if len(parts) > 1 else 1.0
    imbalance = float(parts.max() * len(parts))
    return ExpertLoad(layer, imbalance, entropy, tuple(shares.tolist()))


def insane_layer(layers: Sequence[int], loads: ArrayLike | None) -> int | None:
    """The first layer whose router had logits that are not finite; its load is no number."""
    found = () if loads is None else np.isnan(np.asarray(loads)).any(axis=-1)
    return next((layer for layer, bad in zip(layers, found, strict=False) if bad), None)
