"""Position codes: rotary (decoders), sinusoidal (whisper), learned grids (vision)."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from mllm_jax.layers.config.kinds import RotarySpec
from mllm_jax.layers.config.parts import RopeScaling

#: Cosines and sines, each `[rows, tokens, 1, frequencies]` float32: one for two elements of a head.
Rotary = tuple[jax.Array, jax.Array]


def compute_rotary(positions: jax.Array, head_dim: int, spec: RotarySpec) -> Rotary:
    """Cosines and sines of rotary positions.

    Args:
        positions: `[rows, tokens, axes]` int32, restarting in every segment; without sections all
            frequencies read the first axis.

    Raises:
        ValueError: the positions have fewer axes than there are sections.
    """
    axes, width = positions.shape[-1], spec.width(head_dim)
    if axes < spec.axes:
        raise ValueError(
            f"sections {list(spec.sections)} are of {spec.axes} axes, but positions have {axes}; "
            f"valid: at most {axes} sections"
        )
    frequency = spec.theta ** (-jnp.arange(0, width, 2, dtype=jnp.float32) / width)
    if spec.scaling is not None:
        frequency = _scale_llama3(frequency, spec.scaling)
    of_axis = positions.astype(jnp.float32)
    if axes > 1:
        of_axis = of_axis[..., np.array(spec.frequency_axes(head_dim))]
    angle = of_axis[:, :, None, :] * frequency[None, None, None, :]
    return jnp.cos(angle), jnp.sin(angle)


def rotate_heads(x: jax.Array, rotary: Rotary) -> jax.Array:
    """Turn the first elements of heads, `[rows, tokens, heads, head_dim]`: twice the frequencies.

    Element i is paired with the element i + frequencies.
    """
    cos, sin = rotary
    count = cos.shape[-1]
    wide, unrotated = x[..., : 2 * count].astype(jnp.float32), x[..., 2 * count :]
    first, second = jnp.split(wide, 2, axis=-1)
    turned = (first * cos - second * sin, second * cos + first * sin)
    rotated = jnp.concatenate(turned, axis=-1).astype(x.dtype)
    return jnp.concatenate([rotated, unrotated], axis=-1) if unrotated.shape[-1] else rotated


def _scale_llama3(frequency: jax.Array, scaling: RopeScaling) -> jax.Array:
    """Slow low frequencies by `factor`, keep high ones, interpolate between."""
    turns = scaling.original_max_positions * frequency / (2 * math.pi)
    band = scaling.high_freq_factor - scaling.low_freq_factor
    unscaled = jnp.clip((turns - scaling.low_freq_factor) / band, 0.0, 1.0)
    return frequency * (unscaled + (1.0 - unscaled) / scaling.factor)


def make_sinusoids(positions: jax.Array, width: int) -> jax.Array:
    """Whisper's sinusoids: `[rows, tokens]` int32 to `[rows, tokens, width]` float32."""
    half = width // 2
    decay = math.log(10_000) / max(half - 1, 1)
    frequency = jnp.exp(-decay * jnp.arange(half, dtype=jnp.float32))
    angle = positions.astype(jnp.float32)[..., None] * frequency[None, None, :]
    return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1)


def grid_positions(
    table: jax.Array,
    grid: tuple[int, int],
    positions: jax.Array,
    sizes: jax.Array,
    antialias: bool = False,
) -> jax.Array:
    """Learned positions of patches, bilinear where an image's grid differs from the learned one.

    Pixel centres are aligned (no aligned corners). The interpolation weights are a matrix, so that
    the backward is a product and not a scatter.

    Args:
        table: `[rows of the grid * columns, d_model]`.
        grid: rows and columns of the learned grid.
        positions: `[rows, patches, 2]` row and column of each patch in its image.
        sizes: `[rows, patches, 2]` rows and columns of the image's grid; 0 at padding.
        antialias: average over more of the learned grid where the image's is smaller.

    Returns:
        `[rows, patches, d_model]` in the type of `table`.
    """
    vertical, horizontal = (
        _resize_weights(positions[..., axis], sizes[..., axis], grid[axis], antialias)
        for axis in (0, 1)
    )
    weights = vertical[..., :, None] * horizontal[..., None, :]
    flat = weights.reshape(*weights.shape[:2], -1)
    return jnp.matmul(flat, table, precision=jax.lax.Precision.HIGHEST)


def _resize_weights(
    position: jax.Array, size: jax.Array, learned: int, antialias: bool
) -> jax.Array:
    """Linear interpolation weights over `learned` points, exactly one-hot when `size` equals it.

    With antialiasing the hat is as wide as a patch of the image, `learned / size` points.
    """
    index, extent = position.astype(jnp.float32), jnp.maximum(size, 1).astype(jnp.float32)
    spacing = learned / extent
    source = jnp.where(size == learned, index, (index + 0.5) * spacing - 0.5)
    distance = jnp.abs(source[..., None] - jnp.arange(learned, dtype=jnp.float32)[None, None, :])
    width = jnp.maximum(1.0, spacing) if antialias else jnp.ones_like(spacing)
    weights = jnp.maximum(0.0, 1.0 - distance / width[..., None])
    # The sum is less than one at an image's border, and zero for positions that are no patches.
    return weights / jnp.maximum(jnp.sum(weights, axis=-1, keepdims=True), 1e-6)
