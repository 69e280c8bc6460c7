"""Masks of every field, written pair by pair, and what attention of them is for any backend.

Backends for this machine are compared with them in `test_masks`, those of GPUs in `test_gpu`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mllm_jax.layers.attention import library_kernels
from mllm_jax.layers.attention.blockwise import blockwise_attention
from mllm_jax.layers.attention.cudnn_stand_in import cudnn_stand_in
from mllm_jax.layers.attention.dispatch import STAND_IN
from mllm_jax.layers.attention.masks import to_row_positions
from mllm_jax.layers.attention.pallas_flash import KernelSizes, KernelTile, pallas_flash_attention
from mllm_jax.layers.attention.reference import reference_attention
from mllm_jax.layers.config.kinds import SEGMENT_IDS, MaskKind
from mllm_jax.layers.modules import LayerContext

Attend = Callable[..., jax.Array]

TOKENS = 128
#: Lengths of the segments of the first row; the second row has the second of them alone.
SEGMENTS = (31, 48, 30)
PACKED, SEPARATE = (0, slice(31, 31 + 48)), (1, slice(48))
#: The index at which a span begins, and its end.
SPANS = ((4, 11), (11, 13), (20, 29))
#: Blocks unlike one another and smaller than a row, so that every loop has several.
SIZES = KernelSizes(KernelTile(64, 32, 4, 2), KernelTile(32, 64, 4, 2), KernelTile(32, 128, 4, 2))
#: All backends, those of other platforms interpreted; cuDNN's kernel is replaced by XLA's, which
#: takes the same arguments.
BACKENDS: dict[str, Attend] = {
    "reference": reference_attention,
    "blockwise": partial(blockwise_attention, block=16),
    "cudnn": partial(library_kernels.cudnn_attention, implementation="xla"),
    "pallas_gpu": partial(pallas_flash_attention, interpret=True, sizes=SIZES),
    "splash": partial(library_kernels.splash_attention, interpret=True),
    STAND_IN: cudnn_stand_in,
}
MASKS = (
    MaskKind(),
    MaskKind(causal=False),
    MaskKind(window=1),
    MaskKind(window=9),
    MaskKind(chunk=10),
    MaskKind(causal=False, chunk=10),
    MaskKind(causal=False, bounds="window_ids"),
    MaskKind(window=9, bounds="window_ids"),
    MaskKind(spans=True),
    MaskKind(window=6, chunk=14, spans=True),
)
#: What is compared of a mask.
ARRAYS = ("output", "gradient of queries", "gradient of keys", "gradient of values")


def changed_fields(mask: MaskKind) -> dict[str, Any]:
    """The fields that are not those of a plain causal mask."""
    values = {own.name: getattr(mask, own.name) for own in fields(mask)}
    return {name: value for name, value in values.items() if value != getattr(MaskKind(), name)}


def name_of(mask: MaskKind) -> str:
    """A short name of a case: `window=6 spans=True`."""
    return " ".join(f"{name}={value}" for name, value in changed_fields(mask).items()) or "plain"


def make_context() -> LayerContext:
    """Ids of two rows, and the index of every token."""
    arrays = {name: np.zeros((2, TOKENS), np.int32) for name in ("segments", "index", "spans")}
    starts = (0, *np.cumsum(SEGMENTS)[:-1].tolist())
    placed = [(0, start, n) for start, n in zip(starts, SEGMENTS, strict=True)]
    for number, (row, start, length) in enumerate([*placed, (1, 0, SEGMENTS[1])], 1):
        here = row, slice(start, start + length)
        arrays["segments"][here] = number
        arrays["index"][here] = np.arange(length)
        for span, (begin, end) in enumerate(SPANS, 1):
            arrays["spans"][row, start + begin : start + end] = 10 * number + span
    windows = np.where(arrays["segments"] > 0, 1 + TOKENS * arrays["segments"], 0)
    windows += arrays["index"] // 12
    more = {"window_ids": jnp.asarray(windows), "span_ids": jnp.asarray(arrays["spans"])}
    return LayerContext(jnp.asarray(arrays["segments"]), jnp.asarray(arrays["index"]), more)


CONTEXT = make_context()
INSIDE = np.asarray(CONTEXT.segment_ids) > 0


@cache
def visible_pairs(mask: MaskKind) -> np.ndarray:
    """Which keys every query of the two rows sees, `[2, queries, keys]`, pair by pair."""
    assert CONTEXT.ids is not None
    assert CONTEXT.index is not None
    ids = {SEGMENT_IDS: CONTEXT.segment_ids, **CONTEXT.ids}
    arrays = ids[mask.bounds], CONTEXT.index, ids["span_ids"]
    columns = [list(zip(*(array[row].tolist() for array in arrays), strict=True)) for row in (0, 1)]

    def sees(query: tuple[int, ...], key: tuple[int, ...]) -> bool:
        (bounds, index, span), (other_bounds, other, other_span) = query, key
        shared = mask.spans and span == other_span > 0
        return (
            bounds == other_bounds
            and (index >= other or shared or not mask.causal)
            and abs(index - other) < (mask.window or TOKENS)
            and index // (mask.chunk or TOKENS) == other // (mask.chunk or TOKENS)
        )

    return np.array([[[sees(query, key) for key in row] for query in row] for row in columns])


@cache
def inputs() -> tuple[np.ndarray, ...]:
    """Queries, keys, values and gradients of the output; padding has no gradient.

    The second row has those of a segment of the first.
    """
    rng = np.random.default_rng(0)

    def array(heads: int) -> np.ndarray:
        values = rng.normal(size=(2, TOKENS, heads, 16)).astype(np.float32)
        values[SEPARATE] = values[PACKED]
        return values

    return array(4), array(2), array(2), array(4) * INSIDE[..., None, None]


def _with_gradients(attend: Attend) -> Callable[..., Any]:
    """The output and the gradients of queries, keys and values."""

    def run(q: Any, k: Any, v: Any, d_out: Any, *rest: Any) -> tuple[jax.Array, ...]:
        out, pull = jax.vjp(lambda q, k, v: attend(q, k, v, *rest), q, k, v)
        return out, *pull(d_out)

    return run


@jax.jit
@_with_gradients
def _softmax(q: Any, k: Any, v: Any, seen: Any) -> jax.Array:
    """Attention to the keys that are seen, `[rows, queries, keys]`."""
    k, v = (jnp.repeat(x, q.shape[2] // x.shape[2], axis=2) for x in (k, v))
    scores = jnp.einsum("rqhd,rkhd->rhqk", q, k) / np.sqrt(q.shape[3])
    weights = jnp.exp(scores) * seen[:, None]
    return jnp.einsum("rhqk,rkhd->rqhd", weights / weights.sum(axis=3, keepdims=True), v)


@cache
def expected(mask: MaskKind, dtype: str = "float32") -> list[np.ndarray]:
    """Output and gradients of the inputs rounded to `dtype`, by the mask's pairs."""
    rounded = (jnp.asarray(x, dtype).astype(jnp.float32) for x in inputs())
    return [np.asarray(x) for x in _softmax(*rounded, visible_pairs(mask))]


