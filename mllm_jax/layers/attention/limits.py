"""Limits of every implementation of attention, and the share of pairs that it computes.

Known without loading any of them: configurations are checked by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from mllm_jax.layers.config.kinds import MaskKind

Backend = Literal["auto", "reference", "blockwise", "cudnn", "pallas_gpu", "splash"]

#: Backends that `auto` tries in turn, by platform.
PREFERRED: Mapping[str, tuple[Backend, ...]] = {
    "cpu": ("reference",),
    "gpu": ("pallas_gpu", "cudnn", "reference"),
    "tpu": ("splash", "reference"),
}

#: Number of queries, and of keys, of a block of the flash attention kernels.
FLASH_BLOCK = 128


class AttentionError(ValueError):
    """A backend cannot run the requested attention; the message names the backends that can."""


@dataclass(frozen=True)
class BackendLimits:
    """Limits of a backend.

    Attributes:
        platforms: platforms on which it exists.
        tokens: rows must be a multiple of this.
        head_dim_multiple: head_dim must be a multiple of this ...
        min_head_dim, max_head_dim: ... and within these bounds.
        half_only: whether the backend takes 16-bit floats only.
        by_segment: whether its time grows with the pairs of positions of every segment, and not
            with all pairs of a row.
        spans: whether it lets tokens of a span see tokens after them.
    """

    platforms: tuple[str, ...]
    tokens: int = 1
    head_dim_multiple: int = 1
    min_head_dim: int = 1
    max_head_dim: int = 1 << 30
    half_only: bool = False
    by_segment: bool = False
    spans: bool = True

    def refusal_reason(
        self, platform: str | None, tokens: int, head_dim: int, dtype: str, spans: bool = False
    ) -> str | None:
        """Why it cannot run this; None if it can. A `platform` of None is not checked."""
        if platform is not None and platform not in self.platforms:
            return f"it runs on {' and '.join(self.platforms)}, not on {platform}"
        if tokens % self.tokens:
            return f"{tokens} tokens in a row are not a multiple of {self.tokens}"
        in_range = self.min_head_dim <= head_dim <= self.max_head_dim
        if head_dim % self.head_dim_multiple or not in_range:
            return (
                f"head_dim {head_dim} is not a multiple of {self.head_dim_multiple} between "
                f"{self.min_head_dim} and {self.max_head_dim}"
            )
        if self.half_only and dtype not in ("bfloat16", "float16"):
            return f"activations are {dtype}, not bfloat16 or float16"
        if spans and not self.spans:
            return "tokens of a span see tokens after them, which it does not compute"
        return None


LIMITS = {
    "reference": BackendLimits(("cpu", "gpu", "tpu")),
    "blockwise": BackendLimits(("cpu", "gpu", "tpu"), by_segment=True),
    "cudnn": BackendLimits(
        ("gpu",), head_dim_multiple=8, min_head_dim=8, max_head_dim=128, half_only=True
    ),
    "pallas_gpu": BackendLimits(
        ("gpu",),
        tokens=FLASH_BLOCK,
        min_head_dim=16,
        max_head_dim=128,
        half_only=True,
        by_segment=True,
    ),
    "splash": BackendLimits(("tpu",), tokens=128, spans=False),
}


def check_backend(
    backend: str,
    platform: str | None,
    *,
    tokens: int,
    head_dim: int,
    dtype: str,
    spans: bool = False,
) -> None:
    """Refuse a backend that cannot run rows of `tokens` with heads of `head_dim`.

    Args:
        platform: `cpu`, `gpu` or `tpu`; None = do not look at it (compiling ahead of time for a
            machine that is not here).
        spans: whether a mask of the model has spans.

    Raises:
        AttentionError: names the reason and the backends that can.
    """
    if backend not in LIMITS:
        raise AttentionError(f"attention {backend!r} is not one of {', '.join(LIMITS)}")
    reason = LIMITS[backend].refusal_reason(platform, tokens, head_dim, dtype, spans)
    if reason is not None:
        able = able_backends(platform, tokens=tokens, head_dim=head_dim, dtype=dtype, spans=spans)
        raise AttentionError(f"attention {backend!r}: {reason}; valid here: {', '.join(able)}")


def able_backends(
    platform: str | None, *, tokens: int, head_dim: int, dtype: str, spans: bool = False
) -> list[str]:
    """Backends that can run such rows, see `check_backend`."""
    return [
        name
        for name, limits in LIMITS.items()
        if limits.refusal_reason(platform, tokens, head_dim, dtype, spans) is None
    ]


def reference_block(tokens: int) -> int:
    """Queries of a block of `reference_attention` where it is causal."""
    return max(64, tokens // 8)


def computed_pair_share(
    backend: str, tokens: int, mask: MaskKind, bound: int | None = None
) -> float:
    """Share of all pairs of a full row that `backend` computes.

    Blocks of keys after the end of a block of queries are left out, by flash attention in blocks
    of `FLASH_BLOCK`: of n blocks (n + 1) / 2n is computed. So are those before the window of its
    first query, but for cudnn, to which a window is a mask. Chunks and other ids are masks to
    backends that compute all pairs of a row. A span lets some backends leave out nothing after a
    block; those that read it on the device compute a little more than is counted here.

    Args:
        tokens: number of tokens of the row.
        mask: which of them see which.
        bound: number of tokens of the same id, where `mask.bounds` are not segments.
    """
    by_segment, dense = LIMITS[backend].by_segment, backend == "cudnn"
    size = min(tokens, reference_block(tokens) if backend == "reference" else FLASH_BLOCK)
    # The reference cuts keys where the window begins, others at a block.
    unit = 1 if backend == "reference" else size
    part = (mask.chunk or bound) if by_segment else None
    seen = replace(mask, window=None) if dense else mask
    if mask.spans:
        seen = MaskKind(causal=False) if dense else replace(seen, spans=not by_segment)
    pairs = 0
    for begin in range(0, tokens, size):
        end = min(begin + size, tokens)
        near = seen.key_range(begin, end, tokens)
        first, last = near.start // unit * unit, near.stop
        if part is not None:
            first = max(first, begin // part * part // unit * unit)
            last = min(last, -(-end // part) * part)
        pairs += (end - begin) * (last - first)
    return pairs / tokens**2
