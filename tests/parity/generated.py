"""Answers that transformers generates greedily, with its cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tests.parity.checkpoint import Checkpoint, Tensors, write_arrays

#: Tokens of an answer; no token ends it sooner.
TOKENS = 16
#: Smallest difference of the two largest logits by which one is larger, whatever computes them.
CLEAR = 1e-4


def save_generated(checkpoint: Checkpoint, model: Any, prompts: Mapping[str, Tensors]) -> None:
    """Write `generated.npz`: the tokens that follow each prompt.

    Args:
        prompts: inputs of the model by name, each of one prompt.

    Raises:
        ValueError: two tokens are as likely as each other.
    """
    found = {f"{name}.tokens": tokens_of(model, inputs) for name, inputs in prompts.items()}
    write_arrays(checkpoint.folder / "generated.npz", found)


def tokens_of(model: Any, inputs: Tensors) -> torch.Tensor:
    """The `TOKENS` tokens that follow a prompt. Raises ValueError, see `save_generated`."""
    model.generation_config.eos_token_id = None
    made = model.generate(
        **inputs,
        max_new_tokens=TOKENS,
        do_sample=False,
        use_cache=True,
        pad_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
    )
    for logits in made.logits:
        first, second = logits[0].float().topk(2).values.tolist()
        if first - second < CLEAR:
            raise ValueError(f"{type(model).__name__}: {first} and {second} are too close")
    return made.sequences[0, -TOKENS:]
