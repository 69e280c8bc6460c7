"""The GPU kernels on a GPU, against the reference in bfloat16: `pytest -m gpu`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mllm_jax.models.attention.dispatch import attention

TOKENS, HEADS, KV_HEADS, WIDTH = 512, 8, 4, 64
BACKENDS = ("cudnn", "pallas_gpu")


@pytest.fixture(autouse=True)
def gpu() -> None:
    """Skip where JAX has no NVIDIA GPU; it raises RuntimeError for a platform that is not there."""
    try:
        devices = jax.devices("cuda")
    except RuntimeError as error:
        pytest.skip(f"no NVIDIA GPU: {error}")
    jax.config.update("jax_default_device", devices[0])


pytestmark = pytest.mark.gpu


def inputs() -> list[jax.Array]:
    rng = np.random.default_rng(0)
    shapes = [(2, TOKENS, n, WIDTH) for n in (HEADS, KV_HEADS, KV_HEADS)]
    return [jnp.asarray(rng.normal(size=shape), jnp.bfloat16) for shape in shapes]


def segments() -> np.ndarray:
    """Two rows of segments of 1 to 250 tokens with padding at the end or at the start."""
    row = np.repeat([1, 2, 3, 4, 0], [130, 1, 250, 67, 64])
    return np.stack([row, row[::-1]]).astype(np.int32)


def run(backend: str, causal: bool, arrays: list[jax.Array]) -> tuple[jax.Array, list[jax.Array]]:
    """Outputs, and gradients of a function of the outputs outside of padding."""
    ids = jnp.asarray(segments())

    def loss(arrays: list[jax.Array]) -> tuple[jax.Array, jax.Array]:
        q, k, v = arrays
        out = attention(q, k, v, ids, causal=causal, backend=backend)
        used = out.astype(jnp.float32) * (ids > 0)[:, :, None, None]
        return jnp.sum(jnp.sin(used)), out

    (_, out), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(arrays)
    return out, gradients


def close(actual: Any, expected: Any, inside: Any) -> None:
    """Equal up to bfloat16's rounding (2^-8), measured against the largest value."""
    a, b = (np.asarray(x, np.float32)[inside] for x in (actual, expected))
    assert np.isfinite(a).all()
    assert np.abs(a - b).max() < 0.02 * np.abs(b).max()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
def test_outputs_and_gradients_are_those_of_the_reference(backend: str, causal: bool) -> None:
    arrays, inside = inputs(), segments() > 0
    out, gradients = run(backend, causal, arrays)
    expected, wanted = run("reference", causal, arrays)
    close(out, expected, inside)
    for actual, gradient in zip(gradients, wanted, strict=True):
        close(actual, gradient, inside)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_segment_does_not_reach_others(backend: str, causal: bool) -> None:
    ids = segments()
    before, slopes = run(backend, causal, inputs())
    for segment in (1, 3, 0):
        inside = (ids == segment)[:, :, None, None]
        changed = [jnp.where(inside, 5 * x + 1, x) for x in inputs()]
        after, changed_slopes = run(backend, causal, changed)
        others = (ids != segment) & (ids > 0)
        assert np.isfinite(np.asarray(after, np.float32)).all()
        pairs = zip([before, *slopes], [after, *changed_slopes], strict=True)
        for old, new in pairs:
            np.testing.assert_array_equal(np.asarray(old)[others], np.asarray(new)[others])
        if segment:
            assert not np.array_equal(np.asarray(before), np.asarray(after))
