"""A comparison of an export's logits in this framework and in the public implementation.

python -m tests.parity.exported llava_onevision FOLDER

runs the stored conversations of a whole family of `tests/parity` through both, in float32, and
tells the largest difference of the logits, relative to the largest. Needs the extra `parity`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch
import transformers

from mllm_jax.layers import transformer as decoder
from mllm_jax.models.model_config import ModelConfig
from sharding.grid import MeshView
from tests.models import towers
from tests.models.pretrained.conversations import example, packed
from tests.models.pretrained.stored import LIMIT, ROOT, imported_from
from tests.models.pretrained.test_parity_whole import BUDGETS

#: Arguments of the public implementation among what is stored of a conversation.
ARGUMENTS = (
    *("input_ids", "pixel_values", "image_sizes", "batch_num_images"),
    *("input_features", "feature_attention_mask"),
)
#: Of these, integers.
WHOLE = {"input_ids", "image_sizes", "batch_num_images"}


def main() -> int:
    """Compare, and tell; 0 if they agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", choices=sorted(BUDGETS))
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    config, params, _ = imported_from(args.folder)
    names = ("AutoModelForImageTextToText", "AutoModelForMultimodalLM", "AutoModelForCausalLM")
    kind = next(getattr(transformers, name) for name in names if hasattr(transformers, name))
    if args.family == "qwen2_audio":
        kind = transformers.Qwen2AudioForConditionalGeneration
    model = kind.from_pretrained(args.folder, dtype=torch.float32, attn_implementation="eager")
    inputs = np.load(ROOT / args.family / "inputs.npz")
    chats = [key.split(".")[0] for key in inputs if key.endswith(".input_ids")]
    chats.remove("batch")
    worst = 0.0
    for chat in chats:
        found = theirs(model, inputs, chat)
        own = ours(config, params, args.family, chat)
        error = float(np.abs(own - found).max() / np.abs(found).max())
        worst = max(worst, error)
        sys.stdout.write(f"{chat}: {len(own)} tokens, logits differ by {error:.1e}\n")
    sys.stdout.write(f"at most {worst:.1e}, allowed {LIMIT:.0e}\n")
    return int(worst >= LIMIT)


def present(inputs: Any, chat: str) -> list[str]:
    """Arguments that are stored of a conversation."""
    return [key for key in ARGUMENTS if f"{chat}.{key}" in inputs]


def theirs(model: Any, inputs: Any, chat: str) -> np.ndarray:
    """Logits [tokens, vocabulary] of the public implementation."""
    given = {key: torch.from_numpy(inputs[f"{chat}.{key}"]) for key in present(inputs, chat)}
    for key in WHOLE & given.keys():
        given[key] = given[key].long()
    with torch.no_grad():
        logits = model(**given, attention_mask=torch.ones_like(given["input_ids"])).logits
    return np.asarray(logits[0])


def ours(config: ModelConfig, params: Any, family: str, chat: str) -> np.ndarray:
    """Logits [tokens, vocabulary] of the loaded parameters here."""
    one = example(family, chat, config)
    media = next(iter(one.media.values()), ())
    batch, _ = packed([one], config, BUDGETS[family], [0], [[0] * len(media)])
    (name,), rows = config.encoders, batch.text_rows
    outputs = towers.encode(params[name], name, batch.rows[name], config, MeshView())
    index, flat = rows.merges[name], outputs.reshape(-1, outputs.shape[-1])
    merged = jnp.where((index >= 0)[..., None], flat[index], 0)
    hidden, _ = towers.decode_hidden(params["decoder"], rows, merged, config, MeshView())
    tower = decoder.build_decoder_blocks(config.decoder, "reference")
    terms = decoder.head_terms(tower, params["decoder"], hidden, MeshView())
    logits = sum((x @ kernel for x, kernel in terms), jnp.zeros(()))
    return np.asarray(logits[0, : len(one.tokens)])


if __name__ == "__main__":
    sys.exit(main())
