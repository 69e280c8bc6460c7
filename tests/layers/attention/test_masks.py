"""Every field of a mask, in every backend and with a cache, against masks written pair by pair."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.cases.attention import LIMIT
from mllm_jax.layers.attention.cached import KeyValueCache, cached_attention
from mllm_jax.layers.attention.dispatch import STAND_IN, compute_attention
from mllm_jax.layers.attention.limits import LIMITS, AttentionError
from mllm_jax.layers.attention.masks import TokenIds, to_row_positions
from mllm_jax.layers.config.kinds import MaskKind
from tests.layers.attention import mask_cases
from tests.layers.attention.mask_cases import (
    BACKENDS,
    CONTEXT,
    INSIDE,
    MASKS,
    TOKENS,
    changed_fields,
    check_mask,
    name_of,
)

#: The backends that refuse a field of a mask, with what they say.
REFUSED = {("splash", "spans"): r"tokens of a span see.*valid here: reference, blockwise"}


def test_the_cases_have_every_backend_and_every_field() -> None:
    assert set(BACKENDS) == {*LIMITS, STAND_IN}
    assert {name for mask in MASKS for name in changed_fields(mask)} == {
        own.name for own in fields(MaskKind)
    }


@pytest.mark.parametrize("mask", MASKS, ids=name_of)
@pytest.mark.parametrize("backend", BACKENDS)
def test_outputs_and_gradients_are_those_of_the_written_mask_packed_and_separate(
    backend: str, mask: MaskKind
) -> None:
    refused = [
        REFUSED[backend, name] for name in changed_fields(mask) if (backend, name) in REFUSED
    ]
    if not refused:
        check_mask(BACKENDS[backend], mask, limit=5e-6)
    for reason in refused:
        q, k, v = map(jnp.asarray, mask_cases.inputs()[:3])
        with pytest.raises(AttentionError, match=reason):
            compute_attention(q, k, v, CONTEXT.tokens(mask), mask, backend)


def test_a_backend_in_bfloat16_is_as_close_as_those_of_gpus_must_be() -> None:
    attend = partial(compute_attention, backend="reference")
    check_mask(attend, MASKS[-1], LIMIT, "bfloat16")


@pytest.mark.parametrize(
    "mask", [mask for mask in MASKS if mask.bounds == "segment_ids"], ids=name_of
)
def test_a_cache_shows_new_tokens_what_the_mask_does(mask: MaskKind) -> None:
    """Slots in any order; the last ones hold the new tokens, of which each sees all slots."""
    order, new = np.random.default_rng(1).permutation(TOKENS), 16
    q, k, v = (jnp.asarray(array[:, order]) for array in mask_cases.inputs()[:3])
    tokens: TokenIds = jax.tree.map(lambda x: x[:, order], CONTEXT.tokens(mask))
    cached = KeyValueCache(k.swapaxes(1, 2), v.swapaxes(1, 2), tokens, jnp.int32(TOKENS - new))
    out = jax.jit(cached_attention, static_argnums=2)(cached, q[:, -new:], mask)
    inside, (expected, *_) = INSIDE[:, order[-new:]], mask_cases.expected(mask)
    np.testing.assert_allclose(out[inside], expected[:, order[-new:]][inside], atol=1e-5)


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
