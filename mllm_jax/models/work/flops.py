"""FLOPs of every family, counted product by product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.encoder import EncoderConfig
from mllm_jax.layers.config.kinds import LayerKind, MaskKind
from mllm_jax.layers.trainable import FrozenParts
from mllm_jax.models.model_config import ModelConfig
from scheduling.costs.work import TRAINING_FACTOR, ModuleWork, NearPairs

#: All parts train.
NOTHING = FrozenParts()


def module_work(config: ModelConfig, module: str) -> ModuleWork:
    """Forward work of the backbone with its head, or of a bucket with its encoder's connector."""
    parts = work_parts(config, module)
    if module == config.backbone:
        return _sum_parts(parts, config.backbone_config.layers)
    return _encoder_total(parts, config.encoder(module))


def module_works(config: ModelConfig) -> dict[str, ModuleWork]:
    """Forward work of the decoder and of every bucket, by name."""
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
        frozen: parts that do not train; gradients go through a frozen decoder to its inputs, and
            into a frozen encoder not at all.
        targets: tokens that have a loss: the head is computed for these.
    """
    flops = sum(_trained_flops(config, name, n, frozen) for name, n in lengths.items())
    parts = work_parts(config, config.backbone)
    head = 2 + _trained_share(frozen, config.backbone, parts.end_adapters)
    return flops + targets * parts.end.linear * head


def _trained_flops(
    config: ModelConfig, name: str, lengths: ArrayLike, frozen: FrozenParts
) -> float:
    """FLOPs of a step in the decoder without its head, or in a bucket with its connector."""
    parts = work_parts(config, name)
    if name == config.backbone:
        weights = _trained_share(frozen, name, parts.layer_adapters)
        return config.backbone_config.layers * _training_flops(parts.layer, lengths, weights)
    encoder = config.buckets[name]
    into = not frozen.is_trunk_frozen(encoder)
    weights = _trained_share(frozen, encoder, parts.layer_adapters)
    of_end = _trained_share(frozen, f"{encoder}.connector", parts.end_adapters)
    start, end = parts.start.forward_flops(lengths), parts.end.forward_flops(lengths)
    work = module_work(config, name)
    linear = work.linear - parts.start.linear - parts.end.linear
    layers = replace(work, linear=linear)
    return (
        (_training_flops(layers, lengths, weights) if into else layers.forward_flops(lengths))
        + (TRAINING_FACTOR if frozen.trains(encoder) else 1) * start
        + (1 + (into or of_end > 0) + of_end) * end
    )


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
        end: after the layers (the decoder's head, an encoder's connector).
        layer_adapters, end_adapters: fraction of the products with parameters that adapters make.
    """

    start: ModuleWork
    layer: ModuleWork
    end: ModuleWork
    layer_adapters: float = 0.0
    end_adapters: float = 0.0


def work_parts(config: ModelConfig, module: str) -> WorkParts:
    """Parts of `module_work(config, module)`."""
    adapters = config.adapters
    if module == config.backbone:
        parts, stride, reduction = _decoder_parts(config.backbone_config), 1, 1
        if not config.graph.writes:
            parts = replace(parts, end=ModuleWork(0, 0))
    else:
        encoder, merged = config.encoder(module), config.buckets[module] in config.graph.merged
        # A head reads one output of a medium, which counts for nothing beside its layers.
        parts = _encoder_parts(encoder, config.backbone_config.d_model if merged else 0)
        stride, reduction = encoder.stride, encoder.reduction
    if adapters is None:
        return parts
    part = config.buckets.get(module, module)
    layer = 2 * sum(adapters.layer_elements(part).values()) / stride
    end = 2 * sum(adapters.end_elements(part).values()) / reduction
    return replace(
        parts,
        layer=replace(parts.layer, linear=parts.layer.linear + layer),
        end=replace(parts.end, linear=parts.end.linear + end),
        layer_adapters=layer / (parts.layer.linear + layer),
        end_adapters=end / (parts.end.linear + end) if end else 0.0,
    )


def decoder_work(config: DecoderConfig) -> ModuleWork:
    """Work per token, embeddings free, the head on every token, as if all had a loss."""
    return _sum_parts(_decoder_parts(config), config.layers)


def encoder_work(config: EncoderConfig, d_decoder: int) -> ModuleWork:
    """Work per patch or frame, connector included.

    An image in tiles attends within each of them, so that its work grows with their number.
    """
    return _encoder_total(_encoder_parts(config, d_decoder), config)


def _encoder_total(parts: WorkParts, config: EncoderConfig) -> ModuleWork:
    work = _sum_parts(parts, config.layers)
    if not config.tile_inputs:
        return work
    tile = config.tile_inputs
    near = sum(pairs.flops * pairs.count_pairs(float(tile)) for pairs in work.near) / tile
    return ModuleWork(work.linear + work.quadratic * tile + near, 0)


def _sum_parts(parts: WorkParts, layers: int) -> ModuleWork:
    linear = parts.start.linear + layers * parts.layer.linear + parts.end.linear
    return replace(parts.layer.times_layers(layers), linear=linear)


def _decoder_parts(config: DecoderConfig) -> WorkParts:
    width = config.heads * config.head_dim
    projections = 2 * config.d_model * (2 * width + 2 * config.kv_heads * config.head_dim)
    layer = (
        projections
        + sum(_mlp_flops(config, kind.mlp == "experts") for kind in config.layer_kinds)
        / config.period
    )
    head = 2 * config.d_model * config.vocab_size
    layer_work = _layer_work(layer, 4 * width, config.layer_kinds)
    return WorkParts(ModuleWork(0, 0), layer_work, ModuleWork(head, 0))


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


def _mlp_flops(config: DecoderConfig, experts: bool) -> float:
    """FLOPs per token of an MLP, or of the router and the experts of a token."""
    expert_config, width = config.experts, config.d_model
    if expert_config is None or not experts:
        products = 3 if config.parts.gated else 2
        return 2 * products * width * config.d_ff
    return expert_flops(expert_config.active_d_ff, width) + 2 * width * (
        expert_config.count + expert_config.shared_gate
    )


def expert_flops(hidden: int, d_model: int) -> float:
    """FLOPs of a token in experts of so much hidden width together, forward."""
    return 6 * d_model * hidden


def _encoder_parts(config: EncoderConfig, d_decoder: int) -> WorkParts:
    width, d_model, stride = config.heads * config.head_dim, config.d_model, config.stride
    layer = (8 * d_model * width + 2 * config.products * d_model * config.d_ff) / stride
    return WorkParts(
        ModuleWork(config.stem_flops, 0),
        _layer_work(layer, 4 * width / stride**2, config.layer_kinds, config.bound_sizes, stride),
        ModuleWork((1 + len(config.deepstack)) * _connector_flops(config, d_decoder), 0),
    )


def _connector_flops(config: EncoderConfig, d_decoder: int) -> float:
    """Products of the connector, per input position; without a width there is none."""
    if not d_decoder:
        return 0.0
    if config.connector.kind != "mlp":
        return 2 * config.connected * d_decoder / config.reduction
    hidden = config.connector.hidden or d_decoder
    return 2 * hidden * (config.connected + d_decoder) / config.reduction
