"""Names and forms of released tensors, for every parameter of a tower.

Parameters are called by their dotted path in the tree of their tower; those of stacked layers have
a released tensor for every layer, numbered where the name says `{layer}`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mllm_jax.models.config import DecoderConfig
from mllm_jax.models.pretrained.forms import Form, dense, flat, same


@dataclass(frozen=True)
class Rule:
    """Where a parameter comes from.

    Attributes:
        parameter: dotted path, e.g. `layers.self_attn.q_proj.kernel`.
        released: name of the tensor, or of the tensor of each layer.
        form: of one layer.
        layers: how many are stacked; None for a parameter without a dimension of layers.
    """

    parameter: str
    released: str
    form: Form
    layers: int | None = None

    @property
    def names(self) -> list[str]:
        """All released tensors of the parameter, in the order of layers."""
        if self.layers is None:
            return [self.released]
        return [self.released.format(layer=layer) for layer in range(self.layers)]


def decoder_rules(
    config: DecoderConfig, body: str = "model.", head: str = "lm_head."
) -> list[Rule]:
    """Of a llama, qwen2 or qwen3.

    Args:
        body, head: what the names of the transformer's tensors, and of the head's, begin with.
    """
    width = (config.d_model,)
    rules = [
        Rule(
            "embed_tokens.embedding",
            f"{body}embed_tokens.weight",
            same((config.vocab_size, config.d_model)),
        ),
        Rule("norm.scale", f"{body}norm.weight", same(width)),
        *_of_layers(config, f"{body}layers.{{layer}}."),
    ]
    if not config.tie_embeddings:
        kernel = dense(width, (config.vocab_size,))
        rules.append(Rule("lm_head.kernel", f"{head}weight", kernel))
    return rules


def _of_layers(config: DecoderConfig, prefix: str) -> Iterator[Rule]:
    width, hidden = (config.d_model,), (config.d_ff,)
    query, keys = (config.heads, config.head_dim), (config.kv_heads, config.head_dim)

    def rule(parameter: str, released: str, form: Form) -> Rule:
        return Rule(f"layers.{parameter}", f"{prefix}{released}", form, config.layers)

    for norm in ("input_layernorm", "post_attention_layernorm"):
        yield rule(f"{norm}.scale", f"{norm}.weight", same(width))
    for name, outputs in (("q", query), ("k", keys), ("v", keys)):
        projection = f"self_attn.{name}_proj"
        yield rule(f"{projection}.kernel", f"{projection}.weight", dense(width, outputs))
        if config.family == "qwen2":
            yield rule(f"{projection}.bias", f"{projection}.bias", flat(outputs))
    yield rule("self_attn.o_proj.kernel", "self_attn.o_proj.weight", dense(query, width))
    if config.family == "qwen3":
        for name in ("q_norm", "k_norm"):
            norm = f"self_attn.{name}"
            yield rule(f"{norm}.scale", f"{norm}.weight", same((config.head_dim,)))
    for name in ("gate", "up"):
        yield rule(f"mlp.{name}_proj.kernel", f"mlp.{name}_proj.weight", dense(width, hidden))
    yield rule("mlp.down_proj.kernel", "mlp.down_proj.weight", dense(hidden, width))
