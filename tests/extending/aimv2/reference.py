"""AIMv2's tower in plain numpy, for one image of the learned grid's size."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.references import Tree, attend, dense, first_layer, gated_mlp, rms


def aimv2(patches: np.ndarray, params: Tree, config: Any) -> np.ndarray:
    """Map patches `[patches, features]` to outputs `[patches, d_model]`."""
    stem, layer, eps = params["embeddings"], first_layer(params), config.norm_eps
    x = rms(dense(patches, stem["patch_embed"]), stem["rms_norm"], eps)
    x = x + stem["position_embedding"][: len(patches)]
    x = x + attend(rms(x, layer["rms_norm1"], eps), layer["attention"], False, eps)
    x = x + gated_mlp(rms(x, layer["rms_norm2"], eps), layer["ffn"])
    return rms(x, params["norm"], eps)
