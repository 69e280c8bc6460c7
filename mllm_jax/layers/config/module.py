"""Typed configuration that the modules of all families share: a stack of transformer layers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from mllm_jax.layers.config import elements
from mllm_jax.layers.config.experts import ExpertsConfig
from mllm_jax.layers.config.kinds import LayerKind
from mllm_jax.layers.config.linear import LinearLayer, attention_layers
from mllm_jax.layers.config.parts import Section
from sharding.plan import ParallelPlan, PlanRequirement


class ModuleConfig(Section):
    """A module of a model, of a family whose class is a subclass.

    Args:
        family: family of the module; see the classes.
        layers: transformer layers.
        d_model: width of the residual stream.
        heads: attention heads.
        head_dim: width of a head; `d_model / heads` if not given.
        d_ff: hidden width of the MLP.
        norm_eps: added to the variance in norms.
    """

    #: Whether its rows hold the text of samples. Outputs of other modules are merged into these
    #: rows, so that gradients go through its layers even where they are frozen.
    reads_text: ClassVar[bool] = False

    family: str
    layers: int = Field(gt=0, le=10_000)
    d_model: int = Field(gt=0)
    heads: int = Field(gt=0)
    head_dim: int = Field(gt=0, le=65_536, json_schema_extra={"derived": "d_model / heads"})
    d_ff: int = Field(gt=0)
    norm_eps: float = Field(gt=0)

    @model_validator(mode="after")
    def _check_periods(self) -> Self:
        if self.layers % self.period:
            raise ValueError(self._no_whole_periods())
        return self

    def _no_whole_periods(self) -> str:
        """Why the layers are no whole number of periods, and what would be."""
        return (
            f"layers {self.layers} are not a multiple of the {self.period} layers of a period; "
            f"choose layers {-(-self.layers // self.period) * self.period}"
        )

    # ---- layers ----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def layer_kinds(self) -> tuple[LayerKind, ...]:
        """Mask, rotary positions and MLP of every layer of a period."""

    @property
    def period(self) -> int:
        """Layers after which kinds of layers repeat."""
        return len(self.layer_kinds)

    @property
    def bound_sizes(self) -> Mapping[str, int]:
        """Most positions of the same id, by the ids that bound attention beside segments."""
        return {}

    @property
    def blocks(self) -> int:
        """Blocks of a layer, each of which gathers a row's positions once and scatters them once
        over tensor ranks; experts have a gather and a scatter besides."""
        return 2

    @property
    def attention_heads(self) -> tuple[int, int, int]:
        """Query heads, key and value heads, and the width of a head."""
        return self.heads, self.heads, self.head_dim

    @property
    def layer_experts(self) -> ExpertsConfig | None:
        """Experts that some layers have in place of an MLP; None without any."""
        return None

    @property
    def aux(self) -> Mapping[str, float]:
        """The weight in the loss of every auxiliary loss of a layer, by name."""
        return {}

    @property
    def expert_layers(self) -> int:
        """How many layers have experts."""
        return 0

    # ---- the smallest module of the family, for verification -------------------------------------

    def shrink(self, plans: Sequence[ParallelPlan], runs: Sequence[int]) -> dict[str, Any]:
        """Values of a small module of the family that plans split as they split this one.

        Args:
            plans: plans of all its buckets.
            runs: number of chunks along the layers under each of them.
        """
        return self.model_dump(mode="json") | {
            "layers": self.period * math.lcm(2 * common_multiple(plans, "stage"), *runs),
            "d_model": math.lcm(16, common_multiple(plans, "fsdp", "tensor")),
            "heads": common_multiple(plans, "sequence"),
            "head_dim": 8,
            "d_ff": math.lcm(16, common_multiple(plans, "tensor")),
        }

    # ---- positions -------------------------------------------------------------------------------

    @property
    def features(self) -> int:
        """Values of an input position; 0 where it is a token."""
        return 0

    @property
    def stride(self) -> int:
        """Input positions per position of the transformer."""
        return 1

    @property
    def sample_outputs(self) -> tuple[str, ...]:
        """Outputs of which a sample, or a medium, has one: values of `Edge.select`."""
        return ("mean",)

    @property
    def vocab_size(self) -> int:
        """Size of the vocabulary; 0 without one."""
        return 0

    # ---- FLOPs -----------------------------------------------------------------------------------

    @property
    def stem_flops(self) -> float:
        """FLOPs of products before the layers, per input position."""
        return 0.0

    @property
    def layer_flops(self) -> float:
        """FLOPs of the products of a layer, per position, the mean of a period."""
        heads, kv_heads, width = self.attention_heads
        return 2 * self.d_model * width * (2 * heads + 2 * kv_heads) + self.mlp_flops

    @property
    @abstractmethod
    def mlp_flops(self) -> float:
        """FLOPs of a layer's MLP or experts, per position, the mean of a period."""

    # ---- parameters ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def layer_elements(self) -> Mapping[tuple[str | None, ...], float]:
        """Elements of the parameters of one layer, the mean of a period."""

    @property
    @abstractmethod
    def rest_elements(self) -> elements.Elements:
        """Elements of the parameters before and after the layers, without what makes outputs."""

    def linear_layers(self, name: str) -> Iterator[LinearLayer]:
        """The linear layers of a module with this name, without those that make its outputs."""
        yield from attention_layers(name, self.d_model, *self.attention_heads)
        yield from self.mlp_layers(name)

    @abstractmethod
    def mlp_layers(self, name: str) -> Iterator[LinearLayer]:
        """Those of the MLPs and of the experts that all tokens have."""

    # ---- the head of the vocabulary --------------------------------------------------------------

    @property
    def head_elements(self) -> elements.Elements:
        """Elements of the head of the vocabulary, if the module has one that is no embedding."""
        return elements.Elements()

    def head_layers(self, name: str) -> Iterator[LinearLayer]:
        """That head as a linear layer, if there is one."""
        del name
        yield from ()

    # ---- plans -----------------------------------------------------------------------------------

    def requirements(self) -> tuple[PlanRequirement, ...]:
        """Sizes that a parallel plan of the module must divide."""
        return (
            PlanRequirement("heads", self.heads, "sequence"),
            PlanRequirement("d_ff", self.d_ff, "tensor"),
            PlanRequirement("d_model", self.d_model, "fsdp"),
        )


def common_multiple(plans: Sequence[ParallelPlan], *axes: str) -> int:
    """The least common multiple of the degrees of some axes in all plans."""
    return math.lcm(*(getattr(plan, axis) for plan in plans for axis in axes))
