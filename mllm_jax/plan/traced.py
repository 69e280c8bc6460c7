"""The workload of a step with the bytes that its layers save, measured by tracing them.

A layer of a model is traced once in a process for each way in which ranks split it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache

import jax

from mllm_jax.config.configured_step import build_workload
from mllm_jax.config.inputs import empty_module_rows
from mllm_jax.config.sections import ExperimentConfig
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module_rows import ModuleRows
from mllm_jax.plan.activation_bytes import Trained, operand_bytes, saved_bytes
from scheduling.costs.workload import LayerSplit, Workload


def traced_workload(
    config: ExperimentConfig, splits: Collection[tuple[int, bool]], *, deferred: bool = False
) -> Workload:
    """`build_workload(config)` with the bytes that the memory model needs.

    Args:
        config: configuration from `on_platform`.
        splits: tensor degrees for which the memory will be asked for, each with whether ranks share
            experts.
        deferred: whether schedules with split weight gradients will be asked for, too.
    """
    full_workload, model = build_workload(config), config.model
    asked = [
        LayerSplit(name, tensor, experts and model.module(name).layer_experts is not None)
        for name, positions in full_workload.positions.items()
        for tensor, experts in splits
        if _divides_evenly(model, name, tensor, positions)
    ]
    saved = {
        split: measure_layer_bytes(
            model,
            split,
            full_workload.positions[split.module],
            _trained_parameters(full_workload, split.module),
        )
        for split in sorted({*asked})
    }
    positions, trained = (
        full_workload.positions[model.backbone],
        _trained_parameters(full_workload, model.backbone),
    )
    pairs = {
        split: _operand_bytes(model, split, positions, trained)
        for split in saved
        if deferred and split.module == model.backbone
    }
    return replace(full_workload, residual_bytes=saved, operand_bytes=pairs)


def _trained_parameters(work: Workload, name: str) -> Trained:
    """Which parameters of a module's layers have gradients."""
    return "adapters" if name in work.adapted else "nothing" if name in work.frozen else "all"


@lru_cache(maxsize=1024)
def measure_layer_bytes(
    model: ModelConfig, split: LayerSplit, positions: int, trained: Trained = "all"
) -> float:
    """`saved_bytes` of one row with so many positions, of the decoder or of a bucket."""
    module_split = split._replace(module=model.buckets.get(split.module, split.module))
    return saved_bytes(
        model, module_split, positions, _packed_rows(model, split.module, positions), trained
    )


@lru_cache(maxsize=1024)
def _operand_bytes(
    model: ModelConfig, split: LayerSplit, positions: int, trained: Trained
) -> float:
    """`operand_bytes` of one row with so many positions."""
    return operand_bytes(
        model, split, positions, _packed_rows(model, model.backbone, positions), trained
    )


def _packed_rows(model: ModelConfig, name: str, positions: int) -> ModuleRows:
    """Shapes of one packed row, without its inputs."""
    rows: ModuleRows = jax.tree.map(
        lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype),
        empty_module_rows(model, name, 1, positions),
    )
    return rows


def _divides_evenly(model: ModelConfig, name: str, tensor: int, positions: int) -> bool:
    """Whether heads, widths and rows divide by `tensor`."""
    unit = model.reduction(name)
    sizes = [need.size for need in model.requirements(name) if need.axis in ("tensor", "sequence")]
    return all(size % tensor == 0 for size in (*sizes, positions // unit))
