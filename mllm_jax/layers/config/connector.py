"""Typed configuration of connectors, and what their parameters count."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from mllm_jax.layers.config import elements
from mllm_jax.layers.config.linear import LinearLayer, make_layer, single_dim, two_layers
from mllm_jax.layers.config.module import common_multiple
from mllm_jax.layers.config.parts import Section, Size
from sharding.plan import ParallelPlan, PlanRequirement

#: GELU by its tanh approximation, exactly, or as `x * sigmoid(1.702 x)`.
Activation = Literal["gelu_tanh", "gelu", "quick_gelu"]
#: Numbers of layers, from 1.
LayerNumbers = tuple[Annotated[int, Field(gt=0)], ...]


class ConnectorConfig(Section):
    """Outputs of an encoder to the width of the backbone.

    Args:
        kind: `mlp` (stack, Linear, activation, Linear), `linear` (stack, Linear), `average`
            (the mean of what a stack would join, then the encoder's last norm, then Linear).
        hidden: width between the two linear layers of `mlp`; None = the backbone's `d_model`.
        activation: between the two linear layers of `mlp`.
        bias: whether the linear layers have biases.
        stack: consecutive encoder outputs joined into one; for images `(rows, columns)` of a
            block of patches (pixel shuffle), for audio a number of frames.
    """

    kind: Literal["mlp", "linear", "average"] = "mlp"
    hidden: int | None = Field(None, gt=0)
    activation: Activation = "gelu_tanh"
    bias: bool = True
    stack: Annotated[int, Field(gt=0)] | tuple[int, int] = 1

    @model_validator(mode="after")
    def _with_effect(self) -> ConnectorConfig:
        default = type(self).model_fields
        for key in ("hidden", "activation"):
            value, unset = getattr(self, key), default[key].default
            if self.kind != "mlp" and value != unset:
                raise ValueError(
                    f"connector.{key} {value} has no effect, as connector.kind is {self.kind}; "
                    "valid: leave it out, or connector.kind mlp"
                )
        return self

    @property
    def joined(self) -> int:
        """Number of outputs of the encoder that become one."""
        return self.stack if isinstance(self.stack, int) else math.prod(self.stack)

    @property
    def block(self) -> Size:
        """Rows and columns of patches that become one output."""
        return (1, 1) if isinstance(self.stack, int) else self.stack

    def input_width(self, width: int) -> int:
        """Input width of the first linear layer.

        Args:
            width: `d_model` of the encoder.
        """
        return width * (1 if self.kind == "average" else self.joined)

    def output_flops(self, width: int, outputs: int) -> float:
        """FLOPs of the products that make an output of width `outputs`."""
        inputs = self.input_width(width)
        if self.kind == "mlp":
            return 2 * (self.hidden or outputs) * (inputs + outputs)
        return 2 * inputs * outputs

    def parameter_elements(self, width: int, outputs: int) -> elements.Elements:
        """Elements of the parameters between outputs of width `width` and of width `outputs`."""
        inputs = self.input_width(width)
        if self.kind == "mlp":
            return elements.mlp(inputs, self.hidden or outputs, outputs, self.bias)
        return elements.dense(((None, inputs),), (("embed", outputs),), self.bias)

    def linear_layers(
        self, module: str, block: str, width: int, outputs: int
    ) -> Iterator[LinearLayer]:
        """The linear layers of the connector in a `block` of parameters of a module."""
        inputs, target = self.input_width(width), single_dim("embed", outputs)
        if self.kind == "mlp":
            hidden = single_dim("mlp", self.hidden or outputs)
            yield from two_layers(module, block, single_dim("embed", inputs), hidden, target)
        else:
            yield make_layer(module, f"{block}.linear", single_dim(None, inputs), target)

    def requirements(self, target: str, outputs: int) -> tuple[PlanRequirement, ...]:
        """Sizes that a plan of the encoder must divide, as its connector has them.

        Args:
            target: name of the module into whose rows outputs are merged.
            outputs: `d_model` of that module.
        """
        width = PlanRequirement(f"{target} d_model", outputs, "fsdp")
        if self.kind != "mlp":
            return (width,)
        return width, PlanRequirement("connector.hidden", self.hidden or outputs, "tensor")

    def shrink(self, plans: Sequence[ParallelPlan]) -> dict[str, Any]:
        """Values of a small connector that plans split as they split this one, for verification.

        Args:
            plans: plans of all buckets of the encoder.
        """
        values = self.model_dump(mode="json")
        if self.kind != "mlp":
            return values
        return values | {"hidden": math.lcm(8, common_multiple(plans, "tensor", "fsdp"))}


class MergedOutputs(Section):
    """Keys of an encoder in the short form, which are those of its edge into the backbone.

    Args:
        connector: the connector of the edge.
        deepstack: numbers of layers, from 1, whose outputs go to the backbone as well: each through
            a norm and a connector of its own, to be added at the medium's tokens after the
            backbone's first layer, its second, and so on (arXiv 2406.04334, as in Qwen3-VL); they
            are the `layers` of the edge.
    """

    connector: ConnectorConfig = ConnectorConfig()
    deepstack: LayerNumbers = ()
