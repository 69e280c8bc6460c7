"""FLOPs of every family, counted product by product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from mllm_jax.layers.config.kinds import LayerKind, MaskKind
from mllm_jax.layers.trainable import FrozenParts
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.work.ends import end_flops, end_part
from scheduling.costs.work import TRAINING_FACTOR, ModuleWork, NearPairs

#: All parts train.
NOTHING = FrozenParts()


def module_work(config: ModelConfig, name: str) -> ModuleWork:
    """Forward work of a module with what makes its outputs, by the name of the backbone or bucket.

    The backbone has the head of the vocabulary on every token, as if all had a loss; of any other
    module connectors are included.
    """
    parts = work_parts(config, name)
    work = _layers_work(parts.layer, config, name)
    return replace(work, linear=parts.start.linear + work.linear + parts.end.linear)


def module_works(config: ModelConfig) -> dict[str, ModuleWork]:
    """Forward work of the backbone and of every bucket, by name."""
    return {name: module_work(config, name) for name in (config.backbone, *config.buckets)}


def model_flops(
    config: ModelConfig,
    lengths: Mapping[str, ArrayLike],
    frozen: FrozenParts = NOTHING,
    targets: float = 0,
) -> float:
    """FLOPs of one training step, forward and backward, without recomputation.

    Args:
        config: configuration of the model.
        lengths: segment lengths of the backbone and of every bucket in input positions, e.g.
            `[90, 38]` of the backbone and `[64]` of `vision`.
        frozen: parts that do not train; gradients go through a frozen backbone to its inputs, and
            into a frozen encoder not at all.
        targets: tokens that have a loss: the head is computed for these.
    """
    flops = sum(_layers_flops(config, name, n, frozen) for name, n in lengths.items())
    ends = {**lengths, config.backbone: targets}
    return flops + sum(_end_flops(config, name, n, frozen) for name, n in ends.items())


def _layers_flops(config: ModelConfig, name: str, lengths: ArrayLike, frozen: FrozenParts) -> float:
    """FLOPs of a step in the layers of a module and before them."""
    parts, module = work_parts(config, name), config.buckets.get(name, name)
    layers = _layers_work(parts.layer, config, name)
    start = parts.start.forward_flops(lengths) * (TRAINING_FACTOR if frozen.trains(module) else 1)
    if not _has_backward(config, name, frozen):
        return start + layers.forward_flops(lengths)
    return start + _training_flops(
        layers, lengths, _trained_share(frozen, module, parts.layer_adapters)
    )


def _end_flops(config: ModelConfig, name: str, lengths: ArrayLike, frozen: FrozenParts) -> float:
    """FLOPs of a step after the layers of a module."""
    parts, module = work_parts(config, name), config.buckets.get(name, name)
    trained = _trained_share(frozen, end_part(config.graph, module), parts.end_adapters)
    has_backward = _has_backward(config, name, frozen) or trained > 0
    return (1 + has_backward + trained) * parts.end.forward_flops(lengths)


def _has_backward(config: ModelConfig, name: str, frozen: FrozenParts) -> bool:
    """Whether gradients go through the layers of a module."""
    module = config.buckets.get(name, name)
    return config.module(name).reads_text or not frozen.is_trunk_frozen(module)


def _training_flops(work: ModuleWork, lengths: ArrayLike, weights: float) -> float:
    """FLOPs of layers with a backward; attention, which has no parameters, has a whole one.

    Args:
        weights: fraction of the products whose parameters have gradients.
    """
    linear = work.linear * float(np.asarray(lengths).sum())
    return TRAINING_FACTOR * (work.forward_flops(lengths) - linear) + (2 + weights) * linear


def _trained_share(frozen: FrozenParts, part: str, adapters: float) -> float:
    """Fraction of the products of a part whose parameters have gradients."""
    if part in frozen.adapted:
        return adapters
    return float(part not in frozen.names)


@dataclass(frozen=True)
class WorkParts:
    """Forward work of a module per input position, divided where a pipeline divides it.

    Attributes:
        start: FLOPs before the layers (an encoder's patches or convolutions).
        layer: FLOPs of one layer, the mean of a period.
        end: after the layers (the head of the vocabulary, or connectors).
        layer_adapters, end_adapters: fraction of the products with parameters that adapters make.
    """

    start: ModuleWork
    layer: ModuleWork
    end: ModuleWork
    layer_adapters: float = 0.0
    end_adapters: float = 0.0


def work_parts(config: ModelConfig, name: str) -> WorkParts:
    """Parts of `module_work(config, name)`."""
    settings, module = config.module(name), config.buckets.get(name, name)
    parts, adapters = _parts_without_adapters(config, name), config.adapters
    if adapters is None:
        return parts
    layer = 2 * sum(adapters.layer_elements(module).values()) / settings.stride
    end = 2 * sum(adapters.end_elements(module).values()) / config.reduction(name)
    return replace(
        parts,
        layer=replace(parts.layer, linear=parts.layer.linear + layer),
        end=replace(parts.end, linear=parts.end.linear + end),
        layer_adapters=layer / (parts.layer.linear + layer),
        end_adapters=end / (parts.end.linear + end) if end else 0.0,
    )


def _parts_without_adapters(config: ModelConfig, name: str) -> WorkParts:
    """The same without adapters."""
    settings, stride = config.module(name), config.module(name).stride
    layer = _layer_work(
        settings.layer_flops / stride,
        4 * settings.heads * settings.head_dim / stride**2,
        settings.layer_kinds,
        settings.bound_sizes,
        stride,
    )
    end = end_flops(config.graph, config.buckets.get(name, name))
    return WorkParts(ModuleWork(settings.stem_flops, 0), layer, ModuleWork(end, 0))


def _layers_work(layer: ModuleWork, config: ModelConfig, name: str) -> ModuleWork:
    """Work of all layers; tiles of an image attend to themselves, so that it grows with them."""
    work, tile = layer.times_layers(config.module(name).layers), config.tile_inputs(name)
    if not tile:
        return work
    return ModuleWork(work.linear + work.attention(float(tile)) / tile, 0)


def near_sizes(
    kinds: Sequence[LayerKind], bounds: Mapping[str, int]
) -> dict[tuple[int | None, int | None], MaskKind]:
    """Windows and chunks of the masks of a period, each pair once, with the first such mask.

    Args:
        bounds: most positions of the same id, of ids that are not segments.
    """
    masks: dict[tuple[int | None, int | None], MaskKind] = {}
    for mask in (kind.mask for kind in kinds):
        masks.setdefault((mask.window, mask.chunk or bounds.get(mask.bounds)), mask)
    return masks


def _layer_work(
    linear: float,
    pair: float,
    kinds: Sequence[LayerKind],
    bounds: Mapping[str, int] = MappingProxyType({}),
    stride: int = 1,
) -> ModuleWork:
    """Work of a layer, the mean over a period.

    Args:
        linear: FLOPs per input position.
        pair: FLOPs of attention per pair of input positions.
        kinds, bounds: as of `near_sizes`.
        stride: input positions per position between the layers, of which windows are sizes.
    """
    near = []
    for sizes in near_sizes(kinds, bounds):
        if sizes == (None, None):
            continue
        count = sum(near_sizes([kind], bounds).keys() == {sizes} for kind in kinds)
        window, chunk = (None if size is None else size * stride for size in sizes)
        near.append((count / len(kinds), window, chunk))
    far = 1 - sum(share for share, _, _ in near)
    return ModuleWork(linear, pair * far, tuple(NearPairs(pair * s, w, c) for s, w, c in near))
