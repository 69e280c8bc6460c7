"""Released forms of layers with experts: Mixtral, Qwen2-MoE and Qwen3-MoE.

Each expert is released as linear layers of its own. Other forms, such as all experts of a layer in
one tensor, or quantised ones, are refused by the names of their tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from mllm_jax.hf_format.files import PretrainedError, listed
from mllm_jax.hf_format.forms import Form, dense
from mllm_jax.hf_format.rules import Rule
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.experts import MOST, ExpertsConfig

#: Names of a layer's projections, here and as released by default.
_PROJECTIONS = {"gate_proj": "gate_proj", "up_proj": "up_proj", "down_proj": "down_proj"}


@dataclass(frozen=True)
class _Form:
    """How a family releases its experts.

    Attributes:
        prefix: prefix of the tensors in a layer.
        keys: released keys of the keys of `ExpertsConfig`.
        given: values that are not in the configuration, as the family has no others.
        sparse: whether the configuration says which layers have experts.
        projections: released names of the projections of an expert.
    """

    prefix: str
    keys: Mapping[str, str]
    given: Mapping[str, Any]
    sparse: bool
    projections: Mapping[str, str]


_QWEN = {
    "count": "num_experts",
    "top_k": "num_experts_per_tok",
    "d_ff": "moe_intermediate_size",
    "normalise": "norm_topk_prob",
}
_FORMS = {
    "mixtral": _Form(
        "block_sparse_moe.",
        {"count": "num_local_experts", "top_k": "num_experts_per_tok", "d_ff": "intermediate_size"},
        {"normalise": True},
        sparse=False,
        projections={"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"},
    ),
    "qwen2_moe": _Form(
        "mlp.",
        {**_QWEN, "shared_d_ff": "shared_expert_intermediate_size"},
        {"shared_gate": True},
        sparse=True,
        projections=_PROJECTIONS,
    ),
    "qwen3_moe": _Form("mlp.", _QWEN, {}, sparse=True, projections=_PROJECTIONS),
}
#: Other names of released keys, by family: transformers 5 calls the experts of a Qwen3-MoE
#: `num_local_experts`, and reads either name.
ALIASES: Mapping[str, Mapping[str, str]] = {
    "mixtral": {"num_experts": "num_local_experts"},
    "qwen2_moe": {"num_local_experts": "num_experts"},
    "qwen3_moe": {"num_local_experts": "num_experts"},
}
#: Released keys for which there is one value here, by family, with this value.
FIXED: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "mixtral": {"sliding_window": (None,), "router_jitter_noise": (0, None)},
    "qwen2_moe": {"qkv_bias": (True, None)},
}
#: Training settings and layers of experts, which every family has a place for.
_FREE = {"balance_weight", "z_weight", "buffer", "every", "first_dense"}


def experts_config(values: Mapping[str, Any]) -> ExpertsConfig | None:
    """The experts of a released configuration; None if its family has none.

    The loss has a load-balancing loss where that of the public implementation has one.

    Raises:
        PretrainedError: a key is missing or has a value that is not supported, or the layers with
            experts are none that repeat.
    """
    form = _FORMS.get(str(values.get("model_type")))
    if form is None:
        return None
    missing = [key for key in form.keys.values() if values.get(key) is None]
    if missing:
        raise PretrainedError(
            f"the configuration of {values['model_type']} lacks {listed(missing)}"
        )
    weight = values.get("router_aux_loss_coef", 0.001) if values.get("output_router_logits") else 0
    _check_values(values, form)
    _check(_is_number(weight), "router_aux_loss_coef", weight, "0 or more")
    own = ExpertsConfig(
        **{ours: values[theirs] for ours, theirs in form.keys.items()},
        **form.given,
        balance_weight=weight,
        **(_places(values) if form.sparse else {}),
    )
    _check_places(values, own)
    return own


def _check_values(values: Mapping[str, Any], form: _Form) -> None:
    """Raise PretrainedError, in the keys of the release, for what `ExpertsConfig` would refuse."""
    numbers = [theirs for ours, theirs in form.keys.items() if ours != "normalise"]
    for key in [*numbers, "decoder_sparse_step"] if form.sparse else numbers:
        _check(_is_count(values.get(key, 1)), key, values.get(key, 1), "1 or more")
    count, top_k, normalise = form.keys["count"], form.keys["top_k"], form.keys.get("normalise")
    experts, chosen = values[count], values[top_k]
    _check(experts <= MOST, count, experts, f"1 to {MOST}")
    _check(chosen <= experts, top_k, chosen, f"1 to {experts}, as {count} is {experts}")
    if normalise:
        _check(isinstance(values[normalise], bool), normalise, values[normalise], "true, false")
    if chosen == 1 < experts and (values[normalise] if normalise else form.given["normalise"]):
        other = f", or {normalise} false" if normalise else ""
        raise PretrainedError(
            f"{top_k}: 1 is not supported where weights are divided by their sum, as no gradient "
            f"of the loss reaches the router; valid: 2 to {experts}{other}"
        )


def _check(valid: bool, key: str, value: Any, choice: str) -> None:
    if not valid:
        raise PretrainedError(f"{key}: {value!r} is not supported; valid: {choice}")


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf


def _places(values: Mapping[str, Any]) -> dict[str, Any]:
    dense_layers = values.get("mlp_only_layers") or []
    numbers = isinstance(dense_layers, list) and all(
        type(layer) is int and layer >= 0 for layer in dense_layers
    )
    _check(numbers, "mlp_only_layers", dense_layers, "numbers of layers, from 0")
    first = max(dense_layers) + 1 if dense_layers else 0
    return {"every": values.get("decoder_sparse_step", 1), "first_dense": first}


def _check_places(values: Mapping[str, Any], own: ExpertsConfig) -> None:
    """Raise PretrainedError if other layers have experts than ours say, or no period has all."""
    without, layers = values.get("mlp_only_layers") or [], values["num_hidden_layers"]
    if not own.first_dense and layers % own.every:
        raise PretrainedError(
            f"num_hidden_layers: {layers} is not supported with decoder_sparse_step: {own.every}, "
            "as the last layers are no whole period; valid: a multiple of it"
        )
    for layer in range(layers):
        theirs = layer not in without and (layer + 1) % own.every == 0
        if theirs != own.here(layer):
            raise PretrainedError(
                f"mlp_only_layers: {without} is not supported; valid: the first layers, or none"
            )
    if without and not any(own.here(layer) for layer in range(layers)):
        last = layers // own.every * own.every
        valid = f"mlp_only_layers of fewer than {last}" if last else f"a step up to {layers}"
        raise PretrainedError(
            f"mlp_only_layers: {without} and decoder_sparse_step: {own.every} leave none of "
            f"{layers} layers with experts; valid: {valid}"
        )


def released_experts(config: DecoderConfig) -> dict[str, Any]:
    """The inverse of `experts_config`: the keys of a configuration that describe experts.

    Raises:
        PretrainedError: the family's released form has no place for what these experts are.
    """
    own = config.experts
    if own is None:
        return {}
    form = _FORMS[config.family]
    usual = ExpertsConfig(count=own.count, top_k=own.top_k, d_ff=own.d_ff)
    free = {*form.keys, *(_FREE if form.sparse else _FREE - {"every", "first_dense"})}
    for key in type(own).model_fields.keys() - free:
        valid = form.given.get(key, getattr(usual, key))
        if getattr(own, key) != valid:
            raise PretrainedError(
                f"model.decoder.experts.{key}: {getattr(own, key)} has no place in the released "
                f"format of {config.family}; valid: {valid}"
            )
    values = {theirs: getattr(own, ours) for ours, theirs in form.keys.items()}
    if form.sparse:
        values |= {
            "decoder_sparse_step": own.every,
            "mlp_only_layers": [*range(own.first_dense)],
        }
    weighted = own.balance_weight > 0
    coefficient = {"router_aux_loss_coef": own.balance_weight} if weighted else {}
    return {**values, "output_router_logits": weighted, **coefficient}


def check_biases(config: DecoderConfig, biases: NDArray[Any]) -> None:
    """See that no bias changes the choice of experts: released formats have no place for one.

    Args:
        biases: `[layers with experts, experts]`, what routers add to scores for the choice.

    Raises:
        PretrainedError: the biases of a layer are not equal.
    """
    for layer, own in zip(config.layers_with_experts, biases, strict=True):
        if (own != own[0]).any():
            raise PretrainedError(
                f"the biases that choose the experts of layer {layer} are from {own.min():g} to "
                f"{own.max():g}, moved by model.decoder.experts.bias_rate, and have no place in "
                f"the released format of {config.family}; valid: equal biases in every layer, as "
                "of a run that has bias_rate: 0 from its first step"
            )


def mlp_rules(config: DecoderConfig, prefix: str) -> Iterator[Rule]:
    """Rules of the MLPs and of the experts of a decoder's layers.

    Args:
        prefix: prefix of the names of a layer's tensors, with `{layer}` in it.
    """
    layers, own = range(config.layers), config.experts
    sparse = frozenset(layer for layer in layers if own is not None and own.here(layer))
    if len(sparse) < config.layers:
        only = frozenset(layers) - sparse if sparse else None
        for ours, form in _gated(config.d_model, config.d_ff):
            released = f"{prefix}mlp.{ours}.weight"
            yield Rule(f"layers.mlp.{ours}.kernel", released, form, config.layers, only)
    if own is not None:
        yield from _expert_rules(config, own, prefix, sparse)


def _expert_rules(
    config: DecoderConfig, own: ExpertsConfig, prefix: str, only: frozenset[int]
) -> Iterator[Rule]:
    form, width = _FORMS[config.family], (config.d_model,)
    theirs = f"{prefix}{form.prefix}"

    def rule(parameter: str, released: str, form: Form, experts: int | None = None) -> Rule:
        name = f"layers.experts.{parameter}.kernel"
        return Rule(name, f"{theirs}{released}.weight", form, config.layers, only, experts)

    yield rule("router", "gate", dense(width, (own.count,)))
    for ours, kernel in _gated(config.d_model, own.d_ff):
        released = f"experts.{{expert}}.{form.projections[ours]}"
        yield rule(ours, released, kernel, own.count)
    if own.shared_d_ff:
        for ours, kernel in _gated(config.d_model, own.shared_d_ff):
            yield rule(f"shared.{ours}", f"shared_expert.{ours}", kernel)
        yield rule("shared_gate", "shared_expert_gate", dense(width, (1,)))


def _gated(d_model: int, d_ff: int) -> Iterator[tuple[str, Form]]:
    """Forms of the projections of SwiGLU, by their names."""
    for name in ("gate_proj", "up_proj"):
        yield name, dense((d_model,), (d_ff,))
    yield "down_proj", dense((d_ff,), (d_model,))
