"""Profiles of a model's modules for the cost model, from their configuration alone."""

from __future__ import annotations

from collections.abc import Mapping

from mllm_jax.layers.config import elements
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.encoder import EncoderConfig
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.work.flops import expert_flops, work_parts
from scheduling.costs.work import ExpertWork, ModulePart, ModuleProfile


def module_profiles(config: ModelConfig) -> Mapping[str, ModuleProfile]:
    """Profiles of the backbone and of every bucket's encoder with its connector, by name."""
    return {name: _build_profile(config, name) for name in (config.backbone, *config.buckets)}


def module_parameters(config: ModelConfig) -> dict[str, int]:
    """Elements of the decoder and of every encoder with its connector, whatever their buckets."""
    profiles = module_profiles(config).items()
    return {config.buckets.get(name, name): profile.parameters for name, profile in profiles}


def _build_profile(config: ModelConfig, name: str) -> ModuleProfile:
    settings: DecoderConfig | EncoderConfig
    graph = config.graph
    if name == config.backbone:
        settings, stride, reduction, features = config.backbone_config, 1, 1, 0
        outputs, end_elements = settings.vocab_size, settings.rest_elements
        side_inputs = config.layer_inputs
        end_elements = end_elements + graph.head_elements(name)
        if graph.writes:
            end_elements = end_elements + settings.head_elements
    else:
        settings = config.encoder(name)
        stride, reduction, features = settings.stride, settings.reduction, settings.features
        side_inputs, module = len(settings.deepstack), config.buckets[name]
        is_merged = module in graph.merged
        outputs = config.backbone_config.d_model if is_merged else settings.d_model
        connectors = settings.connectors_elements(outputs) if is_merged else elements.Elements()
        end_elements = settings.rest_elements + connectors + graph.head_elements(module)
    parts, adapters, part = (
        work_parts(config, name),
        config.adapters,
        config.buckets.get(name, name),
    )
    return ModuleProfile(
        layers=settings.layers,
        width=settings.d_model,
        stride=stride,
        reduction=reduction,
        features=features,
        outputs=outputs,
        blocks=settings.blocks,
        heads=settings.heads,
        kv_heads=settings.kv_heads if isinstance(settings, DecoderConfig) else settings.heads,
        head_dim=settings.head_dim,
        start=ModulePart(parts.start, 4 * settings.d_model),
        layer=ModulePart(
            parts.layer,
            _moved_elements(settings) + _adapter_elements(config, part),
            parts.layer_adapters,
        ),
        end=ModulePart(parts.end, 8 * settings.d_model, parts.end_adapters),
        layer_parameters=dict(settings.layer_elements),
        rest_parameters=dict(end_elements),
        period=settings.period,
        side_activations=side_inputs,
        experts=_expert_work(settings) if isinstance(settings, DecoderConfig) else None,
        layer_adapters=adapters.layer_elements(part) if adapters else {},
        rest_adapters=adapters.end_elements(part) if adapters else {},
    )


def _adapter_elements(config: ModelConfig, part: str) -> float:
    """Elements that the adapters of a layer read and write per position.

    The input is read once more, and what is added is written, and read and written with the sum.
    """
    adapters = config.adapters
    if adapters is None:
        return 0.0
    layers = [layer for layer in adapters.layers if layer.part == part and not layer.head]
    return sum(
        layer.share * (layer.width + 3 * layer.height + 2 * adapters.rank) for layer in layers
    )


def _expert_work(decoder: DecoderConfig) -> ExpertWork | None:
    """The experts of a decoder's layers."""
    experts = decoder.experts
    if experts is None:
        return None
    share = decoder.expert_layers / decoder.layers
    flops = expert_flops(experts.top_k * experts.d_ff, decoder.d_model)
    return ExpertWork(share, experts.count, experts.top_k, experts.d_ff, flops, experts.buffer)


def _moved_elements(settings: DecoderConfig | EncoderConfig) -> float:
    """Elements that a layer's norms, residual sums, rotations and activations read and write.

    A norm and a residual sum take five times the width together, and every block has them; what is
    done to queries, keys, values and the attention's output six times the heads' width; what is
    done between the products of the MLP four times its width. Copies of a token for its experts are
    written and read four times: in their order, as results, and on the way back.
    """
    values = 5 * settings.blocks * settings.d_model + 6 * settings.heads * settings.head_dim
    if not isinstance(settings, DecoderConfig) or settings.experts is None:
        return values + 4 * settings.d_ff
    experts, share = settings.experts, settings.expert_layers / settings.layers
    sparse = 4 * experts.active_d_ff + 4 * experts.top_k * settings.d_model
    return values + share * sparse + (1 - share) * 4 * settings.d_ff
