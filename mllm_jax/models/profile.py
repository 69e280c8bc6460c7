"""What the cost model must know of a model's towers, from their configuration alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import jax

from mllm_jax.models.config import DecoderConfig, EncoderConfig, ModelConfig
from mllm_jax.models.encoders.families import family_of
from mllm_jax.models.multimodal import abstract_parameters
from mllm_jax.models.work import work_parts
from scheduling.cost import Parameters, Part, TowerProfile


def tower_profiles(config: ModelConfig) -> Mapping[str, TowerProfile]:
    """Profiles of `"decoder"` and of every encoder with its connector, by name."""
    return _profiles(type(config), config.model_dump_json())


@lru_cache(maxsize=8)
def _profiles(kind: type[ModelConfig], model: str) -> Mapping[str, TowerProfile]:
    """Of a configuration as JSON: shapes of all parameters take a second for a large model."""
    config = kind.model_validate_json(model)
    shapes, axes = abstract_parameters(config)
    modules = {"decoder": (shapes["decoder"], axes["decoder"])}
    for name in config.encoders:
        modules[name] = shapes["encoders"][name], axes["encoders"][name]
    profiles = {name: _profile(config, name, *trees) for name, trees in modules.items()}
    return MappingProxyType(profiles)


def _profile(config: ModelConfig, name: str, shapes: Any, axes: Any) -> TowerProfile:
    tower: DecoderConfig | EncoderConfig
    if name == "decoder":
        tower, stride, reduction, features = config.decoder, 1, 1, 0
        outputs, blocks = tower.vocab_size, 2
    else:
        tower = config.encoders[name]
        stride, reduction, features = tower.stride, tower.reduction, tower.features
        outputs, blocks = config.decoder.d_model, family_of(tower).blocks
    parts = work_parts(config, name)
    rest = {key: tree for key, tree in shapes.items() if key != "layers"}
    return TowerProfile(
        layers=tower.layers,
        width=tower.d_model,
        stride=stride,
        reduction=reduction,
        features=features,
        outputs=outputs,
        blocks=blocks,
        heads=tower.heads,
        kv_heads=tower.kv_heads if isinstance(tower, DecoderConfig) else tower.heads,
        head_dim=tower.head_dim,
        start=Part(parts.start, 4 * tower.d_model),
        layer=Part(parts.layer, _moved(tower)),
        end=Part(parts.end, 8 * tower.d_model),
        layer_parameters=_elements(shapes["layers"], axes["layers"], stacked=True),
        rest_parameters=_elements(rest, {key: axes[key] for key in rest}, stacked=False),
    )


def _moved(tower: DecoderConfig | EncoderConfig) -> float:
    """Elements that a layer's norms, residual sums, rotations and activations read and write.

    A norm or a residual sum takes two or three times the width, and there are two of each; what is
    done to queries, keys, values and the attention's output six times the heads' width; what is
    done between the products of the MLP four times its width.
    """
    return 10 * tower.d_model + 6 * tower.heads * tower.head_dim + 4 * tower.d_ff


def _elements(shapes: Any, axes: Any, *, stacked: bool) -> Parameters:
    """Elements by logical axes; of one layer, where layers are stacked."""
    found: Counter[tuple[str | None, ...]] = Counter()

    def leaf(names: tuple[str | None, ...], shape: Any) -> None:
        dims = shape.shape[1:] if stacked else shape.shape
        found[names[1:] if stacked else names] += math.prod(dims)

    jax.tree.map(leaf, axes, shapes, is_leaf=lambda node: isinstance(node, tuple))
    return dict(found)
