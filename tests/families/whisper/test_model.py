"""Whisper's convolutions over packed clips."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mllm_jax.families.whisper.model import convolution_taps
from tests.models import towers

FRAMES = 24


def convolve(clip: np.ndarray, kernel: np.ndarray, stride: int) -> np.ndarray:
    """One clip alone, padded with one zero on each side: `[outputs, channels]`."""
    padded = np.pad(clip, ((1, 1), (0, 0)))
    starts = range(0, len(clip), stride)
    return np.stack([np.einsum("ki,kio->o", padded[s : s + 3], kernel) for s in starts])


@settings(max_examples=25)
@given(lengths=st.lists(st.integers(1, 7), min_size=1, max_size=3), stride=st.sampled_from([1, 2]))
def test_a_packed_clip_is_convolved_as_if_alone(lengths: list[int], stride: int) -> None:
    rng = np.random.default_rng(len(lengths))
    kernel = rng.normal(size=(3, 2, 4))
    # What lies in the slack between clips must not be read either.
    x = rng.normal(size=(1, FRAMES, 2)).astype(np.float32)
    rows = towers.lay([lengths], FRAMES, stride)
    read = np.asarray(convolution_taps(jnp.asarray(x), jnp.asarray(rows.ids), stride))
    actual = np.einsum("rtki,kio->rto", read, kernel)[0]
    for _, start, n in rows.spans:
        expected = convolve(x[0, start : start + n], kernel, stride)
        first = start // stride
        np.testing.assert_allclose(actual[first : first + len(expected)], expected, atol=1e-5)


def test_padding_reads_nothing() -> None:
    rows = towers.lay([[3]], 8, 2)
    read = np.asarray(convolution_taps(jnp.ones((1, 8, 2)), jnp.asarray(rows.ids), 1))
    assert (read[0, 3:] == 0).all()
    assert read[0, 2].sum() == pytest.approx(4)
