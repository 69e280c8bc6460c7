"""The work of a step, which does not depend on the strategy that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from scheduling.costs.work import ModuleProfile, Parameters
from sharding.exchange_kinds import Exchange

#: Bytes of an element by type.
SIZES = {"float32": 4, "bfloat16": 2}
#: Bytes of a parameter, of its gradient, and of an element of partial sums: float32.
WIDE = 4
#: Values that AdamW keeps for an element, and other optimizers for what is no matrix.
VECTOR_MOMENTS = 2


class LayerSplit(NamedTuple):
    """How a layer of a module is split among ranks, as far as the bytes that it keeps depend on it.

    Attributes:
        module: name of the module.
        tensor: tensor degree.
        experts: whether ranks share its experts.
    """

    module: str
    tensor: int
    experts: bool = False

    def __str__(self) -> str:
        return f"tensor {self.tensor}" + " with shared experts" * self.experts


@dataclass(frozen=True)
class Workload:
    """The work of a step, whatever the plans.

    Attributes:
        modules: profiles by name, the backbone first; an encoder has one under the name of each of
            its lanes, which have other rows and plans and share its parameters.
        positions: input positions of one row, by module; a row counts as one segment.
        microbatch_counts: by encoder, its microbatches for one of the backbone's, if not one.
        spread: by encoder, rows of its microbatches for each row of the backbone's, if not one.
        rows: rows of a step, of all its microbatches together.
        dtype: type of activations.
        sums: bytes of an element of the partial sums that tensor ranks add up in forwards.
        moments: float32 values that the optimizer keeps for an element of a matrix; for all others
            it keeps those of AdamW, `VECTOR_MOMENTS`.
        workspace_per_element: float32 values that an update holds temporarily for an element of a
            matrix.
        frozen: names of modules that do not train; the connector of a frozen encoder may train.
            Gradients go through a frozen backbone to its inputs.
        frozen_connectors: names of encoders whose connectors do not train either.
        adapted: names of modules of whose layers adapters alone train.
        adapted_connectors: names of encoders of whose connectors adapters alone train.
        constant: bytes of a parameter that does not train.
        loss_chunk: tokens whose logits exist at a time.
        pairs: by module, the share of all pairs of a row that attention computes; 1 if not named.
        near_pairs: by module, the same share for each of `ModuleWork.near`; 1 if not named.
        by_segment: whether attention computes no pairs of unlike segments of a row.
        adaptive: whether encoders that fill bubbles have independent microbatches, which every step
            places anew.
        residual_bytes: by `LayerSplit`, the bytes of a layer's forward that its backward reads, for
            one row, on one tensor rank.
        operand_bytes: by `LayerSplit` of the backbone, the bytes that the backward of a layer saves
            for weight gradients that are split from it, for one row, on one tensor rank.
        buckets: by the name of a bucket, its encoder; a module that is not named shares no
            parameters.
        separate_media: whether media are in other rows than their samples.
        exchange: the exchange of encoder outputs that is asked for, one of
            `sharding.exchange_kinds.EXCHANGES`; `auto`: of every bucket the cheapest.
    """

    modules: Mapping[str, ModuleProfile]
    positions: Mapping[str, int]
    rows: int
    dtype: str = "bfloat16"
    sums: int = WIDE
    moments: int = 2
    workspace_per_element: int = 0
    frozen: frozenset[str] = frozenset()
    frozen_connectors: frozenset[str] = frozenset()
    adapted: frozenset[str] = frozenset()
    adapted_connectors: frozenset[str] = frozenset()
    constant: int = WIDE
    loss_chunk: int = 1024
    pairs: Mapping[str, float] = field(default_factory=dict)
    near_pairs: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    residual_bytes: Mapping[LayerSplit, float] = field(default_factory=dict)
    operand_bytes: Mapping[LayerSplit, float] = field(default_factory=dict)
    buckets: Mapping[str, str] = field(default_factory=dict)
    microbatch_counts: Mapping[str, int] = field(default_factory=dict)
    separate_media: bool = True
    exchange: Exchange | Literal["auto"] = "auto"
    spread: Mapping[str, int] = field(default_factory=dict)
    by_segment: bool = False
    adaptive: bool = False

    def holds_parameters(self, name: str) -> bool:
        """Whether the parameters of an encoder are counted with this bucket: with the first one."""
        buckets = self.buckets.get(name)
        return buckets is None or name == next(
            n for n in self.modules if self.buckets.get(n) == buckets
        )

    def near_share(self, name: str, number: int) -> float:
        """Share of all pairs of a row that layers of one kind of `ModuleWork.near` compute."""
        return self.near_pairs[name][number] if name in self.near_pairs else 1.0

    def rows_of(self, name: str, microbatches: int) -> float:
        """Rows of a microbatch of module `name`, in a step of `microbatches` of the backbone's."""
        return self.rows * self.spread.get(name, 1) / microbatches

    def has_backward(self, name: str) -> bool:
        """Whether gradients go through the layers, those of a frozen backbone to its inputs."""
        return name not in self.frozen or name == self.backbone_name

    def weights_share(self, name: str) -> float:
        """Share of the products of a module's layers whose parameters have gradients."""
        if name in self.frozen:
            return 0.0
        return self.modules[name].layer.adapters if name in self.adapted else 1.0

    def trained_parameters(self, name: str) -> tuple[Parameters, Parameters]:
        """Parameters with gradients: of a layer, and of all else.

        A connector that trains in full next to a frozen encoder is left out.
        """
        profile = self.modules[name]
        if name in self.frozen | self.adapted:
            return profile.layer_adapters, profile.rest_adapters
        return profile.layer_parameters, {**profile.rest_parameters, **profile.rest_adapters}

    def backward_flops(self, name: str) -> float:
        """FLOPs of the backward of module `name` in such a step, without recomputation."""
        if not self.has_backward(name):
            return 0.0
        profile, share = self.modules[name], self.weights_share(name)
        attention = profile.layers * profile.layer.work.attention(float(self.positions[name]))
        # Attention has no parameters, and a full backward.
        split = (1 - share) * self._step_rows(name) * attention
        return (1 + share) * self.forward_flops(name) + split

    @property
    def backbone_name(self) -> str:
        """Name of the backbone."""
        return next(iter(self.modules))

    @property
    def backbone(self) -> ModuleProfile:
        """The backbone."""
        return self.modules[self.backbone_name]

    @property
    def sources(self) -> dict[str, ModuleProfile]:
        """All modules but the backbone."""
        return {name: module for name, module in self.modules.items() if name != self.backbone_name}

    @property
    def element_bytes(self) -> int:
        """Bytes of an activation's element."""
        return SIZES[self.dtype]

    def forward_flops(self, name: str) -> float:
        """Forward FLOPs of module `name` in one step whose rows are full."""
        profile, length = self.modules[name], self.positions[name]
        parts = profile.start.work, profile.end.work
        once = sum(work.forward_flops([length]) for work in parts)
        return self._step_rows(name) * (
            once + profile.layers * profile.layer.work.forward_flops([length])
        )

    def _step_rows(self, name: str) -> float:
        """Rows of a step in module `name`."""
        return self.rows * self.microbatch_counts.get(name, 1) * self.spread.get(name, 1)
