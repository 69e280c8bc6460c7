"""The figures of one step, and the work of its ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, SupportsFloat

from pydantic import ConfigDict, Field

from data.planning.groups.group import WHOLE, HostGroupSpec
from mllm_jax.train.records.expert_loads import (
    find_nonfinite_layer,
    rank_loads,
)

#: Rules for values read back from checkpoints: known keys, no numbers in quotes, finite numbers.
STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


#: Numbers that are none below zero.
Amount = Annotated[float, Field(ge=0)]


Count = Annotated[int, Field(ge=0)]


#: Name, among phases, of the products of experts, where ranks share these.
EXPERT_RANKS = "expert ranks"


@dataclass(frozen=True)
class StepRecord:
    """Figures of one step of all hosts, or of the group of hosts that balances by itself.

    Attributes:
        step: steps done, this one included.
        loss: mean loss of the step's target tokens, with auxiliary losses times their weights; may
            stay on the device until reported.
        learning_rate: learning rate of this step; may stay on the device until reported.
        gradient_norm: global norm before clipping; may stay on the device until reported.
        seconds: wall time of the step, waiting included.
        wait_seconds: part of `seconds` spent waiting for data.
        place_seconds: part of `seconds` spent on placing the batch on the devices, by the host.
        device_wait_seconds: part of `seconds` spent waiting for a step before, on the devices.
        aux: auxiliary losses by name: summed over layers, means over the step's tokens, without
            their weights; may stay on the device until reported.
        trust_ratios: `least`, `mean` and `greatest` trust ratio of the matrices that LAMB updates
            (`train.state.lamb`); may stay on the device until reported. Empty for other optimizers.
        expert_layers: numbers of the layers that have experts.
        expert_loads: `[layers with experts, experts]`, share of the step's tokens that each expert
            got, not a number where a router's logits are not finite; may stay on the device until
            reported. None without experts.
        expert_ranks: number of ranks that share experts.
        used: positions that hold samples, by budget (`tokens`, encoder names).
        capacity: positions computed, by budget; padding is `capacity - used`. Of an encoder with
            independent microbatches they are the positions of those that the step runs. An encoder
            without samples in a microbatch computes none there.
        independent_microbatches: by encoder, how many the step runs, of all hosts; empty
            where encoders have the decoder's.
        flops: model FLOPs of the step but for the decoder's head, forward and backward, all
            devices.
        head_flops: FLOPs of the head for each target.
        targets: tokens that have a loss; may stay on the device until reported.
        skipped: samples refused so far in the run.
        loads: work of the data-parallel ranks by phase.
        moved_bytes: between hosts: encoder outputs, there and as gradients back, and samples that
            one host has read for another.
        planning_seconds: seconds that a host has spent on planning.
        skips: the step leaves its update out if loss, gradient norm or logits of a router are not
            finite.
        microbatch_loads: `loads` of every microbatch.
        group: the hosts of whose rows `used`, `capacity`, `flops`, `loads`, `moved_bytes` and
            `planning_seconds` are; reports join the figures of all.
    """

    step: int
    loss: SupportsFloat
    learning_rate: SupportsFloat
    gradient_norm: SupportsFloat
    seconds: float
    wait_seconds: float
    used: Mapping[str, int]
    capacity: Mapping[str, int]
    flops: float
    head_flops: float = 0.0
    targets: SupportsFloat = 0.0
    skipped: int = 0
    loads: Mapping[str, PhaseLoad] = field(default_factory=dict)
    moved_bytes: float = 0.0
    planning_seconds: float = 0.0
    skips: bool = False
    place_seconds: float = 0.0
    device_wait_seconds: float = 0.0
    aux: Mapping[str, SupportsFloat] = field(default_factory=dict)
    trust_ratios: Mapping[str, SupportsFloat] = field(default_factory=dict)
    expert_layers: tuple[int, ...] = ()
    expert_loads: Any = None
    expert_ranks: int = 1
    microbatch_loads: tuple[Mapping[str, PhaseLoad], ...] = ()
    group: HostGroupSpec = WHOLE
    independent_microbatches: Mapping[str, int] = field(default_factory=dict)
    is_fallback: bool = False

    @property
    def left_out(self) -> bool:
        """Whether the update was left out; waits for the step."""
        values = float(self.loss), float(self.gradient_norm)
        has_finite_logits = find_nonfinite_layer(self.expert_layers, self.expert_loads) is None
        return self.skips and not (has_finite_logits and all(map(math.isfinite, values)))

    @property
    def phases(self) -> dict[str, PhaseLoad]:
        """`loads`, and the tokens of ranks that share experts; waits for the step if there are any.

        Which rank a token goes to is the router's choice, whatever rank its sample is assigned to.
        """
        if self.expert_ranks == 1:
            return dict(self.loads)
        mean, fullest = rank_loads(self.expert_loads, self.expert_ranks)
        return {**self.loads, EXPERT_RANKS: PhaseLoad(mean, fullest, fullest)}

    @property
    def model_flops(self) -> float:
        """FLOPs of the step; waits for its targets."""
        return self.flops + self.head_flops * float(self.targets)


@dataclass(frozen=True)
class PhaseLoad:
    """Work of the data-parallel ranks in one phase, in any unit, summed over microbatches.

    Attributes:
        mean: mean work of the ranks.
        packed, balanced: work of the heaviest rank, before and after balancing.
    """

    __pydantic_config__ = STRICT

    mean: Amount = 0.0
    packed: Amount = 0.0
    balanced: Amount = 0.0

    def __add__(self, other: PhaseLoad) -> PhaseLoad:
        return PhaseLoad(
            self.mean + other.mean, self.packed + other.packed, self.balanced + other.balanced
        )

    @property
    def imbalance(self) -> dict[str, float]:
        """The heaviest rank over the mean, `before` and `after` balancing."""
        if not self.mean:
            return {"before": 1.0, "after": 1.0}
        return {"before": self.packed / self.mean, "after": self.balanced / self.mean}


def sum_over_microbatches(parts: Sequence[Mapping[str, PhaseLoad]]) -> dict[str, PhaseLoad]:
    """Loads of a step by phase, from those of its microbatches."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: sum((part[name] for part in parts), PhaseLoad()) for name in names}
