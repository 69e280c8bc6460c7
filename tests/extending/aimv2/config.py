"""Typed configuration of AIMv2 (arXiv 2411.14402)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mllm_jax.models.encoder_config import ImageEncoderConfig


class Aimv2Config(ImageEncoderConfig):
    """A vision transformer with RMSNorm and SwiGLU, without biases but for the patches."""

    family: Literal["aimv2"]
    norm_eps: float = Field(1e-5, gt=0)
