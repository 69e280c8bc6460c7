"""Typed configuration of the whole model, made of those of its decoder and its encoders.

The classes of a model's configuration refuse impossible values when a configuration is loaded.
`DecoderConfig.requirements` and its siblings list the sizes that a parallel plan must divide, so
that the caller can name the valid degrees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Literal

from pydantic import Field, PrivateAttr, model_validator

from mllm_jax.families.choice import AnyDecoder, AnyEncoder
from mllm_jax.layers.attention.limits import Backend
from mllm_jax.layers.config.adapters import LoraAdapters
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.encoder import EncoderConfig
from mllm_jax.layers.config.linear import LinearLayer, decoder_layers, encoder_layers
from mllm_jax.layers.config.parts import Section
from sharding.plan import PlanRequirement

#: Name of the backbone, and of the section that has all other modules by name.
BACKBONE, ENCODERS = "decoder", "encoders"


class ModelConfig(Section):
    """The whole model.

    Args:
        encoders: name of each encoder (chosen freely; it also names the encoder's parallel plan and
            budget, unless the encoder has `buckets`) to its configuration.
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

    decoder: AnyDecoder
    encoders: dict[str, AnyEncoder] = Field({})
    pretrained: str | dict[str, str | None] | None = None
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    attention: Backend = "auto"
    remat: Literal["none", "layer", "full"] = "layer"
    loss_chunk: int = Field(1024, gt=0)
    _adapters: LoraAdapters | None = PrivateAttr(default=None)

    def __hash__(self) -> int:
        """A hash of the towers' sizes; equality compares the mappings, too, which have none."""
        towers: list[DecoderConfig | EncoderConfig] = [self.decoder, *self.encoders.values()]
        return hash(frozenset((own.family, own.layers, own.d_model) for own in towers))

    @property
    def backbone(self) -> str:
        """The module whose microbatches count the step."""
        return BACKBONE

    @property
    def modules(self) -> dict[str, DecoderConfig | EncoderConfig]:
        """All modules by name, in the order of initial keys and of sums over gradients."""
        others = {name: self.encoders[name] for name in sorted(self.encoders)}
        return {self.backbone: self.decoder, **others}

    @property
    def adapters(self) -> LoraAdapters | None:
        """Adapters beside linear layers, which are no keys of this section: see `train.lora`."""
        return self._adapters

    @property
    def adapted(self) -> tuple[str, ...]:
        """Parts of the model of which adapters alone train."""
        return self._adapters.parts if self._adapters else ()

    def with_adapters(self, targets: Sequence[str], rank: int, scale: float) -> ModelConfig:
        """The same model with adapters of linear layers; see `LoraAdapters.from_targets`.

        Raises:
            AdapterError: a target matches no layer.
        """
        return self.adapted_like(
            LoraAdapters.from_targets(self.linear_layers, targets, rank, scale)
        )

    def adapted_like(self, adapters: LoraAdapters | None) -> ModelConfig:
        """The same model with these adapters, which are of a model of the same layers."""
        if adapters is not None:
            own = [layer for layer in self.linear_layers if layer.name in adapters.names]
            adapters = replace(adapters, layers=tuple(own))
        changed = self.model_copy()
        changed._adapters = adapters
        return changed

    @property
    def linear_layers(self) -> list[LinearLayer]:
        """The linear layers that can have adapters."""
        width = self.decoder.d_model
        encoders = (encoder_layers(name, own, width) for name, own in self.encoders.items())
        return [*decoder_layers(self.decoder), *chain(*encoders)]

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
        taken = [self.backbone, *self.encoders]
        for name, encoder in self.encoders.items():
            if name in (self.backbone, ENCODERS):
                raise ValueError(f"encoders.{name}: the name is taken; valid: any other name")
            for lane in encoder.buckets:
                if lane in taken:
                    raise ValueError(
                        f"encoders.{name}.buckets.{lane}: the name is taken; valid: a name "
                        f"other than {', '.join(taken)}"
                    )
                taken.append(lane)
        return self

    @property
    def lanes(self) -> dict[str, str]:
        """The encoder whose parameters a lane uses, by the name of the lane.

        An encoder without `buckets` has one, of its own name.
        """
        encoders = self.encoders.items()
        return {lane: name for name, encoder in encoders for lane in encoder.buckets or (name,)}

    @property
    def remats(self) -> dict[str, Literal["none", "layer", "full"]]:
        """`remat` of the lanes whose encoder has one of its own."""
        own = {lane: self.encoder(lane).remat for lane in self.lanes}
        return {lane: remat for lane, remat in own.items() if remat is not None}

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
        return (self.backbone, *extra, *self.encoders, *connectors)

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

    def requirements(self, module: str) -> tuple[PlanRequirement, ...]:
        """Sizes that the plan of `module`, the backbone or a lane, must divide."""
        if module == self.backbone:
            return self.decoder.requirements()
        return self.encoder(module).requirements(self.decoder.d_model)
