"""Attention backends against the reference: outputs and gradients of packed rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from mllm_jax.layers.attention.dispatch import compute_attention
from mllm_jax.layers.attention.masks import TokenIds
from mllm_jax.layers.config.kinds import MaskKind

#: Lengths of the segments of a row of 512 tokens; the last ones are padding.
SEGMENTS = (130, 1, 250, 67, 64)
#: Largest error of bfloat16, whose rounding is 2^-8, over the largest value.
LIMIT = 0.02


@dataclass(frozen=True)
class AttentionCase:
    """Packed rows of bfloat16 for attention.

    Attributes:
        tokens: number of tokens of a row, a multiple of 512.
        heads, kv_heads, width: heads of queries, heads of keys and values, width of a head.
    """

    tokens: int = 512
    heads: int = 8
    kv_heads: int = 4
    width: int = 64

    @property
    def segment_ids(self) -> NDArray[np.int32]:
        """`[2, tokens]`: short and long segments, with padding at the end and at the start."""
        row = np.repeat([1, 2, 3, 4, 0], np.multiply(SEGMENTS, self.tokens // sum(SEGMENTS)))
        return np.stack([row, row[::-1]]).astype(np.int32)

    @property
    def index(self) -> NDArray[np.int32]:
        """`[2, tokens]`: the place of each token in its segment."""
        ids = self.segment_ids
        place = np.arange(self.tokens, dtype=np.int32)
        first = np.pad(ids[:, 1:] != ids[:, :-1], ((0, 0), (1, 0)), constant_values=True)
        return place - np.maximum.accumulate(np.where(first, place, 0), axis=1)

    @property
    def span_ids(self) -> NDArray[np.int32]:
        """`[2, tokens]`: every other run of eight tokens of a segment is a span."""
        number = self.index // 8
        inside = (number % 2 == 1) & (self.segment_ids > 0)
        return np.where(inside, 1 + number + self.tokens * self.segment_ids, 0).astype(np.int32)

    def inputs(self) -> list[jax.Array]:
        """Queries, keys and values, `[2, tokens, heads, width]`."""
        rng = np.random.default_rng(0)
        counts = (self.heads, self.kv_heads, self.kv_heads)
        shapes = [(2, self.tokens, count, self.width) for count in counts]
        return [jnp.asarray(rng.normal(size=shape), jnp.bfloat16) for shape in shapes]

    def make_program(self, backend: str, mask: MaskKind) -> Callable[[list[jax.Array]], Any]:
        """A function of `inputs` that returns the attention's output and the gradients of a test
        loss.

        The test loss reads no outputs of padding.

        Args:
            mask: which tokens of its segment a token sees. With spans, every other run of eight
                tokens is a span.

        Raises:
            AttentionError: the backend cannot run these shapes, or this mask.
        """
        ids = jnp.asarray(self.segment_ids)
        tokens = TokenIds(ids, *map(jnp.asarray, (self.index, self.span_ids)))

        def loss(arrays: list[jax.Array]) -> tuple[jax.Array, jax.Array]:
            q, k, v = arrays
            out = compute_attention(q, k, v, tokens, mask, backend)
            used = out.astype(jnp.float32) * (ids > 0)[:, :, None, None]
            return jnp.sum(jnp.sin(used)), out

        def run_both(arrays: list[jax.Array]) -> tuple[jax.Array, list[jax.Array]]:
            (_, out), gradients = jax.value_and_grad(loss, has_aux=True)(arrays)
            return out, gradients

        return jax.jit(run_both)

    def relative_errors(self, actual: Any, expected: Any) -> tuple[float, float]:
        """Largest error over the largest value, of the outputs and gradients of a `program`.

        Padding, whose values mean nothing, is left out. A value that is not finite is infinitely
        wrong.
        """
        inside = self.segment_ids > 0
        out = _relative_error(actual[0], expected[0], inside)
        pairs = zip(actual[1], expected[1], strict=True)
        return out, max(_relative_error(values, other, inside) for values, other in pairs)


def _relative_error(actual: Any, expected: Any, inside: NDArray[np.bool_]) -> float:
    a, b = (np.asarray(x, np.float32)[inside] for x in (actual, expected))
    if not np.isfinite(a).all():
        return float("inf")
    return float(np.abs(a - b).max() / np.abs(b).max())
