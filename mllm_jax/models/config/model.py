"""Typed configuration of the models.

Impossible values are refused here, when the configuration is loaded. The sizes that a parallel plan
must divide are listed by `DecoderConfig.requirements` and its siblings, so that the caller can name
the valid degrees.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from mllm_jax.models.config import elements
from mllm_jax.models.config.decoder import DecoderConfig
from mllm_jax.models.config.elements import Elements
from mllm_jax.models.config.encoder import (
    Activation,
    AudioEncoderConfig,
    ConnectorConfig,
    ImageEncoderConfig,
)
from mllm_jax.models.config.parts import Section
from sharding.plan import Requirement

__all__ = [
    "CONVOLUTION",
    "Activation",
    "AudioEncoderConfig",
    "Backend",
    "ClipConfig",
    "ConnectorConfig",
    "DecoderConfig",
    "EncoderConfig",
    "ImageEncoderConfig",
    "ModelConfig",
    "SiglipConfig",
    "Vit22bConfig",
    "WhisperConfig",
]

#: Taps of Whisper's convolutions.
CONVOLUTION = 3

Backend = Literal["auto", "reference", "windowed", "cudnn", "pallas_gpu", "splash"]


class SiglipConfig(ImageEncoderConfig):
    """SigLIP's vision transformer (arXiv 2303.15343) without its pooling head.

    Args:
        antialias: whether positions are averaged where an image has fewer patches than the learned
            grid, as in SigLIP 2's NaFlex (arXiv 2502.14786); else they are interpolated.
        final_norm: whether there is a norm behind the last layer; LLaVA-OneVision has none.
    """

    family: Literal["siglip"]
    norm_eps: float = Field(1e-6, gt=0)
    antialias: bool = False
    final_norm: bool = True

    @property
    def layer_elements(self) -> Elements:
        """Elements of two LayerNorms, attention and MLP, with all biases."""
        parts = self.attention_elements("qkvo"), elements.mlp(self.d_model, self.d_ff, self.d_model)
        return sum(parts, elements.norm(2 * self.d_model, centred=True))

    @property
    def rest_elements(self) -> Elements:
        """Elements of the patches, positions and, if there is one, the last norm."""
        stem = self.stem_elements()
        return stem + elements.norm(self.d_model, centred=True) if self.final_norm else stem


class ClipConfig(ImageEncoderConfig):
    """CLIP's vision transformer (arXiv 2103.00020): a class token, and a norm before the layers.

    The outputs of the last layer go to the connector without a norm, as in LLaVA. LLaVA reads an
    earlier layer of the released model than the last, so `layers` is smaller there.

    Args:
        activation: activation of the MLP.
        class_token: whether the output of the class token is `dropped`, or `kept` and lands before
            those of the patches.
    """

    family: Literal["clip"]
    norm_eps: float = Field(1e-5, gt=0)
    activation: Activation = "quick_gelu"
    class_token: Literal["dropped", "kept"] = "dropped"

    @model_validator(mode="after")
    def _whole_blocks(self) -> ClipConfig:
        if self.class_token == "kept" and self.stack > 1:
            raise ValueError(
                f"class_token kept is no block of patches, which connector.stack {self.block} "
                "joins; valid: class_token dropped, or connector.stack [1, 1]"
            )
        return self

    @property
    def class_tokens(self) -> Literal["none", "dropped", "kept"]:
        """Whether every image has a class token, and whether its output lands."""
        return self.class_token

    @property
    def layer_elements(self) -> Elements:
        """Elements of two LayerNorms, attention and MLP, with all biases."""
        parts = self.attention_elements("qkvo"), elements.mlp(self.d_model, self.d_ff, self.d_model)
        return sum(parts, elements.norm(2 * self.d_model, centred=True))

    @property
    def rest_elements(self) -> Elements:
        """Elements of patches without a bias, positions, class token and the first norm."""
        stem = self.stem_elements(bias=False, class_token=True)
        return stem + elements.norm(self.d_model, centred=True)


class Vit22bConfig(ImageEncoderConfig):
    """ViT-22B (arXiv 2302.05442): parallel attention and MLP, normalised queries and keys."""

    #: Attention and MLP share one gather and one scatter.
    blocks: ClassVar[int] = 1

    family: Literal["vit22b"]
    norm_eps: float = Field(1e-6, gt=0)

    @property
    def layer_elements(self) -> Elements:
        """Elements of RMSNorm, attention with norms of queries and keys but no biases, and MLP."""
        parts = (
            self.attention_elements("", qk_norm=True),
            elements.mlp(self.d_model, self.d_ff, self.d_model),
        )
        return sum(parts, elements.norm(self.d_model, centred=False))

    @property
    def rest_elements(self) -> Elements:
        """Elements of the patches, positions and the last norm."""
        return self.stem_elements() + elements.norm(self.d_model, centred=False)


class WhisperConfig(AudioEncoderConfig):
    """Whisper's audio encoder (arXiv 2212.04356): two convolutions, then a transformer.

    Args:
        strides: strides of the two convolutions.
        max_positions: number of rows of a table of positions, which is loaded with released
            weights and never trained; it bounds the length of clips behind the convolutions. null:
            sinusoids of any length.
    """

    family: Literal["whisper"]
    strides: tuple[Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)]] = (1, 2)
    norm_eps: float = Field(1e-5, gt=0)
    max_positions: int | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _even(self) -> WhisperConfig:
        if self.d_model % 2:
            raise ValueError(f"d_model {self.d_model} must be even for sinusoidal positions")
        return self

    @property
    def stride(self) -> int:
        """Input frames per position of the transformer."""
        return math.prod(self.strides)

    @property
    def longest(self) -> int | None:
        """Number of frames of the longest clip; None if every length has positions."""
        return None if self.max_positions is None else self.max_positions * self.stride

    @property
    def stem_flops(self) -> float:
        """FLOPs of both convolutions, per frame."""
        first = 2 * CONVOLUTION * self.mels * self.d_model / self.strides[0]
        return first + 2 * CONVOLUTION * self.d_model**2 / self.stride

    @property
    def layer_elements(self) -> Elements:
        """Elements of two LayerNorms, attention without a bias on k, and MLP."""
        heads = self.heads, self.heads, self.head_dim
        parts = (
            elements.attention(self.d_model, *heads, "qvo"),
            elements.mlp(self.d_model, self.d_ff, self.d_model),
        )
        return sum(parts, elements.norm(2 * self.d_model, centred=True))

    @property
    def rest_elements(self) -> Elements:
        """Elements of both convolutions, the last norm and any table of positions."""
        channels, taps = self.d_model, (None, CONVOLUTION)
        between: elements.Dims = (("mlp", channels),)
        first = elements.dense((taps, (None, self.mels)), between, bias=True)
        second = elements.dense((taps, *between), (("embed", channels),), bias=True)
        own = first + second + elements.norm(channels, centred=True)
        entries = self.max_positions
        return own if entries is None else own + elements.table(entries, None, channels)

    def requirements(self, d_decoder: int) -> tuple[Requirement, ...]:
        """The shared requirements; tensor must also divide the channels of the convolutions."""
        channels = Requirement("d_model", self.d_model, "tensor")
        return (channels, *super().requirements(d_decoder))


EncoderConfig = Annotated[
    SiglipConfig | ClipConfig | Vit22bConfig | WhisperConfig, Field(discriminator="family")
]


class ModelConfig(Section):
    """The whole model.

    Args:
        encoders: name of each encoder (chosen freely; it also names the encoder's parallel plan and
            budget, unless the encoder has `lanes`) to its configuration.
        dtype: data type of activations; `auto` = bfloat16 on accelerators, float32 on CPU.
            Parameters, statistics and losses are always float32.
        attention: implementation, see `models.attention.dispatch`; `auto` picks by platform.
        remat: values that the backward recomputes: `none` nothing, `layer` each layer from its
            input, `full` a whole tower, or a pipeline stage's chunk of it, from its input.
        loss_chunk: number of tokens whose logits exist at a time.
        pretrained: source of the initial parameters, which are random without it: the folder of a
            released checkpoint of the whole model; or for each part (`decoder`, `decoder.extra` if
            there are extra tokens, `<encoder>`, `<encoder>.connector`) a folder, or null for random
            values. Keys of these modules that the section leaves out come from their `config.json`.
    """

    decoder: DecoderConfig
    encoders: dict[str, EncoderConfig] = Field({})
    pretrained: str | dict[str, str | None] | None = None
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    attention: Backend = "auto"
    remat: Literal["none", "layer", "full"] = "layer"
    loss_chunk: int = Field(1024, gt=0)

    @model_validator(mode="after")
    def _newline(self) -> ModelConfig:
        for name, encoder in self.encoders.items():
            if encoder.tile_inputs and not self.decoder.extra_tokens:
                raise ValueError(
                    f"encoders.{name}.tiles need a newline token: set decoder.extra_tokens to 1"
                )
        return self

    @model_validator(mode="after")
    def _whole_pretrained(self) -> ModelConfig:
        if isinstance(self.pretrained, dict) and {*self.pretrained} != {*self.parts}:
            raise ValueError(
                f"pretrained is given for {', '.join(self.pretrained) or 'nothing'}; valid: a "
                f"folder, or null, for each of {', '.join(self.parts)}"
            )
        return self

    @model_validator(mode="after")
    def _own_names(self) -> ModelConfig:
        taken = ["decoder", *self.encoders]
        for name, encoder in self.encoders.items():
            for lane in encoder.lanes:
                if lane in taken:
                    raise ValueError(
                        f"encoders.{name}.lanes.{lane}: the name is taken; valid: a name "
                        f"other than {', '.join(taken)}"
                    )
                taken.append(lane)
        return self

    @property
    def lanes(self) -> dict[str, str]:
        """The encoder whose parameters a lane uses, by the name of the lane.

        An encoder without `lanes` has one, of its own name.
        """
        encoders = self.encoders.items()
        return {lane: name for name, encoder in encoders for lane in encoder.lanes or (name,)}

    def encoder(self, lane: str) -> EncoderConfig:
        """Configuration of the encoder that has a lane."""
        return self.encoders[self.lanes[lane]]

    @model_validator(mode="after")
    def _layers_with_inputs(self) -> ModelConfig:
        for name, encoder in self.encoders.items():
            if len(encoder.deepstack) > self.decoder.layers:
                raise ValueError(
                    f"encoders.{name}.deepstack {list(encoder.deepstack)} has more layers than the "
                    f"decoder; valid: at most {self.decoder.layers}"
                )
            if encoder.deepstack and self.sources[f"{name}.connector"] is not None:
                raise ValueError(
                    f"encoders.{name}.deepstack {list(encoder.deepstack)} has connectors that no "
                    f"released model has; valid: pretrained null for {name}.connector, or "
                    "deepstack []"
                )
        return self

    @property
    def layer_inputs(self) -> int:
        """First layers of the decoder behind which outputs of encoders are added."""
        return max((len(encoder.deepstack) for encoder in self.encoders.values()), default=0)

    @property
    def parts(self) -> tuple[str, ...]:
        """`decoder`, its extra tokens if any, and of every encoder it and its connector.

        They are called `decoder.extra`, `<encoder>` and `<encoder>.connector`.
        """
        extra = ("decoder.extra",) if self.decoder.extra_tokens else ()
        connectors = (f"{name}.connector" for name in self.encoders)
        return ("decoder", *extra, *self.encoders, *connectors)

    @property
    def sources(self) -> dict[str, str | None]:
        """Folder of the initial parameters, by part."""
        if isinstance(self.pretrained, dict):
            return self.pretrained
        return dict.fromkeys(self.parts, self.pretrained)

    def dtype_on(self, platform: str) -> str:
        """`dtype`, with `auto` settled for `cpu`, `gpu` or `tpu`."""
        if self.dtype != "auto":
            return self.dtype
        return "float32" if platform == "cpu" else "bfloat16"

    def requirements(self, module: str) -> tuple[Requirement, ...]:
        """Sizes that the plan of `module` ("decoder" or the name of a lane) must divide."""
        if module == "decoder":
            return self.decoder.requirements()
        return self.encoder(module).requirements(self.decoder.d_model)
