"""Positions: learned grids, rotary frequencies, sinusoids."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mllm_jax.layers.config.kinds import RotarySpec
from mllm_jax.layers.config.parts import RopeScaling
from mllm_jax.layers.positions import compute_rotary, grid_positions, make_sinusoids, rotate_heads
from tests.models.references import rotate_pairs

GRID = (3, 4)
TABLE = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)

MOST = 81
POSITIONS = jax.jit(grid_positions, static_argnums=(1, 4))


def lookup(rows: int, columns: int, antialias: bool = False) -> np.ndarray:
    """Positions of an image of `rows x columns` patches, `[rows, columns, 5]`."""
    patches = np.stack(np.divmod(np.arange(MOST), columns), axis=-1)[None]
    sizes = np.broadcast_to([rows, columns], patches.shape)
    found = np.asarray(POSITIONS(TABLE, GRID, patches, sizes, antialias))[0, : rows * columns]
    return found.reshape(rows, columns, -1)


def bilinear(rows: int, columns: int) -> np.ndarray:
    """Bilinear interpolation with aligned pixel centres, one patch at a time."""
    table, out = TABLE.reshape(*GRID, -1), np.zeros((rows, columns, 5))
    for row, column in np.ndindex(rows, columns):
        y = np.clip((row + 0.5) * GRID[0] / rows - 0.5, 0, GRID[0] - 1)
        x = np.clip((column + 0.5) * GRID[1] / columns - 0.5, 0, GRID[1] - 1)
        for i in {math.floor(y), math.ceil(y)}:
            for j in {math.floor(x), math.ceil(x)}:
                out[row, column] += (1 - abs(y - i)) * (1 - abs(x - j)) * table[i, j]
    return out


def averaged(rows: int, columns: int) -> np.ndarray:
    """Bilinear interpolation with antialiasing: rows, then columns, weight by weight."""

    def weights(learned: int, size: int) -> np.ndarray:
        scale = max(1, learned / size)
        centres = (np.arange(size) + 0.5) * learned / size
        distance = np.abs(np.arange(learned)[None] + 0.5 - centres[:, None])
        hat = np.maximum(0, 1 - distance / scale)
        return hat / hat.sum(axis=1, keepdims=True)

    table = TABLE.reshape(*GRID, -1)
    return np.einsum("ri,cj,ijk->rck", weights(GRID[0], rows), weights(GRID[1], columns), table)


@pytest.mark.parametrize("antialias", [False, True])
def test_an_image_of_the_learned_size_reads_the_table_exactly(antialias: bool) -> None:
    np.testing.assert_array_equal(lookup(*GRID, antialias), TABLE.reshape(*GRID, -1))


@settings(max_examples=20)
@given(rows=st.integers(1, 9), columns=st.integers(1, 9))
def test_other_images_interpolate(rows: int, columns: int) -> None:
    np.testing.assert_allclose(lookup(rows, columns), bilinear(rows, columns), atol=1e-5)
    smooth = lookup(rows, columns, antialias=True)
    np.testing.assert_allclose(smooth, averaged(rows, columns), atol=1e-5)


def test_rotation_makes_scores_depend_on_distance_alone() -> None:
    q, k = np.random.default_rng(0).normal(size=(2, 1, 1, 1, 8)).astype(np.float32)

    def score(a: int, b: int) -> float:
        turned = [
            rotate_heads(x, compute_rotary(jnp.full((1, 1, 1), n), 8, RotarySpec(100.0)))
            for x, n in ((q, a), (k, b))
        ]
        return float(jnp.sum(turned[0] * turned[1]))

    assert score(3, 1) == pytest.approx(score(12, 10), abs=1e-5)
    assert score(3, 1) != pytest.approx(score(3, 2), abs=1e-3)


def test_llama3_scaling_keeps_fast_and_slows_slow_frequencies() -> None:
    scaling = RopeScaling(
        factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_positions=64
    )
    frequency = 1e4 ** (-np.arange(8) / 8)
    cos, sin = compute_rotary(jnp.ones((1, 1, 1), jnp.int32), 16, RotarySpec(1e4, scaling))
    actual = np.arctan2(sin, cos).ravel()
    wavelength = 2 * np.pi / frequency
    fast, slow = wavelength < 64 / 4, wavelength > 64 / 1
    np.testing.assert_allclose(actual[fast], frequency[fast], rtol=1e-5)
    np.testing.assert_allclose(actual[slow], frequency[slow] / 8, rtol=1e-4)
    between = ~fast & ~slow
    assert between.any()
    assert (actual[between] < frequency[between]).all()
    assert (actual[between] > frequency[between] / 8).all()


def test_sinusoids_are_whispers() -> None:
    actual = make_sinusoids(jnp.arange(20)[None], 8)[0]
    step = math.log(10_000) / 3
    angle = np.arange(20)[:, None] * np.exp(-step * np.arange(4))[None]
    expected = np.concatenate([np.sin(angle), np.cos(angle)], axis=1)
    np.testing.assert_allclose(actual, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("spec", "axes"),
    [
        (RotarySpec(1e4), [0] * 8),
        (RotarySpec(1e2, fraction=0.5), [0] * 4),
        (RotarySpec(1e4, sections=(2, 3, 3)), [0, 0, 1, 1, 1, 2, 2, 2]),
        (RotarySpec(1e4, sections=(4, 2, 2), interleaved=True), [0, 1, 2, 0, 1, 2, 0, 0]),
        (RotarySpec(1e4, fraction=0.75, sections=(3, 3)), [0, 0, 0, 1, 1, 1]),
    ],
    ids=str,
)
def test_each_frequency_turns_by_the_position_on_its_axis(
    spec: RotarySpec, axes: list[int]
) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 5, 3, 16)).astype(np.float32)
    positions = rng.integers(0, 20, (2, 5, spec.axes)).astype(np.int32)
    found = rotate_heads(jnp.asarray(x), compute_rotary(jnp.asarray(positions), 16, spec))
    np.testing.assert_allclose(found, rotate_pairs(x, positions, spec.theta, axes), atol=1e-4)


def test_without_sections_positions_of_several_axes_turn_by_the_first() -> None:
    positions = np.random.default_rng(0).integers(0, 20, (1, 5, 4)).astype(np.int32)
    found, expected = (
        compute_rotary(jnp.asarray(own), 8, RotarySpec(1e4))
        for own in (positions, positions[..., :1])
    )
    np.testing.assert_array_equal(found, expected)


def test_sections_of_more_axes_than_positions_have_are_refused() -> None:
    spec = RotarySpec(1e4, sections=(2, 1, 1))
    with pytest.raises(ValueError, match=r"\[2, 1, 1\] are of 3 axes, but positions have 2; valid"):
        compute_rotary(jnp.zeros((1, 5, 2), jnp.int32), 8, spec)


@pytest.mark.parametrize(
    ("fields", "head_dim", "reason"),
    [
        ({}, 15, "head_dim 15 must be even for rotary positions"),
        ({"fraction": 0.3}, 16, "head_dim 16 must be even .* share 0.3"),
        ({"fraction": 1.5}, 16, "fraction 1.5 is no share of a head"),
        ({"sections": (2, 2)}, 16, r"sections \[2, 2\] are 4 frequencies; valid: 8 together"),
        ({"sections": (8, 0)}, 16, r"sections \[8, 0\] must all be at least 1"),
        ({"sections": (2, 6), "interleaved": True}, 16, r"\[2, 6\] cannot be interleaved"),
        ({"interleaved": True}, 16, "interleaved has no effect without sections"),
    ],
)
def test_rotary_positions_that_fit_no_head_are_refused(
    fields: dict[str, Any], head_dim: int, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        RotarySpec(1e4, **fields).frequency_axes(head_dim)
