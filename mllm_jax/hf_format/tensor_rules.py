"""Rules that say which released tensor a parameter comes from.

A parameter is named by its dotted path in the tree of its module. A parameter of stacked layers has
a released tensor for every layer, numbered where the name says `{layer}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mllm_jax.hf_format.files import TYPES, PretrainedError, StoredTensor, list_names
from mllm_jax.hf_format.transforms import (
    Shape,
    TensorTransform,
    dense_kernel,
    flat_vector,
    identity_transform,
)
from mllm_jax.layers.config.encoder import EncoderConfig

#: Ends of the names of tensors that quantised weights have.
_QUANTISED = "qweight|qzeros|scales|g_idx|absmax|quant_map|weight_packed|weight_scale(_inv)?|blocks"
#: Formats of weights that are not read, by a pattern of the names of their tensors.
_UNREAD: Mapping[str, str] = {
    r"\.experts\.(?!\d)": "holds all experts of a layer; valid: tensors of every expert by itself",
    rf"[._]({_QUANTISED})$": "is of quantised weights; valid: a release that is not quantised",
}


@dataclass(frozen=True)
class TensorRule:
    """The source of a parameter.

    Attributes:
        parameter: dotted path, e.g. `layers.self_attn.q_proj.kernel`.
        released: name of the tensor, or of the tensor of each layer.
        transform: transform of the tensor of one layer, or of one expert of a layer.
        layers: layers of the module; None for a parameter without a dimension of layers.
        only_layers: numbers of the layers that have the parameter; None: all.
        experts: experts that are stacked in every layer, numbered where the name says `{expert}`;
            None for a parameter without a dimension of experts.
    """

    parameter: str
    released: str
    transform: TensorTransform
    layers: int | None = None
    only_layers: frozenset[int] | None = None
    experts: int | None = None

    @property
    def names(self) -> list[str]:
        """All released tensors of the parameter, in the order of layers, then of experts."""
        if self.layers is None:
            return [self.released]
        return [
            self.released.format(layer=layer, expert=expert)
            for layer in range(self.layers)
            if self.only_layers is None or layer in self.only_layers
            for expert in range(1 if self.experts is None else self.experts)
        ]


def linear_rules(
    parameter: str,
    released: str,
    inputs: Shape,
    outputs: Shape,
    bias: bool,
    layers: int | None = None,
) -> Iterator[TensorRule]:
    """Rules of a linear layer: its kernel and, if it has one, its bias."""
    kernel = dense_kernel(inputs, outputs)
    yield TensorRule(f"{parameter}.kernel", f"{released}.weight", kernel, layers)
    if bias:
        yield TensorRule(f"{parameter}.bias", f"{released}.bias", flat_vector(outputs), layers)


def norm_rules(
    parameter: str, released: str, width: Shape, layers: int | None = None
) -> Iterator[TensorRule]:
    """Rules of a LayerNorm: its scale and its bias."""
    yield TensorRule(f"{parameter}.scale", f"{released}.weight", identity_transform(width), layers)
    yield TensorRule(f"{parameter}.bias", f"{released}.bias", identity_transform(width), layers)


def encoder_layer_rules(
    config: EncoderConfig,
    prefix: str,
    norms: tuple[str, str],
    mlp: str = "mlp.",
    biases: str = "qkvo",
) -> Iterator[TensorRule]:
    """Rules of an encoder's layers: attention and an MLP, each after a LayerNorm.

    Args:
        prefix: prefix of the names of a layer's tensors.
        norms: names of the norms, which are also their released names.
        mlp: prefix of the released names of the MLP's linear layers, after `prefix`.
        biases: which of the projections `q`, `k`, `v` and `o` have one.
    """
    width, hidden, layers = (config.d_model,), (config.d_ff,), config.layers
    heads = (config.heads, config.head_dim)
    for norm in norms:
        yield from norm_rules(f"layers.{norm}", f"{prefix}{norm}", width, layers)
    projections: list[tuple[str, str, Shape, Shape]] = [
        *((letter, f"{letter}_proj", width, heads) for letter in "qkv"),
        ("o", "out_proj", heads, width),
    ]
    for letter, name, inputs, outputs in projections:
        parameter, released = f"layers.self_attn.{letter}_proj", f"{prefix}self_attn.{name}"
        yield from linear_rules(parameter, released, inputs, outputs, letter in biases, layers)
    yield from linear_rules("layers.mlp.fc1", f"{prefix}{mlp}fc1", width, hidden, True, layers)
    yield from linear_rules("layers.mlp.fc2", f"{prefix}{mlp}fc2", hidden, width, True, layers)


def check_tensors(
    tensors: Mapping[str, StoredTensor], rules: Iterable[TensorRule], unused: Sequence[str] = ()
) -> None:
    """Check that `tensors` are those of `rules`, and in their shapes.

    Args:
        unused: tensors that may be there although no parameter comes from them.

    Raises:
        PretrainedError: lists the tensors that are missing, misshapen, of no parameter, or of a
            type that weights do not have.
    """
    rules = list(rules)
    layers = max((rule.layers or 0 for rule in rules), default=0)
    if layers > len(tensors):  # before so many names are formatted
        raise PretrainedError(f"there are {len(tensors)} released tensors for {layers} layers")
    shapes = {name: rule.transform.released for rule in rules for name in rule.names}
    missing = sorted(shapes.keys() - tensors.keys())
    extra = sorted(tensors.keys() - shapes.keys() - {*unused})
    misshapen = [
        f"{name} {list(tensors[name].shape)}, not {list(shape)}"
        for name, shape in shapes.items()
        if name in tensors and tensors[name].shape != shape
    ]
    mistyped = [
        f"{name} {tensors[name].dtype}"
        for name in shapes
        if name in tensors and tensors[name].dtype not in TYPES
    ]
    problems = {
        "missing": missing,
        "of no parameter": extra,
        "misshapen": misshapen,
        f"of another type than {', '.join(TYPES)}": mistyped,
    }
    reasons = [
        f"{len(names)} {problem}: {list_names(names)}"
        for problem, names in problems.items()
        if names
    ]
    if reasons:
        reasons += _explain_unread(extra)
        raise PretrainedError(
            "the released tensors are not those of the model: " + "; ".join(reasons)
        )


def _explain_unread(extra: Sequence[str]) -> Iterator[str]:
    """Explain the first tensor of no parameter of every format that is not read."""
    for pattern, reason in _UNREAD.items():
        name = next((name for name in extra if re.search(pattern, name)), None)
        if name is not None:
            yield f"{name} {reason}"
