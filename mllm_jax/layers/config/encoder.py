"""Typed configuration that encoders of all families share, and their connectors."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from mllm_jax.layers.config import elements
from mllm_jax.layers.config.kinds import LayerKind, MaskKind
from mllm_jax.layers.config.linear import LinearLayer, make_layer, single_dim, two_layers
from mllm_jax.layers.config.module import ModuleConfig, common_multiple
from mllm_jax.layers.config.parts import Section, Size, TilesConfig, default_head_dim
from sharding.plan import ParallelPlan, PlanRequirement

#: GELU by its tanh approximation, exactly, or as `x * sigmoid(1.702 x)`.
Activation = Literal["gelu_tanh", "gelu", "quick_gelu"]
#: Frames of half a minute.
FRAMES = 3000


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


class EncoderConfig(ModuleConfig):
    """Keys of all encoders.

    A family also defines its costs: the numbers of `blocks` and `products` of its layers, if they
    are not two, and the elements of its parameters.

    Args:
        buckets: name of each length bucket to the largest number of input positions of its media,
            null for any number; a medium is in the bucket with the smallest sufficient number. All
            buckets share the parameters; each has a plan, a budget and rows of its own, by its
            name. `auto` for one of two: every step cuts where both together take the fewest seconds
            on `schedule.hardware`. An encoder without `buckets` has one, of the encoder's name.
        deepstack: numbers of layers, from 1, whose outputs go to the backbone as well: each through
            a norm and a connector of its own, to be added at the medium's tokens after the
            backbone's first layer, its second, and so on (arXiv 2406.04334, as in Qwen3-VL).
        remat: values that the backward of this encoder recomputes, one of `none`, `layer` and
            `full`; null: as `model.remat` says.
    """

    #: Products of a layer's MLP; three where it is gated.
    products: ClassVar[int] = 2
    #: The smallest inputs, for verification.
    smallest: ClassVar[dict[str, Any]] = {}

    connector: ConnectorConfig = ConnectorConfig()
    buckets: dict[str, Annotated[int, Field(gt=0)] | Literal["auto"] | None] = Field({})
    deepstack: tuple[Annotated[int, Field(gt=0)], ...] = ()
    remat: Literal["none", "layer", "full"] | None = None

    @model_validator(mode="after")
    def _all_media(self) -> EncoderConfig:
        most = list(self.buckets.values())
        if "auto" in most and sorted(map(str, most)) != ["None", "auto"]:
            raise ValueError(
                f"buckets {self.buckets} are not two of which one is cut from the other; valid: "
                "auto for one of two buckets, and null for the other"
            )
        if self.buckets and (most.count(None) != 1 or len({*most}) < len(most)):
            raise ValueError(
                f"buckets {self.buckets} do not give every medium one bucket; valid: null for "
                "one of the buckets, and different numbers of positions for all others"
            )
        return self

    @model_validator(mode="after")
    def _known_layers(self) -> EncoderConfig:
        if sorted({*self.deepstack}) != [*self.deepstack] or max(self.deepstack, default=0) > (
            self.layers
        ):
            raise ValueError(
                f"deepstack {list(self.deepstack)} must be numbers of layers in rising order, from "
                f"1 to {self.layers}"
            )
        return self

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, values: Any) -> Any:
        return default_head_dim(values) if isinstance(values, dict) else values

    @property
    def layer_kinds(self) -> tuple[LayerKind, ...]:
        """Mask and rotary positions of every layer of a period."""
        return (LayerKind(MaskKind(causal=False)),)

    def shrink(self, plans: Sequence[ParallelPlan], runs: Sequence[int]) -> dict[str, Any]:
        """See `ModuleConfig.shrink`; its inputs are the smallest."""
        # At most as many layers as the backbone and each of its chunks have.
        deepstack = range(1, min(len(self.deepstack), 2) + 1)
        return super().shrink(plans, runs) | {"deepstack": deepstack} | self.smallest

    def shrink_edge(self, plans: Sequence[ParallelPlan]) -> dict[str, Any]:
        """See `ModuleConfig.shrink_edge`; it has the connector."""
        connector = self.connector.model_dump(mode="json")
        if self.connector.kind == "mlp":
            connector["hidden"] = math.lcm(8, common_multiple(plans, "tensor", "fsdp"))
        return {"connector": connector}

    @property
    def stack(self) -> int:
        """Encoder outputs joined by the connector into one."""
        stack = self.connector.stack
        return stack if isinstance(stack, int) else math.prod(stack)

    @property
    def connected(self) -> int:
        """Input width of the connector's first linear layer."""
        return self.d_model * (1 if self.connector.kind == "average" else self.stack)

    @property
    def outputs_class_token(self) -> bool:
        """Whether the first output of every medium is that of its class token."""
        return False

    @property
    def sample_outputs(self) -> tuple[str, ...]:
        """See `ModuleConfig.sample_outputs`."""
        return ("class_token", "mean") if self.outputs_class_token else ("mean",)

    @property
    def tile_outputs(self) -> tuple[int, int] | None:
        """Rows and columns of a tile's outputs; None for media that are not cut into tiles."""
        return None

    @property
    def tile_inputs(self) -> int:
        """Input positions of a tile; 0 for media that are not cut into tiles."""
        return math.prod(self.tile_outputs) * self.reduction if self.tile_outputs else 0

    @property
    def released_name(self) -> str:
        """Name of such encoders in configurations of released models."""
        return self.family

    @property
    @abstractmethod
    def media_kind(self) -> str:
        """The kind of media that the encoder is for."""

    @property
    @abstractmethod
    def features(self) -> int:
        """Values of an input position."""

    @abstractmethod
    def usual_row(self, media: int) -> int:
        """Input positions of a row to begin with, whole outputs: `media` media of full size, or one
        that is cut into most tiles."""

    @property
    @abstractmethod
    def stem_flops(self) -> float:
        """FLOPs of products before the layers, per input position."""

    @property
    def mlp_flops(self) -> float:
        """See `ModuleConfig.mlp_flops`."""
        return 2 * self.products * self.d_model * self.d_ff

    def end_flops(self, outputs: int) -> float:
        """FLOPs of the connectors, per input position."""
        if not outputs:
            return 0.0
        products = self.connected * outputs
        if self.connector.kind == "mlp":
            products = (self.connector.hidden or outputs) * (self.connected + outputs)
        return (1 + len(self.deepstack)) * 2 * products / self.reduction

    def end_elements(self, outputs: int) -> elements.Elements:
        """Elements of the connector, and of those of `deepstack` with their norms."""
        if not outputs:
            return elements.Elements()
        one, norm = self._connector_elements(outputs), elements.norm(self.d_model, layer_norm=True)
        return sum((one + norm for _ in self.deepstack), one)

    def _connector_elements(self, outputs: int) -> elements.Elements:
        connector, inputs = self.connector, self.connected
        if connector.kind == "mlp":
            return elements.mlp(inputs, connector.hidden or outputs, outputs, connector.bias)
        return elements.dense(((None, inputs),), (("embed", outputs),), connector.bias)

    def end_part(self, name: str) -> str:
        """See `ModuleConfig.end_part`; it is the connector."""
        return f"{name}.connector"

    def mlp_layers(self, name: str) -> Iterator[LinearLayer]:
        """See `ModuleConfig.mlp_layers`."""
        width, hidden = single_dim("embed", self.d_model), single_dim("mlp", self.d_ff)
        return two_layers(name, "layers.mlp", width, hidden, width)

    def end_layers(self, name: str, outputs: int) -> Iterator[LinearLayer]:
        """Those of the connector, and of those of `deepstack`."""
        connector, connected, width = self.connector, self.connected, single_dim("embed", outputs)
        hidden = single_dim("mlp", connector.hidden or outputs)
        blocks = ["connector", *(f"deepstack{number}" for number in range(len(self.deepstack)))]
        for block in blocks:
            if connector.kind == "mlp":
                yield from two_layers(name, block, single_dim("embed", connected), hidden, width)
            else:
                yield make_layer(name, f"{block}.linear", single_dim(None, connected), width)

    def edge_requirements(self, target: str, width: int) -> tuple[PlanRequirement, ...]:
        """See `ModuleConfig.edge_requirements`; connectors divide their widths."""
        outputs = PlanRequirement(f"{target} d_model", width, "fsdp")
        if self.connector.kind != "mlp":
            return (outputs,)
        hidden = self.connector.hidden or width
        return (outputs, PlanRequirement("connector.hidden", hidden, "tensor"))


