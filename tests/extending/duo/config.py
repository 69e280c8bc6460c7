"""Typed configuration of the decoder."""

from __future__ import annotations

from typing import Literal

from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.kinds import RotarySpec


class DuoConfig(DecoderConfig):
    """A decoder with positions on three axes: time, row and column.

    Args:
        family: `duo` (llama with positions on three axes).
    """

    family: Literal["duo"]

    @property
    def rotary(self) -> RotarySpec:
        """A quarter of the frequencies turns with time, the others with rows and columns."""
        count = self.head_dim // 2
        time = count // 4
        row = (count - time) // 2
        sections = time, row, count - time - row
        return RotarySpec(self.rope_theta, self.rope_scaling, sections=sections)

    @property
    def position_writer(self) -> str:
        """See `DecoderConfig`."""
        return f"{__package__}.processor:write_positions"
