"""Names and forms of released tensors, for every parameter of a tower.

Parameters are called by their dotted path in the tree of their tower; those of stacked layers have
a released tensor for every layer, numbered where the name says `{layer}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mllm_jax.models.config.model import (
    ClipConfig,
    ConnectorConfig,
    DecoderConfig,
    SiglipConfig,
    WhisperConfig,
)
from mllm_jax.models.frozen import FIXED
from mllm_jax.models.pretrained.files import PretrainedError, Stored, listed
from mllm_jax.models.pretrained.forms import Form, Shape, convolution, dense, flat, patches, same

#: The parameter that a tied head is.
EMBEDDING = "embed_tokens.embedding"


@dataclass(frozen=True)
class Rule:
    """The source of a parameter.

    Attributes:
        parameter: dotted path, e.g. `layers.self_attn.q_proj.kernel`.
        released: name of the tensor, or of the tensor of each layer.
        form: form of one layer.
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
    """Rules of a decoder with RMSNorm, rotary positions and SwiGLU, named as Llama's.

    Args:
        body, head: prefixes of the names of the transformer's tensors, and of the head's.
    """
    width = (config.d_model,)
    rules = [
        Rule(
            EMBEDDING,
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
        if name in config.traits.biases:
            yield rule(f"{projection}.bias", f"{projection}.bias", flat(outputs))
    yield rule("self_attn.o_proj.kernel", "self_attn.o_proj.weight", dense(query, width))
    if "o" in config.traits.biases:
        yield rule("self_attn.o_proj.bias", "self_attn.o_proj.bias", same(width))
    if config.traits.qk_norm:
        for name in ("q_norm", "k_norm"):
            norm = f"self_attn.{name}"
            yield rule(f"{norm}.scale", f"{norm}.weight", same((config.head_dim,)))
    for name in ("gate", "up"):
        yield rule(f"mlp.{name}_proj.kernel", f"mlp.{name}_proj.weight", dense(width, hidden))
    yield rule("mlp.down_proj.kernel", "mlp.down_proj.weight", dense(hidden, width))


def siglip_rules(config: SiglipConfig, prefix: str = "vision_model.") -> list[Rule]:
    """Rules of SigLIP's and SigLIP 2's vision towers, without the pooling head.

    The patches of NaFlex, which alone antialiases positions, are a linear layer.

    Args:
        prefix: prefix of the names of the tower's tensors.
    """
    width, (height, breadth) = (config.d_model,), config.patch
    stem, entries = f"{prefix}embeddings.", config.grid[0] * config.grid[1]
    kernel = patches(height, breadth, config.channels, config.d_model)
    if config.antialias:
        kernel = dense((config.features,), width)
    return [
        Rule("embeddings.patch_embedding.kernel", f"{stem}patch_embedding.weight", kernel),
        Rule("embeddings.patch_embedding.bias", f"{stem}patch_embedding.bias", same(width)),
        Rule(
            "embeddings.position_embedding",
            f"{stem}position_embedding.weight",
            same((entries, config.d_model)),
        ),
        *(_norm("norm", f"{prefix}post_layernorm", width, None) if config.final_norm else ()),
        *_encoder_layers(config, f"{prefix}encoder.layers.{{layer}}."),
    ]


def connector_rules(
    own: ConnectorConfig, inputs: int, d_decoder: int, *released: str
) -> list[Rule]:
    """Rules of a connector.

    Args:
        inputs: input width of its first layer.
        d_decoder: width of the decoder.
        released: names of its linear layers, one or two of them.
    """
    layers, widths = ["linear"], [inputs, d_decoder]
    if own.kind == "mlp":
        layers, widths = ["fc1", "fc2"], [inputs, own.hidden or d_decoder, d_decoder]
    rules: list[Rule] = []
    for layer, name, wide, out in zip(layers, released, widths[:-1], widths[1:], strict=True):
        rules += _linear(f"connector.{layer}", name, (wide,), (out,), bias=own.bias)
    return rules


def clip_rules(config: ClipConfig, prefix: str = "vision_model.") -> list[Rule]:
    """Rules of CLIP's vision tower, without the norm after its layers.

    Args:
        prefix: prefix of the names of the tower's tensors.
    """
    width, (height, breadth) = (config.d_model,), config.patch
    stem, entries = f"{prefix}embeddings.", 1 + config.grid[0] * config.grid[1]
    kernel = patches(height, breadth, config.channels, config.d_model)
    return [
        Rule("embeddings.patch_embedding.kernel", f"{stem}patch_embedding.weight", kernel),
        Rule("embeddings.class_embedding", f"{stem}class_embedding", same(width)),
        Rule(
            "embeddings.position_embedding",
            f"{stem}position_embedding.weight",
            same((entries, config.d_model)),
        ),
        *_norm("embeddings.pre_layrnorm", f"{prefix}pre_layrnorm", width, None),
        *_encoder_layers(config, f"{prefix}encoder.layers.{{layer}}."),
    ]


def whisper_rules(config: WhisperConfig, prefix: str = "model.encoder.") -> list[Rule]:
    """Rules of Whisper's encoder.

    Args:
        prefix: prefix of the names of the tower's tensors.
    """
    width = (config.d_model,)
    rules = []
    for name, inputs in (("conv1", config.mels), ("conv2", config.d_model)):
        kernel = convolution(3, inputs, config.d_model)
        rules += [
            Rule(f"embeddings.{name}.kernel", f"{prefix}{name}.weight", kernel),
            Rule(f"embeddings.{name}.bias", f"{prefix}{name}.bias", same(width)),
        ]
    if config.max_positions is not None:
        table = same((config.max_positions, config.d_model))
        rules.append(Rule(f"positions.{FIXED}", f"{prefix}embed_positions.weight", table))
    return [
        *rules,
        *_norm("norm", f"{prefix}layer_norm", width, None),
        *_encoder_layers(config, f"{prefix}layers.{{layer}}."),
    ]


#: Norms of an encoder's layer by our and their released names, and the released name of its MLP.
_ENCODER_NAMES = {
    "siglip": ("layer_norm1", "layer_norm2", "mlp."),
    "clip": ("layer_norm1", "layer_norm2", "mlp."),
    "whisper": ("self_attn_layer_norm", "final_layer_norm", ""),
}


def _encoder_layers(
    config: SiglipConfig | ClipConfig | WhisperConfig, prefix: str
) -> Iterator[Rule]:
    width, hidden, layers = (config.d_model,), (config.d_ff,), config.layers
    heads = (config.heads, config.head_dim)
    first, second, mlp = _ENCODER_NAMES[config.family]
    for norm in (first, second):
        yield from _norm(f"layers.{norm}", f"{prefix}{norm}", width, layers)
    linear: list[tuple[str, str, Shape, Shape]] = [
        *((f"self_attn.{n}_proj", f"self_attn.{n}_proj", width, heads) for n in "qkv"),
        ("self_attn.o_proj", "self_attn.out_proj", heads, width),
        ("mlp.fc1", f"{mlp}fc1", width, hidden),
        ("mlp.fc2", f"{mlp}fc2", hidden, width),
    ]
    for ours, theirs, inputs, outputs in linear:
        bias = config.family != "whisper" or ours != "self_attn.k_proj"
        yield from _linear(f"layers.{ours}", f"{prefix}{theirs}", inputs, outputs, bias, layers)


def _linear(
    ours: str, theirs: str, inputs: Shape, outputs: Shape, bias: bool, layers: int | None = None
) -> Iterator[Rule]:
    """Kernel and bias."""
    yield Rule(f"{ours}.kernel", f"{theirs}.weight", dense(inputs, outputs), layers)
    if bias:
        yield Rule(f"{ours}.bias", f"{theirs}.bias", flat(outputs), layers)


def _norm(ours: str, theirs: str, width: Shape, layers: int | None) -> Iterator[Rule]:
    """Scale and bias."""
    yield Rule(f"{ours}.scale", f"{theirs}.weight", same(width), layers)
    yield Rule(f"{ours}.bias", f"{theirs}.bias", same(width), layers)


def check(tensors: Mapping[str, Stored], rules: Iterable[Rule], unused: Sequence[str] = ()) -> None:
    """See that `tensors` are those of `rules`, and in their shapes.

    Args:
        unused: tensors that may be there although no parameter comes from them.

    Raises:
        PretrainedError: lists the tensors that are missing, misshapen, or of no parameter.
    """
    rules = list(rules)
    layers = max((rule.layers or 0 for rule in rules), default=0)
    if layers > len(tensors):  # before so many names are made
        raise PretrainedError(f"there are {len(tensors)} released tensors for {layers} layers")
    shapes = {name: rule.form.released for rule in rules for name in rule.names}
    missing = sorted(shapes.keys() - tensors.keys())
    extra = sorted(tensors.keys() - shapes.keys() - {*unused})
    misshapen = [
        f"{name} {list(tensors[name].shape)}, not {list(shape)}"
        for name, shape in shapes.items()
        if name in tensors and tensors[name].shape != shape
    ]
    problems = {"missing": missing, "of no parameter": extra, "misshapen": misshapen}
    told = [f"{len(own)} {what}: {listed(own)}" for what, own in problems.items() if own]
    if told:
        raise PretrainedError("the released tensors are not those of the model: " + "; ".join(told))
