"""Profiles of a model's modules for the cost model, from their configuration alone."""

from __future__ import annotations

from collections.abc import Mapping

from mllm_jax.layers.config.experts import expert_flops
from mllm_jax.layers.config.module import ModuleConfig
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.work.ends import end_elements
from mllm_jax.models.work.flops import work_parts
from scheduling.costs.work import ExpertWork, ModulePart, ModuleProfile


def module_profiles(config: ModelConfig) -> Mapping[str, ModuleProfile]:
    """Profiles of the backbone and of every bucket's encoder with its connector, by name."""
    return {name: _build_profile(config, name) for name in (config.backbone, *config.buckets)}


def module_parameters(config: ModelConfig) -> dict[str, int]:
    """Elements of every module with its connectors and heads, whatever its buckets."""
    profiles = module_profiles(config).items()
    return {config.buckets.get(name, name): profile.parameters for name, profile in profiles}


def _build_profile(config: ModelConfig, name: str) -> ModuleProfile:
    module, settings, graph = config.buckets.get(name, name), config.module(name), config.graph
    parts, adapters = work_parts(config, name), config.adapters
    heads, kv_heads, head_dim = settings.attention_heads
    return ModuleProfile(
        layers=settings.layers,
        width=settings.d_model,
        stride=settings.stride,
        reduction=graph.reduction(module),
        features=settings.features,
        vocab=settings.vocab_size,
        blocks=settings.blocks,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        start=ModulePart(parts.start, 4 * settings.d_model),
        layer=ModulePart(
            parts.layer,
            _moved_elements(settings) + _adapter_elements(config, module),
            parts.layer_adapters,
        ),
        end=ModulePart(parts.end, 8 * settings.d_model, parts.end_adapters),
        layer_parameters=dict(settings.layer_elements),
        rest_parameters=dict(settings.rest_elements + end_elements(graph, module)),
        period=settings.period,
        side_inputs=graph.layer_inputs(module),
        intermediate_outputs=len(graph.intermediate_layers(module)),
        experts=_expert_work(settings),
        layer_adapters=adapters.layer_elements(module) if adapters else {},
        rest_adapters=adapters.end_elements(module) if adapters else {},
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


def _expert_work(settings: ModuleConfig) -> ExpertWork | None:
    """The experts of a module's layers."""
    experts = settings.layer_experts
    if experts is None:
        return None
    share = settings.expert_layers / settings.layers
    flops = expert_flops(experts.top_k * experts.d_ff, settings.d_model)
    return ExpertWork(share, experts.count, experts.top_k, experts.d_ff, flops, experts.buffer)


def _moved_elements(settings: ModuleConfig) -> float:
    """Elements that a layer's norms, residual sums, rotations and activations read and write.

    A norm and a residual sum take five times the width together, and every block has them; what is
    done to queries, keys, values and the attention's output six times the heads' width; what is
    done between the products of the MLP four times its width. Copies of a token for its experts are
    written and read four times: in their order, as results, and on the way back.
    """
    values = 5 * settings.blocks * settings.d_model + 6 * settings.heads * settings.head_dim
    experts = settings.layer_experts
    if experts is None:
        return values + 4 * settings.d_ff
    share = settings.expert_layers / settings.layers
    sparse = 4 * experts.active_d_ff + 4 * experts.top_k * settings.d_model
    return values + share * sparse + (1 - share) * 4 * settings.d_ff
