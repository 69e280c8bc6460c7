"""A decoder with positions on three axes, and encoders, with masks and rotations by layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from data.rows.tokens import TextSpan
from data.sample import Grid
from mllm_jax.families.llama.config import LlamaConfig
from mllm_jax.families.siglip.config import SiglipConfig
from mllm_jax.families.whisper.config import WhisperConfig
from mllm_jax.layers.config.encoder import EncoderConfig
from mllm_jax.layers.config.kinds import LayerKind, MaskKind, RotarySpec
from mllm_jax.models.model_config import ModelConfig

KINDS = (
    LayerKind(
        MaskKind(window=4, spans=True), RotarySpec(1e4, sections=(2, 1, 1), interleaved=True)
    ),
    LayerKind(MaskKind(chunk=5, spans=True), RotarySpec(1e5, fraction=0.75, sections=(1, 1, 1))),
)
#: Lengths of samples of its text, and the spans of their media.
SAMPLES = (
    (13, [TextSpan(2, 6, Grid(1, 3, 2), "image"), TextSpan(9, 2, Grid(2, 1, 1, 0.5), "image")]),
    (10, [TextSpan(0, 4, Grid(1, 2, 2), "image")]),
)


class ThreeAxesConfig(LlamaConfig):
    """A llama whose layers are of `KINDS`."""

    @property
    def layer_kinds(self) -> tuple[LayerKind, ...]:
        return KINDS

    @property
    def period(self) -> int:
        return len(KINDS)

    @property
    def position_writer(self) -> str:
        return "tests.data.rows.three_axes:mrope"


def three_axes(encoders: dict[str, Any] | None = None, **changes: Any) -> ModelConfig:
    """A model with such a decoder of four layers."""
    sizes = {"layers": 4, "d_model": 16, "heads": 4, "kv_heads": 2, "head_dim": 8, "d_ff": 24}
    decoder = {**sizes, "family": "llama", "vocab": 32, "max_positions": 64}
    values = {"dtype": "float32", "loss_chunk": 8, **changes}
    model = ModelConfig.model_validate({"decoder": decoder, "encoders": encoders or {}, **values})
    return model.model_copy(update={"decoder": ThreeAxesConfig.model_validate(decoder)})


class WindowedConfig(SiglipConfig):
    """A siglip whose layers see windows of four patches and chunks of five in turn.

    The first ones turn queries and keys by row and column, the others half of them by row.
    """

    @property
    def layer_kinds(self) -> tuple[LayerKind, ...]:
        half = self.head_dim // 4
        return (
            LayerKind(
                MaskKind(causal=False, bounds="window_ids"),
                RotarySpec(1e4, sections=(half, half), interleaved=True),
            ),
            LayerKind(MaskKind(causal=False, chunk=5), RotarySpec(1e2, fraction=0.5)),
        )

    @property
    def bound_sizes(self) -> Mapping[str, int]:
        return {"window_ids": 4}


class WindowedAudioConfig(WhisperConfig):
    """A whisper whose layers see windows of four positions and chunks of five in turn.

    A position is two frames. The first layers turn queries and keys as well.
    """

    @property
    def layer_kinds(self) -> tuple[LayerKind, ...]:
        return (
            LayerKind(MaskKind(causal=False, bounds="window_ids"), RotarySpec(1e4)),
            LayerKind(MaskKind(causal=False, chunk=5)),
        )

    @property
    def bound_sizes(self) -> Mapping[str, int]:
        return {"window_ids": 4}


def windowed(plain: ModelConfig) -> ModelConfig:
    """The same model, whose encoder `media` has two layers, of two kinds."""
    values = plain.encoders["media"].model_dump() | {"layers": 2}
    kinds: dict[str, type[EncoderConfig]] = {
        "siglip": WindowedConfig,
        "whisper": WindowedAudioConfig,
    }
    encoder = kinds[values["family"]].model_validate(values)
    return plain.model_copy(update={"encoders": {"media": encoder}})
