"""A decoder with positions on three axes, and layers of two kinds whose masks have every field."""

from __future__ import annotations

from typing import Any

from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.kinds import LayerKind, MaskKind, RotarySpec
from mllm_jax.models.graph import ModelConfig

KINDS = (
    LayerKind(
        MaskKind(window=4, spans=True), RotarySpec(1e4, sections=(2, 1, 1), interleaved=True)
    ),
    LayerKind(MaskKind(chunk=7, spans=True), RotarySpec(1e5, fraction=0.75, sections=(1, 1, 1))),
)


class ThreeAxesConfig(DecoderConfig):
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
    decoder = {**sizes, "vocab": 32, "max_positions": 64}
    values = {"dtype": "float32", "loss_chunk": 8, **changes}
    model = ModelConfig.model_validate({"decoder": decoder, "encoders": encoders or {}, **values})
    return model.model_copy(update={"decoder": ThreeAxesConfig.model_validate(decoder)})
