"""Every field of a mask, in every backend and with a cache, against masks written pair by pair."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mllm_jax.layers.attention import library_kernels
from mllm_jax.layers.attention.blockwise import blockwise_attention
from mllm_jax.layers.attention.cached import KeyValueCache, cached_attention
from mllm_jax.layers.attention.cudnn_stand_in import cudnn_stand_in
from mllm_jax.layers.attention.dispatch import STAND_IN
from mllm_jax.layers.attention.limits import AttentionError, check_backend
from mllm_jax.layers.attention.masks import TokenIds, to_row_positions
from mllm_jax.layers.attention.pallas_flash import KernelSizes, KernelTile, pallas_flash_attention
from mllm_jax.layers.attention.reference import reference_attention
from mllm_jax.layers.config.kinds import MaskKind
from mllm_jax.layers.modules import LayerContext

TOKENS = 128
#: Lengths of the segments of the first row; the second row has the second of them alone.
SEGMENTS = (31, 48, 30)
ALONE = slice(SEGMENTS[0], SEGMENTS[0] + SEGMENTS[1])
#: The index at which a span begins, and its end.
SPANS = ((4, 11), (11, 13), (20, 29))
_TILE = KernelTile(32, 32, 4, 2)
BACKENDS: dict[str, Callable[..., jax.Array]] = {
    "reference": reference_attention,
    "blockwise": partial(blockwise_attention, block=16),
    "pallas_gpu": partial(
        pallas_flash_attention, interpret=True, sizes=KernelSizes(_TILE, _TILE, _TILE)
    ),
    "splash": partial(library_kernels.splash_attention, interpret=True),
    STAND_IN: cudnn_stand_in,  # what cuDNN computes, by the same mask
}
MASKS = (
    MaskKind(),
    MaskKind(causal=False),
    MaskKind(window=9),
    MaskKind(chunk=10),
    MaskKind(causal=False, chunk=10),
    MaskKind(causal=False, bounds="window_ids"),
    MaskKind(spans=True),
    MaskKind(window=6, chunk=14, spans=True),
)


def ids() -> LayerContext:
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
    windows += arrays["index"] // 7
    more = {"window_ids": jnp.asarray(windows), "span_ids": jnp.asarray(arrays["spans"])}
    return LayerContext(jnp.asarray(arrays["segments"]), jnp.asarray(arrays["index"]), more)


CONTEXT = ids()


@cache
def explicit(mask: MaskKind) -> np.ndarray:
    """Which keys every query of the two rows sees, `[2, queries, keys]`, pair by pair."""
    assert CONTEXT.ids is not None
    assert CONTEXT.index is not None
    ids = {"segment_ids": CONTEXT.segment_ids, **CONTEXT.ids}
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


def inputs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries, keys and values; the second row has those of a segment of the first."""
    rng = np.random.default_rng(0)

    def array(heads: int) -> np.ndarray:
        values = rng.normal(size=(2, TOKENS, heads, 16)).astype(np.float32)
        values[1, : SEGMENTS[1]] = values[0, ALONE]
        return values

    return array(4), array(2), array(2)


