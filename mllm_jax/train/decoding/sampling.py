"""The choice of the next token: the most likely one, or one that is drawn.

Logits are divided by the temperature; of them the `top_k` largest remain, and of those the
largest whose probabilities sum up to `top_p` (Holtzman et al., arXiv 1904.09751); one of these is
drawn. What is drawn depends on the seed, the number of the prompt and the place in the answer, and
on no other prompt of the batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp


class SamplingError(ValueError):
    """Settings by which no token can be drawn."""


class TokenDraw(NamedTuple):
    """The settings as arrays, which one compiled program takes in all values: scalars."""

    temperature: jax.Array
    top_k: jax.Array
    top_p: jax.Array
    seed: jax.Array


@dataclass(frozen=True)
class TokenSampling:
    """Settings of the choice.

    Attributes:
        temperature: divisor of the logits; 0: the most likely token is taken.
        top_k: how many of the most likely tokens remain; None: all.
        top_p: probability that the remaining tokens have together at least.
        seed: seed of the draws.

    Raises:
        SamplingError: a value is out of its range, or has no effect.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise SamplingError(
                f"temperature {self.temperature} is refused; valid: 0, the most likely token, or a "
                "finite number above it"
            )
        if self.top_k is not None and self.top_k < 1:
            raise SamplingError(f"top_k {self.top_k} keeps no token; valid: at least 1")
        if not 0 < self.top_p <= 1:
            raise SamplingError(f"top_p {self.top_p} is refused; valid: above 0, at most 1")
        if self.is_greedy and (self.top_k is not None or self.top_p < 1):
            raise SamplingError(
                "top_k and top_p have no effect where the most likely token is taken; valid: a "
                "temperature above 0, or neither of them"
            )
        if not 0 <= self.seed < 2**32:
            raise SamplingError(f"seed {self.seed} is refused; valid: 0 to {2**32 - 1}")

    @property
    def is_greedy(self) -> bool:
        """Whether the most likely token is taken."""
        return self.temperature == 0

    @property
    def as_arrays(self) -> TokenDraw:
        """The settings as arrays."""
        most = 2**31 - 1
        return TokenDraw(
            jnp.float32(self.temperature),
            jnp.int32(most if self.top_k is None else min(self.top_k, most)),
            jnp.float32(self.top_p),
            jnp.uint32(self.seed),
        )


def draw_tokens(
    logits: jax.Array, draw: TokenDraw, numbers: jax.Array, places: jax.Array
) -> jax.Array:
    """A token for each row of logits.

    Args:
        logits: `[rows, columns, vocab]` float32.
        draw: settings, with a temperature above 0.
        numbers: `[rows, columns]` int32: number of the prompt.
        places: `[rows, columns]` int32: place of the token in the answer.

    Returns:
        `[rows, columns]` int32.
    """
    likely_logits = mask_unlikely(logits / draw.temperature, draw.top_k, draw.top_p)
    key = jax.random.key(draw.seed)

    def draw_token(logits: jax.Array, number: jax.Array, place: jax.Array) -> jax.Array:
        token_key = jax.random.fold_in(jax.random.fold_in(key, number), place)
        return jax.random.categorical(token_key, logits)

    return jax.vmap(jax.vmap(draw_token))(likely_logits, numbers, places).astype(jnp.int32)


def mask_unlikely(logits: jax.Array, top_k: jax.Array, top_p: jax.Array) -> jax.Array:
    """Logits of the tokens that may be drawn, minus infinity for all others.

    Tokens as likely as the last one that remains do, too. Of probabilities .5 .2 .2 .1::

        top_k 3             .5 .2 .2
        top_p 0.6           .5 .2 .2     .5 alone are less than 0.6

    Args:
        logits: `[..., vocab]`.
        top_k, top_p: scalars, see `TokenSampling`.
    """
    ordered = -jnp.sort(-logits, axis=-1)
    last = jnp.minimum(top_k, logits.shape[-1]) - 1
    least = jnp.take_along_axis(ordered, jnp.full((*logits.shape[:-1], 1), last), axis=-1)
    share = jax.nn.softmax(jnp.where(ordered >= least, ordered, -jnp.inf), axis=-1)
    larger = jnp.cumsum(share, axis=-1) - share
    likely = (larger < top_p) & (ordered >= least)
    least = jnp.min(jnp.where(likely, ordered, jnp.inf), axis=-1, keepdims=True)
    return jnp.where(logits >= least, logits, -jnp.inf)
