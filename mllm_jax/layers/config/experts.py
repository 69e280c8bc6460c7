"""Typed configuration of mixture-of-experts layers; see docs/concepts/experts.md."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import Field, model_validator

from mllm_jax.layers.config import elements
from mllm_jax.layers.config.parts import Section
from sharding.plan import divisors_of

#: Experts of a layer at most.
MOST = 10_000


class ExpertsConfig(Section):
    """Layers whose MLP is a choice of experts for each token (arXiv 1701.06538, 2401.04088).

    Args:
        count: experts of a layer.
        top_k: experts of a token.
        d_ff: hidden width of an expert.
        shared_d_ff: hidden width of one more expert that sees all tokens; 0 = none.
        shared_gate: whether the output of the shared expert is scaled by the sigmoid of a product
            with the token, as in Qwen2-MoE.
        router: scores of experts, the `softmax` or the `sigmoid` of the router's logits.
        normalise: whether the scores of the experts of a token are divided by their sum.
        scale: factor on the weights of a token's experts.
        groups: equal groups of experts, of which a token chooses first (`sigmoid` alone): a group's
            score is the sum of its two best (DeepSeek-V3, arXiv 2412.19437, section 2.1.2).
        top_groups: groups whose experts a token can choose.
        bias_rate: step by which a bias of every expert follows its load: up if it is below the mean
            of the step, down if above. The bias counts in the choice of experts alone, and has no
            gradient (arXiv 2408.15664). 0 = the bias stays as it is.
        balance_weight: weight in the loss of the load-balancing loss, the mean over the layers that
            have experts; see docs/concepts/experts.md.
        z_weight: weight in the loss of the mean square of the logarithm of the sum of the exponents
            of a token's logits (router z-loss, arXiv 2202.08906, equation 5), mean over layers.
        every: the last of every so many layers has experts, the others have an MLP.
        first_dense: first layers of the decoder that have an MLP whatever `every` says.
        buffer: copies of tokens that an expert rank has room for in a round of the exchange between
            such ranks, over an even share of them. Copies beyond it go in further rounds. More
            than the expert degree has no further effect: a rank then has room for the copies of all
            ranks.
    """

    count: int = Field(gt=0, le=MOST)
    top_k: int = Field(gt=0)
    d_ff: int = Field(gt=0)
    shared_d_ff: int = Field(0, ge=0)
    shared_gate: bool = False
    router: Literal["softmax", "sigmoid"] = "softmax"
    normalise: bool = True
    scale: float = Field(1.0, gt=0)
    groups: int = Field(1, gt=0)
    top_groups: int = Field(1, gt=0)
    bias_rate: float = Field(0.0, ge=0)
    balance_weight: float = Field(0.0, ge=0)
    z_weight: float = Field(0.0, ge=0)
    every: int = Field(1, gt=0)
    first_dense: int = Field(0, ge=0)
    buffer: float = Field(1.25, gt=0)

    @model_validator(mode="after")
    def _check_choice(self) -> ExpertsConfig:
        if self.top_k > self.count:
            raise ValueError(
                f"experts.top_k {self.top_k} is above experts.count {self.count}; choose top_k "
                f"from 1 to {self.count}"
            )
        if self.top_k == 1 and self.normalise and self.count > 1:
            raise ValueError(
                "experts.normalise true with experts.top_k 1 gives every expert the weight 1, so "
                "that no gradient of the loss reaches the router; valid: normalise false, or top_k "
                "2 or more"
            )
        if self.shared_gate and not self.shared_d_ff:
            raise ValueError(
                "experts.shared_gate true has no effect, as experts.shared_d_ff is 0; valid: leave "
                "it out, or set shared_d_ff"
            )
        return self

    @model_validator(mode="after")
    def _check_groups(self) -> ExpertsConfig:
        if self.groups == 1 and self.top_groups == 1:
            return self
        if self.router != "sigmoid":
            raise ValueError(
                f"experts.groups {self.groups} and experts.top_groups {self.top_groups} are of "
                f"scores by sigmoid, and experts.router is {self.router}; valid: both 1, or router "
                "sigmoid"
            )
        able = [n for n in divisors_of(self.count) if self.count // n > 1]
        if self.groups not in able:
            raise ValueError(
                f"experts.count {self.count} does not make experts.groups {self.groups} of two "
                f"experts or more; choose groups from {able}"
            )
        least = -(-self.top_k * self.groups // self.count)
        if not least <= self.top_groups <= self.groups:
            raise ValueError(
                f"experts.top_groups {self.top_groups} of {self.groups} groups of "
                f"{self.count // self.groups} experts have no place for top_k {self.top_k}; choose "
                f"top_groups from {least} to {self.groups}"
            )
        return self

    def is_sparse_layer(self, layer: int) -> bool:
        """Whether layer number `layer`, from 0, has experts."""
        return layer >= self.first_dense and (layer + 1) % self.every == 0

    def shrink(self, tensor: int) -> dict[str, Any]:
        """Values of as many experts whose smaller widths divide by a tensor degree."""
        width = math.lcm(16, tensor)
        shared = width if self.shared_d_ff else 0
        return self.model_dump(mode="json") | {"d_ff": width, "shared_d_ff": shared}

    def elements(self, d_model: int) -> elements.Elements:
        """Elements of the parameters in place of an MLP: router, experts and shared expert."""
        width = (("embed", d_model),)
        total = elements.dense(width, ((None, self.count),)) + elements.vector(self.count)
        total += elements.experts(self.count, d_model, self.d_ff)
        if self.shared_d_ff:
            total += elements.gated_mlp(d_model, self.shared_d_ff)
        return total + elements.dense(width, ((None, 1),)) if self.shared_gate else total

    @property
    def active_d_ff(self) -> int:
        """Hidden width of all experts of a token, the shared one included."""
        return self.top_k * self.d_ff + self.shared_d_ff


def expert_flops(hidden: int, d_model: int) -> float:
    """FLOPs of a token in experts of so much hidden width together, forward."""
    return 6 * d_model * hidden