@cache
def _program(attend: Attend) -> Callable[..., Any]:
    return jax.jit(_with_gradients(attend), static_argnums=5)


def found(attend: Attend, mask: MaskKind, dtype: str = "float32") -> list[np.ndarray]:
    """Output and gradients of a backend, of inputs in `dtype`.

    Masks that differ by ids alone have one program.
    """
    tokens, ordered = to_row_positions(CONTEXT.tokens(mask), mask)
    arrays = (jnp.asarray(x, dtype) for x in inputs())
    made = _program(attend)(*arrays, tokens, replace(ordered, bounds=SEGMENT_IDS))
    return [np.asarray(x, np.float32) for x in made]


def check_mask(attend: Attend, mask: MaskKind, limit: float, dtype: str = "float32") -> None:
    """Check that a backend computes what the mask's pairs say, packed and separate.

    Args:
        limit: largest error over the largest value of output and gradients.
    """
    wanted = expected(mask, dtype)
    bound = limit * max(float(np.abs(array[INSIDE]).max()) for array in wanted)
    for name, own, other in zip(ARRAYS, found(attend, mask, dtype), wanted, strict=True):
        np.testing.assert_allclose(own[INSIDE], other[INSIDE], rtol=0, atol=bound, err_msg=name)
        np.testing.assert_allclose(own[PACKED], own[SEPARATE], rtol=0, atol=bound, err_msg=name)
