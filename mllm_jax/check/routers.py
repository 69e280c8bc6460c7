"""Routers that send tokens where a plan has most to do, by the biases of their experts.

A plan that is right for an even load may be wrong where all tokens meet on one rank: exchanges then
have more rounds than one, some ranks have nothing to compute, and products have empty groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from mllm_jax.models.model_config import ModelConfig
from mllm_jax.train.state.loads import is_load
from sharding.plan import ParallelPlan

#: A bias that outweighs every score, which is 1 at most, and every sum of two.
BIAS = np.float32(4.0)
ONE_EXPERT, ONE_RANK = "all to one expert", "all to experts of one rank"


def preferred_routers(
    model: ModelConfig, plan: ParallelPlan, params: Any
) -> Iterator[tuple[str, Any]]:
    """Names of routers and parameters with them; nothing where the decoder has no experts.

    Routers: a `random` one, which has the parameters as they are; one whose tokens all choose the
    last expert, and their others as before; where ranks share experts, one whose tokens choose the
    experts of the last of these ranks, and others only for want of more.

    Args:
        plan: plan of the decoder.
        params: parameters as numpy arrays, layers stacked.
    """
    experts = model.backbone_config.experts
    if experts is None:
        return
    yield "random", params
    yield ONE_EXPERT, _prefer_last(params, 1)
    if plan.expert > 1:
        yield ONE_RANK, _prefer_last(params, experts.count // plan.expert)


def _prefer_last(params: Any, last: int) -> Any:
    """`params` whose routers prefer the `last` experts of all layers."""

    def change_leaf(path: tuple[Any, ...], leaf: np.ndarray) -> np.ndarray:
        if not is_load(path):
            return leaf
        preferred = np.arange(leaf.shape[-1]) >= leaf.shape[-1] - last
        return leaf + BIAS * preferred

    return jax.tree_util.tree_map_with_path(change_leaf, params)
