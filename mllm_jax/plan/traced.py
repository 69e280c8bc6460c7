"""The workload of a step with the bytes that its layers keep, found by tracing them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import jax

from mllm_jax.config.lower import workload
from mllm_jax.config.modalities import packing
from mllm_jax.config.sections import ExperimentConfig
from mllm_jax.models.kept import kept_bytes, pairs_bytes
from mllm_jax.models.model_config import ModelConfig
from scheduling.costs.workload import Workload


def traced_workload(
    config: ExperimentConfig, tensors: Sequence[int], *, apart: bool = False
) -> Workload:
    """`workload(config)` with the bytes that the memory model needs.

    Args:
        config: configuration from `on_platform`.
        tensors: degrees of tensor parallelism for which the memory will be asked for.
        apart: whether schedules with weight gradients apart will be asked for, too.
    """
    whole, model = workload(config), config.model
    asked = [
        (name, tensor)
        for name, positions in whole.positions.items()
        for tensor in tensors
        if _splits(model, name, tensor, positions)
    ]
    kept = {
        (n, t): layer_bytes(model, n, t, whole.positions[n], n not in whole.frozen)
        for n, t in sorted(asked)
    }
    pairs = {
        tensor: pairs_bytes(model, tensor, positions, _packed(model, "decoder", positions))
        for name, tensor in asked
        if apart and name == "decoder"
        for positions in [whole.positions[name]]
    }
    return replace(whole, kept=kept, apart=pairs)


def layer_bytes(
    model: ModelConfig, name: str, tensor: int, positions: int, trains: bool = True
) -> float:
    """`kept_bytes` of one row with so many positions, of the decoder or of a lane."""
    tower = model.lanes.get(name, name)
    return kept_bytes(model, tower, tensor, positions, _packed(model, name, positions), trains)


def _packed(model: ModelConfig, name: str, positions: int) -> dict[str, jax.ShapeDtypeStruct]:
    """The arrays of one packed row."""
    rows = packing(model, name, 1, positions).items()
    return {key: jax.ShapeDtypeStruct(shape, dtype) for key, (shape, dtype) in rows}


def _splits(model: ModelConfig, name: str, tensor: int, positions: int) -> bool:
    """Whether heads, widths and rows divide by `tensor`."""
    unit = 1 if name == "decoder" else model.encoder(name).reduction
    sizes = [need.size for need in model.requirements(name) if need.axis in ("tensor", "sequence")]
    return all(size % tensor == 0 for size in (*sizes, positions // unit))
