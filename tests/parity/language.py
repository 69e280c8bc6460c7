"""The results of language models: hidden states, logits and the loss of the next tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tests.parity.checkpoint import CLOSE, Tensors


def outputs(model: Any, inputs: Tensors, learnt: torch.Tensor | None = None) -> Tensors:
    """Run a model over right-padded texts; zero at padding.

    Args:
        inputs: of the model; `attention_mask` [rows, tokens] is 0 at padding, ones if not given.
        learnt: [rows, tokens], 1 where a token is a target; `attention_mask` if not given.

    Returns:
        `layer_0` and `hidden` [rows, tokens, d_model], after the first layer and after the last
        norm; `logits` [rows, tokens, vocab]; `nll` [rows, tokens], of the token that follows.
    """
    ids = inputs["input_ids"]
    mask = inputs.get("attention_mask", torch.ones_like(ids))
    found = model(**inputs, output_hidden_states=True, use_cache=False)
    targets = (mask if learnt is None else learnt)[:, 1:]
    logs = found.logits.log_softmax(-1)[:, :-1]
    nll = -logs.gather(-1, ids[:, 1:, None])[..., 0] * targets
    return {
        "layer_0": found.hidden_states[1] * mask[..., None],
        "hidden": found.hidden_states[-1] * mask[..., None],
        "logits": found.logits,
        "nll": torch.nn.functional.pad(nll, (0, 1)),
    }


def check_rows(batch: Tensors, alone: Sequence[Tensors]) -> None:
    """Every row of a batch gives what its text gives alone.

    Raises:
        AssertionError: it does not.
    """
    for row, text in enumerate(alone):
        for name in ("layer_0", "hidden", "nll"):
            expected = text[name][0]
            torch.testing.assert_close(batch[name][row, : len(expected)], expected, **CLOSE)


def packed(texts: Sequence[Tensors], width: int) -> Tensors:
    """Outputs of texts alone, end to end in one row of `width` tokens, zero after them."""
    names = ("hidden", "nll")
    rows = {name: torch.cat([text[name][0] for text in texts]) for name in names}
    return {name: filled(row, width)[None] for name, row in rows.items()}


def filled(values: torch.Tensor, width: int) -> torch.Tensor:
    """`values` [n, ...] with zeros after it, [width, ...]."""
    rest = values.new_zeros((width - len(values), *values.shape[1:]))
    return torch.cat([values, rest])


def last_logits(found: Tensors, lengths: Sequence[int], count: int = 1) -> torch.Tensor:
    """Logits at the last `count` tokens of every row: [rows, count, vocab]."""
    rows = [found["logits"][row, end - count : end] for row, end in enumerate(lengths)]
    return torch.stack(rows)
