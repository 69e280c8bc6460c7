"""The workload of a step with the bytes that its layers keep, found by tracing them.

A layer of a model is traced once in a process for each way in which ranks split it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache

import jax

from mllm_jax.config.configured_step import workload
from mllm_jax.config.inputs import packing
from mllm_jax.config.sections import ExperimentConfig
from mllm_jax.models.batch import ModuleRows
from mllm_jax.models.graph import ModelConfig
from mllm_jax.plan.activation_bytes import Trained, kept_bytes, pairs_bytes
from scheduling.costs.workload import Split, Workload


def traced_workload(
    config: ExperimentConfig, splits: Collection[tuple[int, bool]], *, apart: bool = False
) -> Workload:
    """`workload(config)` with the bytes that the memory model needs.

    Args:
        config: configuration from `on_platform`.
        splits: tensor degrees for which the memory will be asked for, each with whether ranks share
            experts.
        apart: whether schedules with weight gradients apart will be asked for, too.
    """
    whole, model = workload(config), config.model
    asked = [
        Split(name, tensor, experts and name == "decoder")
        for name, positions in whole.positions.items()
        for tensor, experts in splits
        if _splits(model, name, tensor, positions)
    ]
    kept = {
        own: layer_bytes(model, own, whole.positions[own.tower], _trained(whole, own.tower))
        for own in sorted({*asked})
    }
    positions, trained = whole.positions["decoder"], _trained(whole, "decoder")
    pairs = {
        own: _pairs(model, own, positions, trained)
        for own in kept
        if apart and own.tower == "decoder"
    }
    return replace(whole, kept=kept, apart=pairs)


def _trained(work: Workload, name: str) -> Trained:
    """Which parameters of a tower's layers have gradients."""
    return "adapters" if name in work.adapted else "nothing" if name in work.frozen else "all"


@lru_cache(maxsize=1024)
def layer_bytes(
    model: ModelConfig, split: Split, positions: int, trained: Trained = "all"
) -> float:
    """`kept_bytes` of one row with so many positions, of the decoder or of a lane."""
    own = split._replace(tower=model.lanes.get(split.tower, split.tower))
    return kept_bytes(model, own, positions, _packed(model, split.tower, positions), trained)


@lru_cache(maxsize=1024)
def _pairs(model: ModelConfig, split: Split, positions: int, trained: Trained) -> float:
    """`pairs_bytes` of one row with so many positions."""
    return pairs_bytes(model, split, positions, _packed(model, "decoder", positions), trained)


def _packed(model: ModelConfig, name: str, positions: int) -> ModuleRows:
    """Shapes of one packed row, without its inputs."""
    rows: ModuleRows = jax.tree.map(
        lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype),
        packing(model, name, 1, positions),
    )
    return rows


def _splits(model: ModelConfig, name: str, tensor: int, positions: int) -> bool:
    """Whether heads, widths and rows divide by `tensor`."""
    unit = 1 if name == "decoder" else model.encoder(name).reduction
    sizes = [need.size for need in model.requirements(name) if need.axis in ("tensor", "sequence")]
    return all(size % tensor == 0 for size in (*sizes, positions // unit))
