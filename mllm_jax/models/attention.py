"""Self-attention within segments: one function over several implementations.

==========  ========  ======================================================================
backend     platform  needs
==========  ========  ======================================================================
reference   any       nothing
windowed    any       nothing; time grows with segments, not rows; `auto` never takes it
cudnn       gpu       16-bit floats; head_dim a multiple of 8, at most 128
pallas_gpu  gpu       16-bit floats; tokens a multiple of 128; head_dim 16 to 128
splash      tpu       tokens a multiple of 128
==========  ========  ======================================================================

Every backend gets the segment ids. What a backend cannot do is refused, never approximated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jax

from mllm_jax.models import attention_kernels as kernels
from mllm_jax.models.config import Backend
from mllm_jax.models.flash import flash
from mllm_jax.models.platform import traced_platform
from mllm_jax.models.reference import block, reference
from mllm_jax.models.varying import vary_like
from mllm_jax.models.windowed import windowed

Kernel = Callable[..., jax.Array]

#: What `auto` tries in turn, by platform.
PREFERRED: Mapping[str, tuple[Backend, ...]] = {
    "cpu": ("reference",),
    "gpu": ("pallas_gpu", "cudnn", "reference"),
    "tpu": ("splash", "reference"),
}

#: What is traced for cuDNN, which JAX traces only where it finds the library. No configuration has
#: it: it is not meant to be run.
STAND_IN = "flash"

#: Queries, and keys, of a block of the flash attention kernels.
FLASH_BLOCK = 128


class AttentionError(ValueError):
    """A backend that cannot run what was asked, with the backends that can."""


@dataclass(frozen=True)
class Limits:
    """What a backend can run.

    Attributes:
        platforms: where it exists.
        tokens: rows must be a multiple of this.
        width: head_dim must be a multiple of this ...
        narrowest, widest: ... and within these bounds.
        half_only: whether it takes 16-bit floats only.
    """

    platforms: tuple[str, ...]
    tokens: int = 1
    width: int = 1
    narrowest: int = 1
    widest: int = 1 << 30
    half_only: bool = False

    def refusal(self, platform: str | None, tokens: int, head_dim: int, dtype: str) -> str | None:
        """Why it cannot run this; None if it can. Without a platform that is not looked at."""
        if platform is not None and platform not in self.platforms:
            return f"it runs on {' and '.join(self.platforms)}, not on {platform}"
        if tokens % self.tokens:
            return f"{tokens} tokens in a row are not a multiple of {self.tokens}"
        if head_dim % self.width or not self.narrowest <= head_dim <= self.widest:
            return (
                f"head_dim {head_dim} is not a multiple of {self.width} between "
                f"{self.narrowest} and {self.widest}"
            )
        if self.half_only and dtype not in ("bfloat16", "float16"):
            return f"activations are {dtype}, not bfloat16 or float16"
        return None


LIMITS = {
    "reference": Limits(("cpu", "gpu", "tpu")),
    "windowed": Limits(("cpu", "gpu", "tpu")),
    "cudnn": Limits(("gpu",), width=8, narrowest=8, widest=128, half_only=True),
    "pallas_gpu": Limits(("gpu",), tokens=128, narrowest=16, widest=128, half_only=True),
    "splash": Limits(("tpu",), tokens=128),
}


def check_backend(
    backend: str, platform: str | None, *, tokens: int, head_dim: int, dtype: str
) -> None:
    """Refuse a backend that cannot run rows of `tokens` with heads of `head_dim`.

    Args:
        platform: `cpu`, `gpu` or `tpu`; None = do not look at it (compiling ahead of time for a
            machine that is not here).

    Raises:
        AttentionError: names the reason and the backends that can.
    """
    if backend not in LIMITS:
        raise AttentionError(f"attention {backend!r} is not one of {', '.join(LIMITS)}")
    reason = LIMITS[backend].refusal(platform, tokens, head_dim, dtype)
    if reason is not None:
        able = able_backends(platform, tokens=tokens, head_dim=head_dim, dtype=dtype)
        raise AttentionError(f"attention {backend!r}: {reason}; valid here: {', '.join(able)}")


def able_backends(platform: str | None, *, tokens: int, head_dim: int, dtype: str) -> list[str]:
    """Backends that can run such rows, see `check_backend`."""
    return [
        name
        for name, limits in LIMITS.items()
        if limits.refusal(platform, tokens, head_dim, dtype) is None
    ]


def attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    segment_ids: jax.Array,
    *,
    causal: bool,
    backend: str = "auto",
) -> jax.Array:
    """Softmax attention of every token to the tokens of its own segment.

    Args:
        q: `[rows, tokens, heads, head_dim]`.
        k, v: `[rows, tokens, kv_heads, head_dim]`; `heads` is a multiple of `kv_heads`.
        segment_ids: `[rows, tokens]` int32; padding (0) attends to padding and stays finite.
        causal: whether a token sees only itself and earlier tokens.
        backend: see the module; `auto` takes the first of `PREFERRED` that can on the platform
            that is traced for.

    Returns:
        `[rows, tokens, heads, head_dim]` in the type of `q`.

    Raises:
        AttentionError: the backend cannot run these shapes or types.
    """
    tokens, head_dim, dtype = q.shape[1], q.shape[3], q.dtype.name
    if backend == "auto":
        platform = traced_platform()
        able = able_backends(platform, tokens=tokens, head_dim=head_dim, dtype=dtype)
        backend = next(name for name in PREFERRED[platform] if name in able)
    if backend != STAND_IN:
        check_backend(backend, None, tokens=tokens, head_dim=head_dim, dtype=dtype)
    return BACKENDS[backend](*vary_like((q, k, v), (q, k, v, segment_ids)), segment_ids, causal)


def causal_share(backend: str, tokens: int) -> float:
    """Share of all pairs of a causal row that `backend` computes.

    Blocks of keys behind the end of a block of queries are left out, by flash attention in blocks
    of `FLASH_BLOCK`: of n blocks (n + 1) / 2n is computed.

    Args:
        tokens: of the row.
    """
    step = min(tokens, block(tokens) if backend == "reference" else FLASH_BLOCK)
    ends = [min(start + step, tokens) for start in range(0, tokens, step)]
    begins = [0, *ends[:-1]]
    return sum((end - begin) * end for begin, end in zip(begins, ends, strict=True)) / tokens**2


BACKENDS: dict[str, Kernel] = {
    "reference": reference,
    "windowed": windowed,
    "cudnn": kernels.cudnn,
    "pallas_gpu": kernels.pallas_gpu,
    "splash": kernels.splash,
    STAND_IN: flash,
}


def traceable(backend: str) -> str:
    """A backend that keeps of its forward what `backend` keeps, and is traced on any machine."""
    return STAND_IN if backend == "cudnn" else backend
