"""Tokens are drawn from the most likely ones, and by nothing but seed, prompt and place."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from mllm_jax.train.decoding.sampling import (
    SamplingError,
    TokenSampling,
    draw_tokens,
    mask_unlikely,
)

#: Logits of the probabilities .5, .2, .2 and .1.
LOGITS = jnp.log(jnp.array([[[0.2, 0.5, 0.1, 0.2]]]))
MANY = 4000


@pytest.mark.parametrize(
    ("top_k", "top_p", "kept"),
    [
        (4, 1.0, [0, 1, 2, 3]),
        (1, 1.0, [1]),
        (3, 1.0, [0, 1, 3]),
        (9, 1.0, [0, 1, 2, 3]),
        (4, 0.49, [1]),
        (4, 0.51, [0, 1, 3]),
        (4, 0.95, [0, 1, 2, 3]),
        (1, 0.95, [1]),
        # Of the kept three the best has 5/9.
        (3, 0.55, [1]),
    ],
)
def test_the_most_likely_tokens_are_kept(top_k: int, top_p: float, kept: list[int]) -> None:
    found = mask_unlikely(LOGITS, jnp.int32(top_k), jnp.float32(top_p))
    assert np.flatnonzero(np.isfinite(found[0, 0])).tolist() == kept
    np.testing.assert_array_equal(found[0, 0, kept], LOGITS[0, 0, kept])


def draw(sampling: TokenSampling, numbers: Any, places: Any) -> Any:
    logits = jnp.broadcast_to(LOGITS, (*numbers.shape, LOGITS.shape[-1]))
    return np.asarray(draw_tokens(logits, sampling.as_arrays, numbers, places))


def test_tokens_come_as_often_as_they_are_likely() -> None:
    numbers, places = jnp.zeros((1, MANY), jnp.int32), jnp.arange(MANY, dtype=jnp.int32)[None]
    found = draw(TokenSampling(temperature=1.0), numbers, places)
    share = np.bincount(found[0], minlength=4) / MANY
    np.testing.assert_allclose(share, [0.2, 0.5, 0.1, 0.2], atol=0.03)
    # Half the temperature squares all probabilities.
    cold = draw(TokenSampling(temperature=0.5), numbers, places)
    squares = np.square([0.2, 0.5, 0.1, 0.2])
    share = np.bincount(cold[0], minlength=4) / MANY
    np.testing.assert_allclose(share, squares / squares.sum(), atol=0.03)
    assert set(draw(TokenSampling(1.0, top_k=3), numbers, places)[0].tolist()) == {0, 1, 3}


def test_draws_depend_on_seed_prompt_and_place_alone() -> None:
    numbers = jnp.arange(64, dtype=jnp.int32)[None]
    places = jnp.full((1, 64), 5, jnp.int32)
    whole = draw(TokenSampling(1.0, seed=1), numbers, places)
    np.testing.assert_array_equal(
        draw(TokenSampling(1.0, seed=1), numbers[:, 7:9], places[:, 7:9]), whole[:, 7:9]
    )
    for other in (
        draw(TokenSampling(1.0, seed=2), numbers, places),
        draw(TokenSampling(1.0, seed=1), numbers + 64, places),
        draw(TokenSampling(1.0, seed=1), numbers, places + 1),
    ):
        assert (other != whole).any()


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"temperature": -0.5}, r"temperature -0.5 is refused; valid: 0"),
        ({"temperature": float("nan")}, "temperature nan"),
        ({"temperature": 1.0, "top_k": 0}, "top_k 0 keeps no token; valid: at least 1"),
        ({"temperature": 1.0, "top_p": 0.0}, "top_p 0.0 is refused; valid: above 0, at most 1"),
        ({"top_k": 5}, "no effect where the most likely token is taken"),
        ({"top_p": 0.5}, "no effect where the most likely token is taken"),
        ({"seed": -1}, "seed -1 is refused"),
        ({"seed": 2**32}, "seed 4294967296 is refused; valid: 0 to 4294967295"),
    ],
)
def test_settings_without_a_meaning_are_refused(values: dict[str, Any], match: str) -> None:
    with pytest.raises(SamplingError, match=match):
        TokenSampling(**values)
