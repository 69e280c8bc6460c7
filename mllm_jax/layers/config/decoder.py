"""Typed configuration of decoders; see `mllm_jax.models.model_config`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from mllm_jax.layers.config import elements
from mllm_jax.layers.config.decoder_parts import DecoderParts
from mllm_jax.layers.config.experts import ExpertsConfig, expert_flops
from mllm_jax.layers.config.kinds import LayerKind, MaskKind, RotarySpec, rotary_specs
from mllm_jax.layers.config.linear import (
    VOCABULARY_HEAD,
    LinearLayer,
    gated_layers,
    shared_expert_layers,
    single_dim,
    two_layers,
)
from mllm_jax.layers.config.module import ModuleConfig
from mllm_jax.layers.config.parts import RopeScaling, default_head_dim
from sharding.plan import ParallelPlan, PlanRequirement, divisors_of


class DecoderConfig(ModuleConfig):
    """A causal language model, of a family whose class is a subclass.

    Args:
        heads: query heads.
        kv_heads: key and value heads; `heads` if not given.
        d_ff: hidden width of the MLP; that of an expert if not given.
        experts: layers with a choice of experts in place of the MLP, of the families that have
            them; null for all others.
        vocab: size of the vocabulary; null = the tokenizer's, rounded up to a multiple of 64.
        rope_theta: base of the rotary frequencies.
        tie_embeddings: whether the head shares the embedding's table.
        max_positions: tokens of the longest segment, media included; longer samples and prompts
            are refused. The table of learned positions (gpt) has as many rows; with rotary
            positions another number changes no parameter.
        extra_tokens: number of tokens after the vocabulary that are read and never written, such
            as the newline between the rows of a tiled image.
        window: number of tokens that a token sees in layers with a window: the token itself and
            the tokens before it in its segment; null: all layers see full segments.
        pattern: attention of successive layers, `window` or `full`, repeated until the last layer;
            the length of the pattern divides `layers`. By default all layers have the window, if
            there is one.
        parallel_block: attention and MLP (or experts) of a layer read one norm of its input, side
            by side, in place of one after the other (PaLM, arXiv 2204.02311, section 2). With an
            MLP, tensor ranks exchange activations half as often.
        activation_penalty: weight in the loss of the mean square of a layer's outputs, summed over
            the layers (activation regularization, arXiv 1708.01009).
    """

    #: The parts of the family's layers.
    parts: ClassVar[DecoderParts] = DecoderParts()
    reads_text: ClassVar[bool] = True

    kv_heads: int = Field(gt=0, json_schema_extra={"derived": "heads"})
    d_ff: int = Field(gt=0, json_schema_extra={"derived": "experts.d_ff"})
    experts: ExpertsConfig | None = None
    vocab: int | None = Field(None, gt=0)
    rope_theta: float = Field(10_000.0, gt=0)
    rope_scaling: RopeScaling | None = None
    norm_eps: float = Field(1e-5, gt=0)
    tie_embeddings: bool = False
    max_positions: int = Field(4096, gt=0)
    extra_tokens: int = Field(0, ge=0)
    window: int | None = Field(None, gt=0)
    pattern: tuple[Literal["window", "full"], ...] = ()
    parallel_block: bool = False
    activation_penalty: float = Field(0.0, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        present = {key: value for key, value in values.items() if value is not None}
        if "heads" in present:
            present.setdefault("kv_heads", present["heads"])
        experts = present.get("experts")
        width = experts.get("d_ff") if isinstance(experts, dict) else getattr(experts, "d_ff", None)
        if width is not None:
            present.setdefault("d_ff", width)
        return default_head_dim(present)

    @model_validator(mode="after")
    def _check_heads(self) -> DecoderConfig:
        if self.heads % self.kv_heads:
            raise ValueError(
                f"heads {self.heads} is not divisible by kv_heads {self.kv_heads}; "
                f"choose kv_heads from {divisors_of(self.heads)}"
            )
        if not self.parts.rotary and self.rope_scaling is not None:
            raise ValueError(f"family {self.family} has learned positions; remove rope_scaling")
        if self.rotary is not None:
            self.rotary.frequency_axes(self.head_dim)
        return self

    @model_validator(mode="after")
    def _check_experts(self) -> DecoderConfig:
        if self.parts.experts and self.experts is None:
            raise ValueError(f"family {self.family} needs the section experts")
        if self.experts is None:
            return self
        if not self.parts.experts:
            raise ValueError(
                f"family {self.family} has no experts; valid: leave experts out, or a family that "
                "has them, such as mixtral"
            )
        if not self.layers_with_experts:
            raise ValueError(self._no_sparse_layers(self.experts))
        return self

    def _no_sparse_layers(self, experts: ExpertsConfig) -> str:
        """Why no layer has experts, and which keys would give some."""
        last = self.layers // experts.every * experts.every
        valid = f"first_dense below {last}" if last else f"every from {divisors_of(self.layers)}"
        return (
            f"experts.every {experts.every} and experts.first_dense {experts.first_dense} leave "
            f"none of {self.layers} layers with experts; choose {valid}"
        )

    @model_validator(mode="after")
    def _check_windows(self) -> DecoderConfig:
        if "window" in self.pattern and self.window is None:
            raise ValueError(
                f"pattern {list(self.pattern)} needs the length of a window: set window"
            )
        if self.window is not None and self.pattern and "window" not in self.pattern:
            raise ValueError(
                f"window {self.window} has no effect, as pattern is {list(self.pattern)}; valid: "
                "window null, or a pattern with window"
            )
        return self

    def _no_whole_periods(self) -> str:
        """Why the layers are no whole number of periods, and what would be."""
        if self.experts is not None and not self.layers_with_experts:
            return self._no_sparse_layers(self.experts)
        every, period = self.experts.every if self.experts else 1, self.period
        causes = [f"pattern {list(self.pattern)}"] if self.pattern else []
        causes += [f"experts.every {every}"] if every > 1 else []
        valid = [f"layers {-(-self.layers // period) * period}"]
        other = [f"experts.every from {divisors_of(self.layers)}"] if self.layers % every else []
        other += ["another pattern"] if self.layers % max(1, len(self.pattern)) else []
        return (
            f"layers {self.layers} are not a multiple of the {period} layers of "
            f"{' and '.join(causes)}; choose {', or '.join([*valid, ' with '.join(other)])}"
        )

    @property
    def blocks(self) -> int:
        """Gathers and scatters of a layer over tensor ranks; experts have one of their own."""
        return 1 if self.parallel_block and self.experts is None else 2

    @property
    def layer_kinds(self) -> tuple[LayerKind, ...]:
        """Mask, rotary positions and MLP of every layer of a period."""
        pattern = self.pattern or ("window",)
        windows = tuple(self.window if name == "window" else None for name in pattern)
        return tuple(
            LayerKind(
                MaskKind(window=windows[layer % len(windows)]),
                self.rotary,
                "experts" if self.experts and self.experts.is_sparse_layer(layer) else "dense",
            )
            for layer in range(self.period)
        )

    @property
    def position_axes(self) -> int:
        """Number of axes of a token's position."""
        return max((spec.axes for spec in rotary_specs(self.layer_kinds)), default=1)

    @property
    def position_writer(self) -> str:
        """Function that writes positions, a `PositionWriter`, as `module:name`."""
        return "data.rows.tokens:sequential"

    @property
    def rotary(self) -> RotarySpec | None:
        """Rotary positions of the layers; None where positions are learned."""
        if not self.parts.rotary:
            return None
        return RotarySpec(self.rope_theta, self.rope_scaling)

    @property
    def attention_heads(self) -> tuple[int, int, int]:
        """See `ModuleConfig.attention_heads`."""
        return self.heads, self.kv_heads, self.head_dim

    @property
    def layer_experts(self) -> ExpertsConfig | None:
        """See `ModuleConfig.layer_experts`."""
        return self.experts

    @property
    def layers_with_experts(self) -> tuple[int, ...]:
        """Numbers of the layers that have experts, from 0."""
        experts = self.experts
        return tuple(
            n for n in range(self.layers) if experts is not None and experts.is_sparse_layer(n)
        )

    @property
    def expert_layers(self) -> int:
        """How many layers have experts."""
        return len(self.layers_with_experts)

    @property
    def period(self) -> int:
        """Layers after which kinds of layers repeat: all, if the first ones are unlike others."""
        if self.experts and self.experts.first_dense:
            return self.layers
        return math.lcm(max(1, len(self.pattern)), self.experts.every if self.experts else 1)

    @property
    def aux(self) -> Mapping[str, float]:
        """The weight in the loss of every auxiliary loss of a layer, by name."""
        weights = {"activation": self.activation_penalty}
        if self.experts is not None:
            weights["balance"] = self.experts.balance_weight / self.expert_layers
            weights["router_z"] = self.experts.z_weight / self.expert_layers
        return {name: weight for name, weight in weights.items() if weight}

    @property
    def vocab_size(self) -> int:
        """Size of the vocabulary.

        Raises:
            ValueError: `vocab` has not been set from the tokenizer yet.
        """
        if self.vocab is None:
            raise ValueError("vocab is null: set it to the tokenizer's size")
        return self.vocab

    @property
    def sample_outputs(self) -> tuple[str, ...]:
        """See `ModuleConfig.sample_outputs`."""
        return ("last", "mean")

    def shrink(self, plans: Sequence[ParallelPlan], runs: Sequence[int]) -> dict[str, Any]:
        """See `ModuleConfig.shrink`; it has one plan."""
        (plan,), (count,) = plans, runs
        heads = kv_heads = plan.sequence
        if self.kv_heads != self.heads:
            # Copied only if those of the model are, which may be in many ways.
            kv_heads = self.kv_heads if self.kv_heads % plan.tensor else plan.tensor
            heads = math.lcm(2 * plan.sequence, kv_heads)
        return super().shrink(plans, runs) | {
            "experts": self.experts.shrink(plan.tensor) if self.experts else None,
            # Padded only if the layers of the model are, and its vocabulary.
            "layers": self._fewer_layers(count),
            "vocab": math.lcm(32, plan.vocab) - (self.vocab_size % plan.vocab > 0),
            # Shorter than segments.
            "window": None if self.window is None else min(self.window, 3),
            "heads": heads,
            "kv_heads": kv_heads,
            "max_positions": math.lcm(16, plan.sequence),
        }

    def _fewer_layers(self, runs: int) -> int:
        if self.experts is not None and self.experts.first_dense:
            return min(self.layers, self.experts.first_dense + self.experts.every)
        return self.period * (2 * runs - (self.layers // self.period % runs > 0))

    @property
    def mlp_flops(self) -> float:
        """See `ModuleConfig.mlp_flops`; with experts, of the router and the experts of a token."""
        flops = (self._count_mlp_flops(kind.mlp == "experts") for kind in self.layer_kinds)
        return sum(flops) / self.period

    def _count_mlp_flops(self, experts: bool) -> float:
        if experts and self.experts is not None:
            choice = 2 * self.d_model * (self.experts.count + self.experts.shared_gate)
            return expert_flops(self.experts.active_d_ff, self.d_model) + choice
        return 2 * (3 if self.parts.gated_mlp else 2) * self.d_model * self.d_ff

    @property
    def layer_elements(self) -> Mapping[tuple[str | None, ...], float]:
        """Elements of the parameters of one layer: its norms, attention and MLP or experts.

        Where layers are of several kinds, it is their mean.
        """
        parts, width, norms = self.parts, self.d_model, 1 if self.parallel_block else 2
        heads = self.heads, self.kv_heads, self.head_dim
        attention = elements.attention(width, *heads, parts.biases, parts.qk_norm)
        without_mlp = elements.norm(norms * width, parts.layer_norm) + attention
        sparse = [kind.mlp == "experts" for kind in self.layer_kinds]
        kinds = [without_mlp + self._mlp_elements(experts=is_sparse) for is_sparse in sparse]
        return elements.mean(kinds)

    def _mlp_elements(self, *, experts: bool) -> elements.Elements:
        if experts and self.experts is not None:
            return self.experts.elements(self.d_model)
        if self.parts.gated_mlp:
            return elements.gated_mlp(self.d_model, self.d_ff)
        return elements.mlp(self.d_model, self.d_ff, self.d_model)

    @property
    def rest_elements(self) -> elements.Elements:
        """Elements of the embeddings, learned positions and the last norm."""
        width, vocab = self.d_model, self.vocab_size
        total = elements.table(vocab, "vocab", width) + elements.norm(width, self.parts.layer_norm)
        if not self.parts.rotary:
            total += elements.table(self.max_positions, None, width)
        if self.extra_tokens:
            total += elements.table(self.extra_tokens, None, width)
        return total

    @property
    def head_elements(self) -> elements.Elements:
        """See `ModuleConfig.head_elements`."""
        if self.tie_embeddings:
            return elements.Elements()
        return elements.dense((("embed", self.d_model),), (("vocab", self.vocab_size),))

    def mlp_layers(self, name: str) -> Iterator[LinearLayer]:
        """See `ModuleConfig.mlp_layers`; each has the share of the layers that have it."""
        sparse = sum(kind.mlp == "experts" for kind in self.layer_kinds) / self.period
        if sparse < 1:
            width, hidden = single_dim("embed", self.d_model), single_dim("mlp", self.d_ff)
            layers = gated_layers if self.parts.gated_mlp else two_layers
            for layer in layers(name, "layers.mlp", width, hidden, width):
                yield replace(layer, share=1 - sparse)
        if self.experts is not None:
            for layer in shared_expert_layers(name, self.d_model, self.experts):
                yield replace(layer, share=sparse)

    def head_layers(self, name: str) -> Iterator[LinearLayer]:
        """See `ModuleConfig.head_layers`."""
        if not self.tie_embeddings:
            width, vocab = single_dim("embed", self.d_model), single_dim("vocab", self.vocab_size)
            yield LinearLayer(f"{name}.{VOCABULARY_HEAD}", name, width, vocab)

    def requirements(self) -> tuple[PlanRequirement, ...]:
        """See `ModuleConfig.requirements`; of the widths of the MLP those that layers have."""
        required = [PlanRequirement("heads", self.heads, "sequence")]
        if any(kind.mlp == "dense" for kind in self.layer_kinds):
            required.append(PlanRequirement("d_ff", self.d_ff, "tensor"))
        if self.experts is not None:
            required.append(PlanRequirement("experts.count", self.experts.count, "expert"))
            required.append(PlanRequirement("experts.d_ff", self.experts.d_ff, "tensor"))
            if self.experts.shared_d_ff:
                width = self.experts.shared_d_ff
                required.append(PlanRequirement("experts.shared_d_ff", width, "tensor"))
        return (*required, PlanRequirement("d_model", self.d_model, "fsdp"))
