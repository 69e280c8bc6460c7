"""Small models for the tests of the train step."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from data.batch import PackedBatch
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.short_form import BACKBONE

#: What Qwen2-Audio has beside Whisper's encoder, for clips of up to 64 frames.
QWEN2_AUDIO = {
    "max_positions": 32,
    "lookahead": 2,
    "connector": {"kind": "average", "stack": 2},
}
VISION = {"layers": 2, "d_model": 16, "heads": 2, "d_ff": 16, "patch": [2, 2], "channels": 1}


def small_model(
    decoder: str = "llama",
    vision: str = "siglip",
    experts: dict[str, Any] | None = None,
    **changes: Any,
) -> ModelConfig:
    """Three towers of the named families, as narrow as degrees up to 8 allow.

    Beside CLIP the audio encoder is Qwen2-Audio's.

    Args:
        experts: section of the decoder, of families that have experts.
    """
    return ModelConfig.model_validate(
        {
            "decoder": {
                "family": decoder,
                "layers": 2,
                "d_model": 16,
                "heads": 8 if decoder == "gpt" else 16,  # grouped heads where there are any
                "kv_heads": 8 if decoder == "gpt" else 2,
                "head_dim": 4,
                "d_ff": 16,
                "experts": experts,
                "vocab": 31,  # padded wherever it is split
                "max_positions": 32,
            },
            "encoders": {
                "vision": VISION
                | {
                    "family": vision,
                    "grid": [2, 4],
                    "heads": 8,
                    "head_dim": 4,
                    "connector": {"hidden": 16, "stack": [1, 2]},
                },
                "audio": {
                    "family": "whisper",
                    "layers": 2,
                    "d_model": 16,
                    "heads": 8,
                    "head_dim": 4,
                    "d_ff": 16,
                    "mels": 4,
                    "connector": {"hidden": 16, "stack": 2},
                }
                | (QWEN2_AUDIO if vision == "clip" else {}),
            },
            "dtype": "float32",
            "attention": "reference",
            "remat": "layer",
            "loss_chunk": 16,
        }
        | changes
    )


def without_media(batch: PackedBatch, buckets: Collection[str]) -> PackedBatch:
    """The batch without the media of some buckets; their inputs are as they were."""
    merges, places = dict(batch.text_rows.merges), dict(batch.places or {})
    rows = dict(batch.rows)
    for name in buckets:
        rows[name] = replace(rows[name], segment_ids=np.zeros_like(rows[name].segment_ids))
        merges[name] = np.full_like(merges[name], -1)
        places[name] = places[name][:0]
    rows[BACKBONE] = replace(batch.text_rows, merges=merges)
    return replace(batch, rows=rows, places=places)
