"""Names and forms of released tensors, for the parameters of towers.

Parameters are called by their dotted path in the tree of their tower; those of stacked layers have
a released tensor for every layer, numbered where the name says `{layer}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mllm_jax.hf_format.files import TYPES, PretrainedError, Stored, listed
from mllm_jax.hf_format.forms import Form, Shape, dense, flat, same
from mllm_jax.layers.config.encoder import EncoderConfig

#: Ends of the names of tensors that quantised weights have.
_QUANTISED = "qweight|qzeros|scales|g_idx|absmax|quant_map|weight_packed|weight_scale(_inv)?|blocks"
#: Forms of weights that are not read, by a pattern of the names of their tensors.
_UNREAD: Mapping[str, str] = {
    r"\.experts\.(?!\d)": "holds all experts of a layer; valid: tensors of every expert by itself",
    rf"[._]({_QUANTISED})$": "is of quantised weights; valid: a release that is not quantised",
}


@dataclass(frozen=True)
class Rule:
    """The source of a parameter.

    Attributes:
        parameter: dotted path, e.g. `layers.self_attn.q_proj.kernel`.
        released: name of the tensor, or of the tensor of each layer.
        form: form of one layer, or of one expert of a layer.
        layers: layers of the tower; None for a parameter without a dimension of layers.
        only: numbers of the layers that have the parameter; None: all.
        experts: experts that are stacked in every layer, numbered where the name says `{expert}`;
            None for a parameter without a dimension of experts.
    """

    parameter: str
    released: str
    form: Form
    layers: int | None = None
    only: frozenset[int] | None = None
    experts: int | None = None

    @property
    def names(self) -> list[str]:
        """All released tensors of the parameter, in the order of layers, then of experts."""
        if self.layers is None:
            return [self.released]
        return [
            self.released.format(layer=layer, expert=expert)
            for layer in range(self.layers)
            if self.only is None or layer in self.only
            for expert in range(1 if self.experts is None else self.experts)
        ]


def linear(
    ours: str, theirs: str, inputs: Shape, outputs: Shape, bias: bool, layers: int | None = None
) -> Iterator[Rule]:
    """Rules of a linear layer: its kernel and, if it has one, its bias."""
    yield Rule(f"{ours}.kernel", f"{theirs}.weight", dense(inputs, outputs), layers)
    if bias:
        yield Rule(f"{ours}.bias", f"{theirs}.bias", flat(outputs), layers)


def norm(ours: str, theirs: str, width: Shape, layers: int | None = None) -> Iterator[Rule]:
    """Rules of a LayerNorm: its scale and its bias."""
    yield Rule(f"{ours}.scale", f"{theirs}.weight", same(width), layers)
    yield Rule(f"{ours}.bias", f"{theirs}.bias", same(width), layers)


def encoder_layers(
    config: EncoderConfig,
    prefix: str,
    norms: tuple[str, str],
    mlp: str = "mlp.",
    biases: str = "qkvo",
) -> Iterator[Rule]:
    """Rules of an encoder's layers: attention and an MLP, each behind a LayerNorm.

    Args:
        prefix: prefix of the names of a layer's tensors.
        norms: names of the norms, which are also their released names.
        mlp: prefix of the released names of the MLP's linear layers, behind `prefix`.
        biases: which of the projections `q`, `k`, `v` and `o` have one.
    """
    width, hidden, layers = (config.d_model,), (config.d_ff,), config.layers
    heads = (config.heads, config.head_dim)
    for own in norms:
        yield from norm(f"layers.{own}", f"{prefix}{own}", width, layers)
    projections: list[tuple[str, str, Shape, Shape]] = [
        *((n, f"{n}_proj", width, heads) for n in "qkv"),
        ("o", "out_proj", heads, width),
    ]
    for name, theirs, inputs, outputs in projections:
        ours, released = f"layers.self_attn.{name}_proj", f"{prefix}self_attn.{theirs}"
        yield from linear(ours, released, inputs, outputs, name in biases, layers)
    yield from linear("layers.mlp.fc1", f"{prefix}{mlp}fc1", width, hidden, True, layers)
    yield from linear("layers.mlp.fc2", f"{prefix}{mlp}fc2", hidden, width, True, layers)


def check(tensors: Mapping[str, Stored], rules: Iterable[Rule], unused: Sequence[str] = ()) -> None:
    """See that `tensors` are those of `rules`, and in their shapes.

    Args:
        unused: tensors that may be there although no parameter comes from them.

    Raises:
        PretrainedError: lists the tensors that are missing, misshapen, of no parameter, or of a
            type that weights do not have.
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
    told = [f"{len(own)} {what}: {listed(own)}" for what, own in problems.items() if own]
    if told:
        raise PretrainedError(
            "the released tensors are not those of the model: " + "; ".join([*told, *_known(extra)])
        )


def _known(extra: Sequence[str]) -> Iterator[str]:
    """What is known of the first tensor of no parameter of every form that is not read."""
    for pattern, reason in _UNREAD.items():
        name = next((name for name in extra if re.search(pattern, name)), None)
        if name is not None:
            yield f"{name} {reason}"
