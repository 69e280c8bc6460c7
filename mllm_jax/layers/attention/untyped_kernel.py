"""Attention kernels inside a manual `shard_map` with checked types.

Kernels do not say over which mesh axes their outputs vary, which `check_vma=True` insists on:
`untyped_kernel` runs them `without_types`. Forward and backward go through it separately, because
the types of a `custom_vjp` are compared across its two rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from mllm_jax.layers.attention.masks import TokenIds
from mllm_jax.layers.varying import vary_like, without_types

Attend = Callable[..., jax.Array]


def untyped_kernel(kernel: Attend) -> Attend:
    """`kernel(q, k, v, tokens)`, differentiable in q, k, v, under `check_vma=True` as well.

    q, k, v and the result vary over the same axes.
    """

    @jax.custom_vjp
    def attend(q: jax.Array, k: jax.Array, v: jax.Array, tokens: TokenIds) -> jax.Array:
        return vary_like(without_types(kernel)(q, k, v, tokens), q)

    def forward(q: jax.Array, k: jax.Array, v: jax.Array, tokens: TokenIds) -> Any:
        def run(q: jax.Array, k: jax.Array, v: jax.Array, tokens: TokenIds) -> Any:
            return jax.vjp(lambda *inputs: kernel(*inputs, tokens), q, k, v)

        return vary_like(without_types(run)(q, k, v, tokens), q)

    def backward(pullback: Any, gradient: jax.Array) -> Any:
        run = without_types(lambda pullback, gradient: pullback(gradient))
        return (*vary_like(run(pullback, gradient), gradient), None)

    attend.defvjp(forward, backward)
    return attend
