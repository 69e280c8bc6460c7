"""Profiles of a model's towers for the cost model, from their configuration alone."""

from __future__ import annotations

from collections.abc import Mapping

from mllm_jax.layers.config import elements
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.encoder import EncoderConfig
from mllm_jax.models.graph import ModelConfig
from mllm_jax.models.work.flops import expert_flops, work_parts
from scheduling.costs.work import ExpertWork, ModulePart, ModuleProfile


def tower_profiles(config: ModelConfig) -> Mapping[str, ModuleProfile]:
    """Profiles of the backbone and of every lane's encoder with its connector, by name."""
    return {name: _profile(config, name) for name in (config.backbone, *config.lanes)}


def tower_parameters(config: ModelConfig) -> dict[str, int]:
    """Elements of the decoder and of every encoder with its connector, whatever their lanes."""
    profiles = tower_profiles(config).items()
    return {config.lanes.get(name, name): profile.parameters for name, profile in profiles}


def _profile(config: ModelConfig, name: str) -> ModuleProfile:
    tower: DecoderConfig | EncoderConfig
    graph = config.graph
    if name == config.backbone:
        tower, stride, reduction, features = config.backbone_config, 1, 1, 0
        outputs, rest = tower.vocab_size, tower.rest_elements
        side_inputs = config.layer_inputs
        rest = rest + graph.head_elements(name)
    else:
        tower = config.encoder(name)
        stride, reduction, features = tower.stride, tower.reduction, tower.features
        side_inputs, module = len(tower.deepstack), config.lanes[name]
        is_merged = module in graph.merged
        outputs = config.backbone_config.d_model if is_merged else tower.d_model
        connectors = tower.connectors_elements(outputs) if is_merged else elements.Elements()
        rest = tower.rest_elements + connectors + graph.head_elements(module)
    parts, adapters, part = work_parts(config, name), config.adapters, config.lanes.get(name, name)
    return ModuleProfile(
        layers=tower.layers,
        width=tower.d_model,
        stride=stride,
        reduction=reduction,
        features=features,
        outputs=outputs,
        blocks=tower.blocks,
        heads=tower.heads,
        kv_heads=tower.kv_heads if isinstance(tower, DecoderConfig) else tower.heads,
        head_dim=tower.head_dim,
        start=ModulePart(parts.start, 4 * tower.d_model),
        layer=ModulePart(parts.layer, _moved(tower) + _adapted(config, part), parts.layer_adapters),
        end=ModulePart(parts.end, 8 * tower.d_model, parts.end_adapters),
        layer_parameters=dict(tower.layer_elements),
        rest_parameters=dict(rest),
        period=tower.period,
        side_activations=side_inputs,
        experts=_experts(tower) if isinstance(tower, DecoderConfig) else None,
        layer_adapters=adapters.layer_elements(part) if adapters else {},
        rest_adapters=adapters.end_elements(part) if adapters else {},
    )


def _adapted(config: ModelConfig, part: str) -> float:
    """Elements that the adapters of a layer read and write beside its own, per position.

    The input is read once more, and what is added is written, and read and written with the sum.
    """
    adapters = config.adapters
    if adapters is None:
        return 0.0
    layers = [layer for layer in adapters.layers if layer.part == part and not layer.head]
    return sum(
        layer.share * (layer.width + 3 * layer.height + 2 * adapters.rank) for layer in layers
    )


def _experts(decoder: DecoderConfig) -> ExpertWork | None:
    """The experts of a decoder's layers."""
    experts = decoder.experts
    if experts is None:
        return None
    share = decoder.expert_layers / decoder.layers
    flops = expert_flops(experts.top_k * experts.d_ff, decoder.d_model)
    return ExpertWork(share, experts.count, experts.top_k, experts.d_ff, flops, experts.buffer)


def _moved(tower: DecoderConfig | EncoderConfig) -> float:
    """Elements that a layer's norms, residual sums, rotations and activations read and write.

    A norm and a residual sum take five times the width together, and every block has them; what is
    done to queries, keys, values and the attention's output six times the heads' width; what is
    done between the products of the MLP four times its width. Copies of a token for its experts are
    written and read four times: in their order, as results, and on the way back.
    """
    values = 5 * tower.blocks * tower.d_model + 6 * tower.heads * tower.head_dim
    if not isinstance(tower, DecoderConfig) or tower.experts is None:
        return values + 4 * tower.d_ff
    experts, share = tower.experts, tower.expert_layers / tower.layers
    sparse = 4 * experts.active_d_ff + 4 * experts.top_k * tower.d_model
    return values + share * sparse + (1 - share) * 4 * tower.d_ff
