"""The interface of a family of encoders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from data.batch import ModuleRows
from mllm_jax.layers.modules import LayerContext
from mllm_jax.layers.parameters import Tower


@dataclass(frozen=True)
class EncoderFamily:
    """The computation of an encoder; its configuration tells its cost.

    Attributes:
        tower: makes the blocks from a configuration and an attention backend: `embeddings`,
            `layers` and perhaps `norm`, without the connector.
        embed: a batch to `[rows, positions / shards, d_model]`, as in `patches.embed`.
        context: what the layers read of rows, of a batch and a configuration.
    """

    tower: Callable[[Any, str], Tower]
    embed: Callable[..., jax.Array]
    context: Callable[[ModuleRows, Any], LayerContext]
