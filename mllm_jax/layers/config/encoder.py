"""Typed configuration that encoders of all families share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from mllm_jax.layers.config import elements
from mllm_jax.layers.config.connector import ConnectorConfig
from mllm_jax.layers.config.kinds import LayerKind, MaskKind
from mllm_jax.layers.config.linear import LinearLayer, single_dim, two_layers
from mllm_jax.layers.config.module import ModuleConfig
from mllm_jax.layers.config.parts import Size, TilesConfig, default_head_dim
from sharding.plan import ParallelPlan

#: Frames of half a minute.
FRAMES = 3000


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
        remat: values that the backward of this encoder recomputes, one of `none`, `layer` and
            `full`; null: as `model.remat` says.
    """

    #: Products of a layer's MLP; three where it is gated.
    products: ClassVar[int] = 2
    #: The smallest inputs, for verification.
    smallest: ClassVar[dict[str, Any]] = {}

    buckets: dict[str, Annotated[int, Field(gt=0)] | Literal["auto"] | None] = Field({})
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
        return super().shrink(plans, runs) | self.smallest

    def shrink_tiles(self, connector: ConnectorConfig) -> dict[str, Any]:
        """Values of small tiles, of outputs as a connector joins them; none without tiles."""
        del connector
        return {}

    def check_connector(self, connector: ConnectorConfig) -> None:
        """Check that the outputs can be joined as a connector joins them.

        Raises:
            ValueError: they cannot.
        """

    @property
    def outputs_class_token(self) -> bool:
        """Whether the first output of every medium is that of its class token."""
        return False

    @property
    def sample_outputs(self) -> tuple[str, ...]:
        """See `ModuleConfig.sample_outputs`."""
        return ("class_token", "mean") if self.outputs_class_token else ("mean",)

    def tile_outputs(self, connector: ConnectorConfig) -> Size | None:
        """Rows and columns of a tile's outputs; None for media that are not cut into tiles."""
        del connector
        return None

    def tile_inputs(self, connector: ConnectorConfig) -> int:
        """Input positions of a tile; 0 for media that are not cut into tiles."""
        outputs = self.tile_outputs(connector)
        return math.prod(outputs) * self.reduction(connector) if outputs else 0

    def reduction(self, connector: ConnectorConfig) -> int:
        """Input positions per output."""
        return self.stride * connector.joined

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
    def usual_row(self, media: int, connector: ConnectorConfig) -> int:
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

    def mlp_layers(self, name: str) -> Iterator[LinearLayer]:
        """See `ModuleConfig.mlp_layers`."""
        width, hidden = single_dim("embed", self.d_model), single_dim("mlp", self.d_ff)
        return two_layers(name, "layers.mlp", width, hidden, width)


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
    def _check_tiles(self) -> ImageEncoderConfig:
        if self.tiles and self.class_tokens != "none":
            raise ValueError(
                "tiles of encoders with a class token are not supported; valid: tiles null, or "
                "an encoder without one, e.g. siglip"
            )
        return self

    def check_connector(self, connector: ConnectorConfig) -> None:
        """See `EncoderConfig.check_connector`; patches are joined in blocks, of whole tiles."""
        stack = connector.stack
        if isinstance(stack, int) and stack != 1:
            raise ValueError(
                f"connector.stack {stack} of an image encoder must be a block of patches, "
                f"[rows, columns], for example [{stack}, 1] or [1, {stack}]"
            )
        if min(connector.block) < 1:
            raise ValueError(f"connector.stack {list(connector.block)} must be at least [1, 1]")
        if self.tiles is None:
            return
        for pixels, patch, block in zip(
            self.tiles.pixels, self.patch, connector.block, strict=True
        ):
            if pixels < patch or pixels // patch % block:
                raise ValueError(
                    f"tiles.pixels: {list(self.tiles.pixels)} in patches of {list(self.patch)} "
                    f"pixels are no whole blocks of {list(connector.block)}, which connector.stack "
                    "joins"
                )

    def shrink_tiles(self, connector: ConnectorConfig) -> dict[str, Any]:
        """See `EncoderConfig.shrink_tiles`; a tile has outputs of one row and two columns."""
        rows, columns = connector.block
        pixels = 2 * rows, 4 * columns
        return {"tiles": {"pixels": pixels, "pinpoints": [pixels]}} if self.tiles else {}

    @property
    def media_kind(self) -> str:
        """See `EncoderConfig.media_kind`."""
        return "image"

    @property
    def released_name(self) -> str:
        """See `EncoderConfig.released_name`."""
        return "vision"

    def usual_row(self, media: int, connector: ConnectorConfig) -> int:
        """See `EncoderConfig.usual_row`."""
        if self.tiles:
            area = max(height * width for height, width in self.tiles.pinpoints)
            return (1 + area // math.prod(self.tiles.pixels)) * self.tile_inputs(connector)
        patches = math.prod(self.grid) + (self.class_tokens != "none")
        reduction = self.reduction(connector)
        return media * -(-patches // reduction) * reduction

    @property
    def class_tokens(self) -> Literal["none", "dropped", "kept"]:
        """Whether every image has a class token, and whether its output is merged."""
        return "none"

    @property
    def outputs_class_token(self) -> bool:
        """See `EncoderConfig.outputs_class_token`."""
        return self.class_tokens == "kept"

    def tile_outputs(self, connector: ConnectorConfig) -> Size | None:
        """Rows and columns of a tile's outputs; pixels beyond whole blocks are not seen."""
        if self.tiles is None:
            return None
        (height, width), (rows, columns) = self.tiles.pixels, connector.block
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

    def check_connector(self, connector: ConnectorConfig) -> None:
        """See `EncoderConfig.check_connector`; frames are joined by their number."""
        if not isinstance(connector.stack, int):
            raise ValueError(
                f"connector.stack {list(connector.stack)} of an audio encoder must be a "
                f"number of frames, for example {connector.joined}"
            )

    @property
    def media_kind(self) -> str:
        """See `EncoderConfig.media_kind`."""
        return "audio"

    @property
    def released_name(self) -> str:
        """See `EncoderConfig.released_name`."""
        return "audio"

    def usual_row(self, media: int, connector: ConnectorConfig) -> int:
        """See `EncoderConfig.usual_row`; a clip of any length has half a minute."""
        reduction = self.reduction(connector)
        return media * (self.longest or FRAMES) // reduction * reduction

    @property
    def features(self) -> int:
        """Values per frame."""
        return self.mels

    @property
    def longest(self) -> int | None:
        """Number of frames of the longest clip; None if every length has positions."""
        return None
