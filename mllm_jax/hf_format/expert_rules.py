"""Released layers with experts: Mixtral, Qwen2-MoE and Qwen3-MoE.

Each expert is released as separate linear layers. Other formats, such as all experts of a layer in
one tensor, or quantised ones, are refused by the names of their tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from mllm_jax.hf_format.files import PretrainedError, list_names
from mllm_jax.hf_format.tensor_rules import TensorRule
from mllm_jax.hf_format.transforms import TensorTransform, dense_kernel
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.experts import MOST, ExpertsConfig

#: Names of a layer's projections, here and as released by default.
_PROJECTIONS = MappingProxyType(
    {"gate_proj": "gate_proj", "up_proj": "up_proj", "down_proj": "down_proj"}
)
#: Keys of the experts of Qwen's families.
QWEN_KEYS = MappingProxyType(
    {
        "count": "num_experts",
        "top_k": "num_experts_per_tok",
        "d_ff": "moe_intermediate_size",
        "normalise": "norm_topk_prob",
    }
)
#: Other names of Qwen's keys: transformers 5 calls the experts of a Qwen3-MoE `num_local_experts`,
#: and reads either name.
QWEN_ALIASES = MappingProxyType({"num_local_experts": "num_experts"})


@dataclass(frozen=True)
class ExpertFormat:
    """How a family releases its experts.

    Attributes:
        prefix: prefix of the tensors in a layer.
        keys: released keys of the keys of `ExpertsConfig`.
        constants: values that are not in the configuration, as the family has no others.
        lists_layers: whether the configuration says which layers have experts.
        projections: released names of the projections of an expert.
    """

    prefix: str
    keys: Mapping[str, str]
    constants: Mapping[str, Any] = field(default_factory=dict)
    lists_layers: bool = True
    projections: Mapping[str, str] = field(default_factory=lambda: _PROJECTIONS)


#: Training settings and layers of experts, which every family has a place for.
_FREE = {"balance_weight", "z_weight", "buffer", "every", "first_dense"}


def read_experts(values: Mapping[str, Any], expert_format: ExpertFormat) -> ExpertsConfig:
    """The experts of a released configuration.

    The loss has a load-balancing loss where that of the public implementation has one.

    Raises:
        PretrainedError: a key is missing or has a value that is not supported, or the layers with
            experts are none that repeat.
    """
    missing = [key for key in expert_format.keys.values() if values.get(key) is None]
    if missing:
        raise PretrainedError(
            f"the configuration of {values['model_type']} lacks {list_names(missing)}"
        )
    weight = values.get("router_aux_loss_coef", 0.001) if values.get("output_router_logits") else 0
    _check_values(values, expert_format)
    _check_value(_is_number(weight), "router_aux_loss_coef", weight, "0 or more")
    experts = ExpertsConfig(
        **{key: values[released] for key, released in expert_format.keys.items()},
        **expert_format.constants,
        balance_weight=weight,
        **(_read_places(values) if expert_format.lists_layers else {}),
    )
    _check_places(values, experts)
    return experts


def _check_values(values: Mapping[str, Any], expert_format: ExpertFormat) -> None:
    """Raise PretrainedError, in the keys of the release, for what `ExpertsConfig` would refuse."""
    numbers = [released for key, released in expert_format.keys.items() if key != "normalise"]
    for key in [*numbers, "decoder_sparse_step"] if expert_format.lists_layers else numbers:
        _check_value(_is_count(values.get(key, 1)), key, values.get(key, 1), "1 or more")
    keys = expert_format.keys
    count, top_k, normalise = keys["count"], keys["top_k"], keys.get("normalise")
    experts, chosen = values[count], values[top_k]
    _check_value(experts <= MOST, count, experts, f"1 to {MOST}")
    _check_value(chosen <= experts, top_k, chosen, f"1 to {experts}, as {count} is {experts}")
    if normalise:
        _check_value(
            isinstance(values[normalise], bool), normalise, values[normalise], "true, false"
        )
    normalised = values[normalise] if normalise else expert_format.constants["normalise"]
    if chosen == 1 < experts and normalised:
        other = f", or {normalise} false" if normalise else ""
        raise PretrainedError(
            f"{top_k}: 1 is not supported where weights are divided by their sum, as no gradient "
            f"of the loss reaches the router; valid: 2 to {experts}{other}"
        )


def _check_value(valid: bool, key: str, value: Any, choice: str) -> None:
    if not valid:
        raise PretrainedError(f"{key}: {value!r} is not supported; valid: {choice}")


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf


def _read_places(values: Mapping[str, Any]) -> dict[str, Any]:
    dense_layers = values.get("mlp_only_layers") or []
    numbers = isinstance(dense_layers, list) and all(
        type(layer) is int and layer >= 0 for layer in dense_layers
    )
    _check_value(numbers, "mlp_only_layers", dense_layers, "numbers of layers, from 0")
    first = max(dense_layers) + 1 if dense_layers else 0
    return {"every": values.get("decoder_sparse_step", 1), "first_dense": first}


def _check_places(values: Mapping[str, Any], experts: ExpertsConfig) -> None:
    """Check that `experts` has the layers of the release, in complete periods.

    Raises:
        PretrainedError: other layers have experts, or the last period is incomplete.
    """
    without, layers = values.get("mlp_only_layers") or [], values["num_hidden_layers"]
    if not experts.first_dense and layers % experts.every:
        raise PretrainedError(
            f"num_hidden_layers: {layers} is not supported with decoder_sparse_step: "
            f"{experts.every}, as the last layers are no whole period; valid: a multiple of it"
        )
    for layer in range(layers):
        released = layer not in without and (layer + 1) % experts.every == 0
        if released != experts.is_sparse_layer(layer):
            raise PretrainedError(
                f"mlp_only_layers: {without} is not supported; valid: the first layers, or none"
            )
    if without and not any(experts.is_sparse_layer(layer) for layer in range(layers)):
        last = layers // experts.every * experts.every
        valid = f"mlp_only_layers of fewer than {last}" if last else f"a step up to {layers}"
        raise PretrainedError(
            f"mlp_only_layers: {without} and decoder_sparse_step: {experts.every} leave none of "
            f"{layers} layers with experts; valid: {valid}"
        )


def write_experts(
    config: DecoderConfig, experts: ExpertsConfig, expert_format: ExpertFormat
) -> dict[str, Any]:
    """The inverse of `read_experts`: the keys of a configuration that describe experts.

    Raises:
        PretrainedError: the family's release format has no place for what these experts are.
    """
    defaults = ExpertsConfig(count=experts.count, top_k=experts.top_k, d_ff=experts.d_ff)
    free = {
        *expert_format.keys,
        *(_FREE if expert_format.lists_layers else _FREE - {"every", "first_dense"}),
    }
    for key in type(experts).model_fields.keys() - free - expert_format.keys.keys():
        valid = expert_format.constants.get(key, getattr(defaults, key))
        if getattr(experts, key) != valid:
            raise PretrainedError(
                f"experts.{key}: {getattr(experts, key)} has no place in the "
                f"released format of {config.family}; valid: {valid}"
            )
    values = {released: getattr(experts, key) for key, released in expert_format.keys.items()}
    if expert_format.lists_layers:
        values |= {
            "decoder_sparse_step": experts.every,
            "mlp_only_layers": [*range(experts.first_dense)],
        }
    weighted = experts.balance_weight > 0
    coefficient = {"router_aux_loss_coef": experts.balance_weight} if weighted else {}
    return {**values, "output_router_logits": weighted, **coefficient}


def check_equal_biases(config: DecoderConfig, biases: NDArray[Any]) -> None:
    """Check that no bias changes the choice of experts: released formats have no place for one.

    Args:
        biases: `[layers with experts, experts]`, what routers add to scores for the choice.

    Raises:
        PretrainedError: the biases of a layer are not equal.
    """
    for layer, bias in zip(config.layers_with_experts, biases, strict=True):
        if (bias != bias[0]).any():
            raise PretrainedError(
                f"the biases that choose the experts of layer {layer} are from {bias.min():g} to "
                f"{bias.max():g}, moved by experts.bias_rate, and have no place in "
                f"the released format of {config.family}; valid: equal biases in every layer, as "
                "of a run that has bias_rate: 0 from its first step"
            )


def mlp_rules(
    config: DecoderConfig, prefix: str, expert_format: ExpertFormat | None
) -> Iterator[TensorRule]:
    """Rules of the MLPs and of the experts of a decoder's layers.

    Args:
        prefix: prefix of the names of a layer's tensors, with `{layer}` in it.
    """
    layers, experts = range(config.layers), config.experts
    sparse = frozenset(
        layer for layer in layers if experts is not None and experts.is_sparse_layer(layer)
    )
    if len(sparse) < config.layers:
        only = frozenset(layers) - sparse if sparse else None
        for name, kernel in _gated_projections(config.d_model, config.d_ff):
            released = f"{prefix}mlp.{name}.weight"
            yield TensorRule(f"layers.mlp.{name}.kernel", released, kernel, config.layers, only)
    if experts is not None and expert_format is not None:
        yield from _expert_rules(config, experts, prefix, sparse, expert_format)


def _expert_rules(
    config: DecoderConfig,
    experts: ExpertsConfig,
    prefix: str,
    only: frozenset[int],
    expert_format: ExpertFormat,
) -> Iterator[TensorRule]:
    width = (config.d_model,)
    body = f"{prefix}{expert_format.prefix}"

    def rule(
        parameter: str, released: str, transform: TensorTransform, count: int | None = None
    ) -> TensorRule:
        name = f"layers.experts.{parameter}.kernel"
        released = f"{body}{released}.weight"
        return TensorRule(name, released, transform, config.layers, only, count)

    yield rule("router", "gate", dense_kernel(width, (experts.count,)))
    for name, kernel in _gated_projections(config.d_model, experts.d_ff):
        released = f"experts.{{expert}}.{expert_format.projections[name]}"
        yield rule(name, released, kernel, experts.count)
    if experts.shared_d_ff:
        for name, kernel in _gated_projections(config.d_model, experts.shared_d_ff):
            yield rule(f"shared.{name}", f"shared_expert.{name}", kernel)
        yield rule("shared_gate", "shared_expert_gate", dense_kernel(width, (1,)))


def _gated_projections(d_model: int, d_ff: int) -> Iterator[tuple[str, TensorTransform]]:
    """Yield the names of the projections of SwiGLU, with their transforms."""
    for name in ("gate_proj", "up_proj"):
        yield name, dense_kernel((d_model,), (d_ff,))
    yield "down_proj", dense_kernel((d_ff,), (d_model,))