class ImageEncoderConfig(EncoderConfig):
    """Keys of vision transformers.

    Args:
        patch: height and width of a patch in pixels.
        channels: 1 (grey) or 3 (RGB).
        grid: rows and columns of the learned position grid; other image sizes interpolate it.
        tiles: how images are cut into tiles; null: they are encoded as they are.
    """

    smallest: ClassVar[dict[str, Any]] = {"patch": [2, 2]}

    patch: Size
    channels: Literal[1, 3] = 3
    grid: Size
    tiles: TilesConfig | None = None

    @model_validator(mode="after")
    def _whole_tiles(self) -> ImageEncoderConfig:
        if self.tiles is None:
            return self
        if self.class_tokens != "none":
            raise ValueError(
                "tiles of encoders with a class token are not supported; valid: tiles null, or "
                "an encoder without one, e.g. siglip"
            )
        for pixels, patch, block in zip(self.tiles.pixels, self.patch, self.block, strict=True):
            if pixels < patch or pixels // patch % block:
                raise ValueError(
                    f"tiles.pixels: {list(self.tiles.pixels)} in patches of {list(self.patch)} "
                    f"pixels are no whole blocks of {list(self.block)}, which connector.stack joins"
                )
        return self

    @model_validator(mode="after")
    def _check_blocks(self) -> ImageEncoderConfig:
        stack = self.connector.stack
        if isinstance(stack, int) and stack != 1:
            raise ValueError(
                f"connector.stack {stack} of an image encoder must be a block of patches, "
                f"[rows, columns], for example [{stack}, 1] or [1, {stack}]"
            )
        if not isinstance(stack, int) and min(stack) < 1:
            raise ValueError(f"connector.stack {list(stack)} must be at least [1, 1]")
        return self

    def shrink(self, plans: Sequence[ParallelPlan], runs: Sequence[int]) -> dict[str, Any]:
        """See `ModuleConfig.shrink`; a tile has outputs of one row and two columns."""
        small, (rows, columns) = super().shrink(plans, runs), self.block
        pixels = 2 * rows, 4 * columns
        return small | ({"tiles": {"pixels": pixels, "pinpoints": [pixels]}} if self.tiles else {})

    @property
    def media_kind(self) -> str:
        """See `EncoderConfig.media_kind`."""
        return "image"

    @property
    def released_name(self) -> str:
        """See `EncoderConfig.released_name`."""
        return "vision"

    def usual_row(self, media: int) -> int:
        """See `EncoderConfig.usual_row`."""
        if self.tiles:
            area = max(height * width for height, width in self.tiles.pinpoints)
            return (1 + area // math.prod(self.tiles.pixels)) * self.tile_inputs
        patches = math.prod(self.grid) + (self.class_tokens != "none")
        return media * -(-patches // self.reduction) * self.reduction

    @property
    def block(self) -> tuple[int, int]:
        """Rows and columns of patches that the connector joins."""
        stack = self.connector.stack
        return (1, 1) if isinstance(stack, int) else stack

    @property
    def class_tokens(self) -> Literal["none", "dropped", "kept"]:
        """Whether every image has a class token, and whether its output is merged."""
        return "none"

    @property
    def outputs_class_token(self) -> bool:
        """See `EncoderConfig.outputs_class_token`."""
        return self.class_tokens == "kept"

    @property
    def tile_outputs(self) -> tuple[int, int] | None:
        """Rows and columns of a tile's outputs; pixels beyond whole blocks are not seen."""
        if self.tiles is None:
            return None
        (height, width), (rows, columns) = self.tiles.pixels, self.block
        return height // self.patch[0] // rows, width // self.patch[1] // columns

    @property
    def features(self) -> int:
        """Values per patch: height x width x channels."""
        return math.prod(self.patch) * self.channels

    @property
    def stem_flops(self) -> float:
        """FLOPs of patches and positions: the interpolation of learned positions is a product."""
        return 2 * self.d_model * (self.features + math.prod(self.grid))

    def stem_elements(self, bias: bool = True, class_token: bool = False) -> elements.Elements:
        """Elements of the patches' layer, of the learned positions and of the class token."""
        patches = elements.dense(((None, self.features),), (("embed", self.d_model),), bias)
        entries = math.prod(self.grid) + class_token
        total = patches + elements.table(entries, None, self.d_model)
        return total + elements.vector(self.d_model) if class_token else total

    def attention_elements(self, biases: str, qk_norm: bool = False) -> elements.Elements:
        """Elements of a layer's attention, see `elements.attention`."""
        heads = self.heads, self.heads, self.head_dim
        return elements.attention(self.d_model, *heads, biases, qk_norm)


class AudioEncoderConfig(EncoderConfig):
    """Keys of encoders of log-mel frames.

    Args:
        mels: mel bands per frame.
        lookahead: frames after a clip that convolutions read as well.
    """

    smallest: ClassVar[dict[str, Any]] = {"mels": 4}

    mels: int = Field(80, gt=0)
    lookahead: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _check_frames(self) -> AudioEncoderConfig:
        if not isinstance(self.connector.stack, int):
            raise ValueError(
                f"connector.stack {list(self.connector.stack)} of an audio encoder must be a "
                f"number of frames, for example {math.prod(self.connector.stack)}"
            )
        return self

    @property
    def media_kind(self) -> str:
        """See `EncoderConfig.media_kind`."""
        return "audio"

    @property
    def released_name(self) -> str:
        """See `EncoderConfig.released_name`."""
        return "audio"

    def usual_row(self, media: int) -> int:
        """See `EncoderConfig.usual_row`; a clip of any length has half a minute."""
        return media * (self.longest or FRAMES) // self.reduction * self.reduction

    @property
    def features(self) -> int:
        """Values per frame."""
        return self.mels

    @property
    def longest(self) -> int | None:
        """Number of frames of the longest clip; None if every length has positions."""
        return None