def softmax(q: Any, k: Any, v: Any, seen: np.ndarray) -> np.ndarray:
    """Attention to the keys that are seen, in float64."""
    k, v = (np.repeat(x.astype(np.float64), q.shape[2] // x.shape[2], axis=2) for x in (k, v))
    scores = np.einsum("rqhd,rkhd->rhqk", q, k) / np.sqrt(q.shape[3])
    weights = np.exp(scores) * seen[:, None]
    mixed: np.ndarray = np.einsum("rhqk,rkhd->rqhd", weights, v)
    return mixed / weights.sum(axis=3).swapaxes(1, 2)[..., None]


def able(backend: str) -> list[MaskKind]:
    return [mask for mask in MASKS if not (mask.spans and backend == "splash")]


@pytest.mark.parametrize("backend", BACKENDS)
def test_outputs_are_those_of_the_written_mask_packed_and_alone(backend: str) -> None:
    def every(q: Any, k: Any, v: Any) -> list[jax.Array]:
        ordered = [to_row_positions(CONTEXT.tokens(mask), mask) for mask in able(backend)]
        return [BACKENDS[backend](q, k, v, *own) for own in ordered]

    inside = np.asarray(CONTEXT.segment_ids) > 0
    for mask, out in zip(able(backend), jax.jit(every)(*inputs()), strict=True):
        expected = softmax(*inputs(), explicit(mask))
        np.testing.assert_allclose(out[inside], expected[inside], atol=1e-5, err_msg=str(mask))
        np.testing.assert_allclose(out[1, : SEGMENTS[1]], out[0, ALONE], atol=1e-5)


@pytest.mark.parametrize("backend", ["blockwise", "pallas_gpu", STAND_IN])
def test_gradients_of_a_mask_of_all_fields_are_those_of_the_reference(backend: str) -> None:
    mask = MASKS[-1]
    inside = (CONTEXT.segment_ids > 0)[:, :, None, None]

    def loss(attend: Callable[..., jax.Array], arrays: Any) -> jax.Array:
        return jnp.sum(
            jnp.sin(attend(*arrays, *to_row_positions(CONTEXT.tokens(mask), mask))) * inside
        )

    ways = BACKENDS[backend], reference_attention
    both = jax.jit(lambda arrays: [jax.grad(partial(loss, own))(arrays) for own in ways])
    for own, other in zip(*both(inputs()), strict=True):
        np.testing.assert_allclose(own, other, atol=2e-5)


def test_a_cache_shows_new_tokens_what_the_mask_does() -> None:
    """Slots in any order; the last ones hold the new tokens, of which each sees all slots."""
    rng = np.random.default_rng(1)
    order, new = rng.permutation(TOKENS), 16
    masks = [mask for mask in MASKS if mask.bounds == "segment_ids"]
    q, k, v = (array[:, order] for array in inputs())

    def every() -> list[jax.Array]:
        found = []
        for mask in masks:
            tokens: TokenIds = jax.tree.map(lambda x: x[:, order], CONTEXT.tokens(mask))
            start = jnp.int32(TOKENS - new)
            keys, values = (jnp.asarray(x.swapaxes(1, 2)) for x in (k, v))
            cached = KeyValueCache(keys, values, tokens, start)
            found.append(cached_attention(cached, jnp.asarray(q[:, -new:]), mask))
        return found

    inside = np.asarray(CONTEXT.segment_ids)[:, order[-new:]] > 0
    for mask, out in zip(masks, jax.jit(every)(), strict=True):
        expected = softmax(*inputs(), explicit(mask))[:, order[-new:]]
        np.testing.assert_allclose(out[inside], expected[inside], atol=1e-5, err_msg=str(mask))


def test_what_splash_does_not_compute_is_refused() -> None:
    shape: dict[str, Any] = {"tokens": 256, "head_dim": 64, "dtype": "bfloat16", "spans": True}
    with pytest.raises(AttentionError, match=r"tokens of a span see.*valid here: reference, block"):
        check_backend("splash", "tpu", **shape)
    check_backend("splash", "tpu", **{**shape, "spans": False})


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"causal": False, "window": 4}, "window 4 is refused, as attention is not causal"),
        ({"causal": False, "spans": True}, "spans have no effect, as attention is not causal"),
        ({"chunk": 4, "bounds": "window_ids"}, "chunk 4 is refused beside bounds 'window_ids'"),
        ({"window": 0}, "window 0 is not a number of tokens; valid: at least 1"),
        ({"chunk": 0}, "chunk 0 is not a number of tokens"),
    ],
)
def test_masks_that_mean_nothing_are_refused(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        MaskKind(**fields)


@pytest.mark.parametrize(
    ("mask", "lacks"), [(MaskKind(spans=True), "the span"), (MaskKind(chunk=4), "the index")]
)
def test_what_a_mask_reads_must_be_there(mask: MaskKind, lacks: str) -> None:
    with pytest.raises(ValueError, match=f"needs {lacks} of every token"):
        to_row_positions(TokenIds(jnp.ones((1, 8), jnp.int32)), mask)
