"""Tensors that a layer saves for its backward, and for its weight gradients where they are split.

They are measured by tracing the layer on ranks that need not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, PartitionSpec

from mllm_jax.layers.attention.dispatch import traceable_backend
from mllm_jax.layers.parameters import ParameterBlock
from mllm_jax.layers.trainable import ADAPTERS
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module import ShardedModule
from mllm_jax.models.module_rows import ModuleRows
from scheduling.costs.workload import LayerSplit
from sharding.collectives import vary
from sharding.grid import JointGrid, MeshView
from sharding.layerstack.partition import partition_by
from sharding.layerstack.run import LayerStack
from sharding.plan import ParallelPlan
from sharding.rules import parameter_shardings

Shape = jax.ShapeDtypeStruct
#: Parameters of a layer that have gradients.
Trained = Literal["all", "adapters", "nothing"]
#: From a run of layers, its input and its context to values.
Values = Callable[[LayerStack, jax.Array, Any], Any]


def saved_bytes(
    config: ModelConfig,
    split: LayerSplit,
    positions: int,
    rows: ModuleRows,
    trained: Trained = "all",
) -> float:
    """Bytes that a layer's backward reads of its forward on one tensor rank, for one row.

    Where layers are of several kinds, it is their mean.

    Values that no input of the layer changes (parameters, masks) do not count. No
    accelerator and no library of one is needed.

    Args:
        config: configuration with the `dtype` and `attention` of the platform that runs it.
        split: how the layer is split, with the name of its module.
        positions: input positions of the row.
        rows: shapes of the arrays that tell the layer how the row is packed.
        trained: parameters of which the backward computes gradients, in addition to that of the
            input.
    """

    def saved(run: LayerStack, x: jax.Array, context: Any) -> Any:
        return run.forward_loop(jnp.int32(0), x, context).run_scan()[1]

    return _measure_bytes(config, split, positions, rows, trained, saved)


def operand_bytes(
    config: ModelConfig,
    split: LayerSplit,
    positions: int,
    rows: ModuleRows,
    trained: Trained = "all",
) -> float:
    """Bytes that a decoder layer's backward keeps for weight gradients that are computed later.

    Args: as of `saved_bytes`.
    """

    def operands(run: LayerStack, x: jax.Array, context: Any) -> Any:
        return run.split_backward(run.split_features(x)[0], context).saved_operands(x, context)

    return _measure_bytes(config, split, positions, rows, trained, operands)


def _measure_bytes(
    config: ModelConfig,
    split: LayerSplit,
    positions: int,
    rows: ModuleRows,
    trained: Trained,
    values: Values,
) -> float:
    """Bytes of the `values` of a layer, the mean over a period; other arguments as above."""
    module, tensor, shares = split
    config = config.model_copy(update={"attention": traceable_backend(config.attention)})
    _, heads, _ = config.modules[module].attention_heads
    # As many ranks as there are experts: a rank keeps as much whatever part of them it has.
    shared = config.modules[module].layer_experts if shares else None
    experts = shared.count if shared else 1
    grid = JointGrid.build({module: ParallelPlan(expert=experts, tensor=tensor)}, heads)
    view = grid.backbone if grid.devices > 1 else MeshView()
    module_functions = ShardedModule(config, module, view)
    stack, specs = _layer_shapes(module_functions.blocks["layers"], view)
    sizes_found: list[int] = []

    def trace(stack: Any, rows: Any) -> jax.Array:
        axes = view.all_axes
        trainable, constant = _partition_trained(vary(stack, axes), trained)
        sizes = module_functions.spec.period, "none", axes, None, module_functions.spec
        run = LayerStack(module_functions.layer, trainable, *sizes, constant=constant)
        context = vary(module_functions.context(rows), axes)
        x = vary(
            jnp.zeros(
                layer_input_shape(config, module, 1, positions, tensor), module_functions.dtype
            ),
            axes,
        )
        leaves = jax.tree.leaves(values(run, x, context))
        sizes_found.append(sum(leaf.size * leaf.dtype.itemsize for leaf in leaves))
        return jnp.zeros(())

    if not view.all_axes:
        jax.eval_shape(trace, stack, rows)
    else:
        names, sizes = zip(*grid.axes, strict=True)
        mesh = AbstractMesh(sizes, names, axis_types=(AxisType.Auto,) * len(names))
        replicated = PartitionSpec()
        jax.eval_shape(
            jax.shard_map(trace, mesh=mesh, in_specs=(specs, replicated), out_specs=replicated),
            stack,
            rows,
        )
    return sizes_found[0] / module_functions.spec.period


def _partition_trained(stack: Any, trained: Trained) -> tuple[Any, Any]:
    """Parameters with gradients, and those without."""
    if trained == "all":
        return stack, {}
    return partition_by(stack, lambda path: trained == "adapters" and path[-1] in ADAPTERS)


def _layer_shapes(layers: ParameterBlock, view: MeshView) -> tuple[Any, Any]:
    """Shapes of a stack of one period of layers, and how it lies."""
    period = replace(layers, layers=layers.period)
    shapes = jax.eval_shape(lambda: period.init(jax.random.key(0)))
    sharding = parameter_shardings(period.stacked_axes(), view)
    return shapes, jax.tree.map(lambda leaf: leaf.spec, sharding)


def layer_input_shape(
    config: ModelConfig, module: str, rows: int, positions: int, tensor: int
) -> tuple[int, int, int]:
    """Shape of the input of the layers on one of `tensor` ranks, see `LayerStackSpec`."""
    settings = config.modules[module]
    width = settings.d_model * (1 + config.graph.side_activations(module))
    return rows, positions // settings.stride // tensor, width
