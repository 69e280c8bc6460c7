"""The stored form of the parameters: layers in groups, the vocabulary padded, shards on the grid.

::

    canonical   decoder.layers.q  [layers, ..]             as the model makes and releases them
    stored      decoder.layers.q  [chunks, layers / chunks, ..], sharded as `layout` says
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax

from mllm_jax.config.pipeline_plan import StageLayers
from mllm_jax.models import module as multimodal
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.train.state.regroup import (
    LayerRegrouping,
    fit_to_shape,
    join_layers,
    leaf_name,
    split_layers,
)
from mllm_jax.train.state.stored_names import StoredNames
from sharding.axes import stored_dimension
from sharding.grid import JointGrid
from sharding.layerstack.partition import partition
from sharding.rules import is_axes, parameter_shardings
from sharding.shared_parameters import module_views


@dataclass(frozen=True)
class ParameterLayout:
    """The stored form of a model's parameters in a train step.

    Attributes:
        model: resolved model configuration.
        grid: joint grid of the plans.
        stack: how the decoder's layers are grouped; None if they are stacked as in the model.
    """

    model: ModelConfig
    grid: JointGrid
    stack: StageLayers | None = None

    @cached_property
    def shardings(self) -> Any:
        """Tree of `ParameterSharding` by parameters, modules in the graph's order.

        Raises:
            PlanError: buckets of an encoder would split its parameters in different ways.
        """
        axes = multimodal.parameter_axes(self.model)
        backbone = self.model.backbone
        views = {backbone: self.grid.backbone, **module_views(self.grid, self.model.buckets)}
        if self.stack is not None:
            layers = axes[backbone]["layers"]
            chunked = jax.tree.map(lambda names: ("chunks", *names), layers, is_leaf=is_axes)
            axes |= {backbone: axes[backbone] | {"layers": chunked}}
        return {name: parameter_shardings(axes[name], views[name]) for name in self.model.modules}

    @cached_property
    def specs(self) -> Any:
        """Tree of `PartitionSpec`, in the structure of the parameters."""
        return jax.tree.map(lambda leaf: leaf.spec, self.shardings)

    @property
    def regrouping(self) -> LayerRegrouping:
        """The conversion of checkpoints of other plans to this form."""
        sizes = self.model.backbone_config.vocab_size, self.stack, self._padded_dimensions
        return LayerRegrouping(*sizes, names=self.names)

    @cached_property
    def names(self) -> StoredNames:
        """The names of the modules in files."""
        return StoredNames.from_model(self.model)

    def to_stored(self, params: Any) -> Any:
        """The parameters of modules in this form, with zeros where it pads them."""
        grouped = self._on_layers(split_layers, params)
        return jax.tree.map(
            lambda leaf, sharding: fit_to_shape(leaf, sharding.padded_shape(leaf.shape)),
            grouped,
            {name: self.shardings[name] for name in grouped},
        )

    def to_canonical(self, params: Any) -> Any:
        """The inverse of `stored`: layers stacked in their order, and no padding.

        Args:
            params: all parameters, or some of them (see `sharding.layerstack.partition`).
        """
        stacked, (shapes, _) = self._on_layers(join_layers, params), partition(self._shapes, params)
        return jax.tree.map(lambda leaf, target: fit_to_shape(leaf, target.shape), stacked, shapes)

    @cached_property
    def _shapes(self) -> Any:
        return multimodal.abstract_parameters(self.model)[0]

    @property
    def _padded_dimensions(self) -> dict[str, int]:
        """Dotted names of the parameters that are padded, and the dimension of each."""
        return {
            leaf_name(path): dim
            for path, leaf in jax.tree_util.tree_leaves_with_path(
                self.names.to_stored(self.shardings)
            )
            if (dim := stored_dimension(leaf.axes, "padded")) is not None
        }

    def _on_layers(self, change: Callable[..., Any], params: Any) -> Any:
        blocks = params.get(self.model.backbone, {})
        if self.stack is None or "layers" not in blocks:
            return params
        layers = jax.tree.map(lambda leaf: change(self.stack, leaf), blocks["layers"])
        return params | {self.model.backbone: blocks | {"layers": layers}}
