"""Self-attention within segments: one function over several implementations.

==========  ========  ======================================================================
backend     platform  needs
==========  ========  ======================================================================
reference   any       nothing
blockwise   any       nothing; time grows with segments, not rows; `auto` never takes it
cudnn       gpu       16-bit floats; head_dim a multiple of 8, at most 128
pallas_gpu  gpu       16-bit floats; tokens a multiple of 128; head_dim 16 to 128; time grows with
                      segments, not rows
splash      tpu       tokens a multiple of 128
==========  ========  ======================================================================

Every backend gets the ids of tokens, and every field of a mask (`MaskKind`) is computed by every
backend, but spans by splash. Attention that a backend cannot compute is refused, never
approximated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from mllm_jax.layers.attention import library_kernels
from mllm_jax.layers.attention.blockwise import blockwise_attention
from mllm_jax.layers.attention.cudnn_stand_in import cudnn_stand_in
from mllm_jax.layers.attention.limits import (
    PREFERRED,
    able_backends,
    check_backend,
)
from mllm_jax.layers.attention.masks import TokenIds, to_row_positions
from mllm_jax.layers.attention.pallas_flash import pallas_flash_attention
from mllm_jax.layers.attention.reference import reference_attention
from mllm_jax.layers.config.kinds import MaskKind
from mllm_jax.layers.varying import vary_like
from sharding.traced import traced_platform

Kernel = Callable[..., jax.Array]

#: Backend that is traced in place of cuDNN, which JAX traces only where it finds the library. No
#: configuration has this backend: it is not meant to be run.
STAND_IN = "cudnn_stand_in"


def compute_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    tokens: TokenIds,
    mask: MaskKind,
    backend: str = "auto",
) -> jax.Array:
    """Softmax attention of every token to the tokens of its row that the mask shows it.

    Args:
        q: `[rows, tokens, heads, head_dim]`.
        k, v: `[rows, tokens, kv_heads, head_dim]`; `heads` is a multiple of `kv_heads`.
        tokens: ids of full rows, whose segments follow each other; padding (0) attends to
            padding and stays finite.
        mask: which tokens see which.
        backend: see the module; `auto` takes the first of `PREFERRED` that can on the platform
            that is traced for.

    Returns:
        `[rows, tokens, heads, head_dim]` in the type of `q`.

    Raises:
        AttentionError: the backend cannot run these shapes or types, or this mask.
    """
    shape: dict[str, Any] = {"tokens": q.shape[1], "head_dim": q.shape[3], "dtype": q.dtype.name}
    shape["spans"] = mask.spans
    if backend == "auto":
        platform = traced_platform()
        able = able_backends(platform, **shape)
        backend = next(name for name in PREFERRED[platform] if name in able)
    if backend != STAND_IN:
        check_backend(backend, None, **shape)
    inputs = vary_like((q, k, v), (q, k, v, tokens))
    return BACKENDS[backend](*inputs, *to_row_positions(tokens, mask))


BACKENDS: dict[str, Kernel] = {
    "reference": reference_attention,
    "blockwise": blockwise_attention,
    "cudnn": library_kernels.cudnn_attention,
    "pallas_gpu": pallas_flash_attention,
    "splash": library_kernels.splash_attention,
    STAND_IN: cudnn_stand_in,
}


def traceable_backend(backend: str) -> str:
    """A backend that keeps the same tensors as `backend` and can be traced on any machine."""
    return STAND_IN if backend == "cudnn" else backend
