"""Every attention backend against plain numpy, and what each refuses."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from mllm_jax.layers.attention.blockwise import blockwise_attention, find_windows, window_widths
from mllm_jax.layers.attention.dispatch import compute_attention
from mllm_jax.layers.attention.limits import AttentionError, check_backend
from mllm_jax.layers.attention.masks import TokenIds, to_row_positions
from mllm_jax.layers.attention.reference import reference_attention
from mllm_jax.layers.config.kinds import MaskKind
from sharding.collectives import psum
from tests.layers.attention.mask_cases import BACKENDS, Attend
from tests.models.towers import quick

TOKENS = 128


def ordered(attend: Attend) -> Attend:
    """A backend as `compute_attention` calls it, of segment ids and the first fields of a mask."""

    def run(q: Any, k: Any, v: Any, ids: Any, *mask: Any) -> jax.Array:
        return attend(q, k, v, *to_row_positions(TokenIds(jnp.asarray(ids)), MaskKind(*mask)))

    return run


def gradients(attend: Attend) -> Attend:
    """Gradients of queries, keys and values, of the inputs of `ordered`."""

    def total(*inputs: Any) -> jax.Array:
        return jnp.sin(ordered(attend)(*inputs)).sum()

    return jax.jit(jax.grad(total, argnums=(0, 1, 2)), static_argnums=(4, 5))


GRADIENTS = {
    "blockwise": gradients(partial(blockwise_attention, block=8)),
    "reference": gradients(reference_attention),
}
REFERENCE = jax.jit(ordered(reference_attention), static_argnums=4)


def inputs(tokens: int, heads: int = 4, kv_heads: int = 2, width: int = 16) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = [(2, tokens, n, width) for n in (heads, kv_heads, kv_heads)]
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def naive(q: Any, k: Any, v: Any, ids: np.ndarray, causal: bool) -> np.ndarray:
    """One query at a time, in float64."""
    out, group = np.zeros(q.shape), q.shape[2] // k.shape[2]
    for row, token, head in np.ndindex(q.shape[:3]):
        seen = ids[row] == ids[row, token]
        seen &= (np.arange(len(seen)) <= token) | (not causal)
        keys, values = (x[row, seen, head // group].astype(np.float64) for x in (k, v))
        weights = np.exp(keys @ q[row, token, head] / np.sqrt(q.shape[3]))
        out[row, token, head] = weights @ values / weights.sum()
    return out


def segments(cuts: list[int], tokens: int) -> np.ndarray:
    """Two rows of segments that end at `cuts`; the last is padding. The second row is reversed."""
    row = np.searchsorted(np.sort(cuts), np.arange(tokens), side="right") + 1
    row[row == row.max()] = 0
    return np.stack([row, row[::-1]]).astype(np.int32)


@settings(max_examples=10)
@given(cuts=st.lists(st.integers(1, TOKENS - 1), min_size=1, max_size=6), causal=st.booleans())
def test_reference_is_softmax_within_segments(cuts: list[int], causal: bool) -> None:
    q, k, v = inputs(TOKENS)
    ids = segments(cuts, TOKENS)
    expected = naive(q, k, v, ids, causal)
    np.testing.assert_allclose(REFERENCE(q, k, v, ids, causal), expected, atol=1e-5)


@pytest.mark.parametrize("tokens", [1, 3, 65])
def test_reference_takes_any_number_of_tokens(tokens: int) -> None:
    q, k, v = inputs(tokens)
    ids = np.ones((2, tokens), np.int32)
    np.testing.assert_allclose(REFERENCE(q, k, v, ids, True), naive(q, k, v, ids, True), atol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_segment_does_not_reach_others(backend: str, causal: bool) -> None:
    q, k, v = inputs(TOKENS)
    ids = segments([30, 31, 90], TOKENS)
    run = quick(lambda q, k, v: ordered(BACKENDS[backend])(q, k, v, ids, causal))
    before = np.asarray(run(q, k, v))
    for segment in (1, 3, 0):
        inside = (ids == segment)[:, :, None, None]
        after = np.asarray(run(*(np.where(inside, 5 * x + 1, x) for x in (q, k, v))))
        assert np.isfinite(after).all()
        same = (before == after).all(axis=(2, 3))
        np.testing.assert_array_equal(same, ids != segment)


@settings(max_examples=10)
@given(cuts=st.lists(st.integers(1, 67), min_size=1, max_size=8), apart=st.booleans())
@pytest.mark.parametrize(("causal", "window"), [(True, None), (False, None), (True, 30)])
def test_windows_hide_no_key(
    causal: bool, window: int | None, cuts: list[int], apart: bool
) -> None:
    """Gradients too; in rows that are no whole blocks, with segments in pieces."""
    q, k, v = inputs(70)
    ids = segments(cuts, 70)
    if apart:
        ids %= 3
    for ours, theirs in zip(
        GRADIENTS["blockwise"](q, k, v, ids, causal, window),
        GRADIENTS["reference"](q, k, v, ids, causal, window),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


def test_windows_are_as_wide_as_segments_need() -> None:
    ids = np.repeat([1, 2, 3, 4], [8, 40, 8, 8])[None]

    def of(mask: MaskKind) -> Any:
        tokens, mask = to_row_positions(TokenIds(jnp.asarray(ids)), mask)
        return find_windows(tokens, mask, block=8)

    found = of(MaskKind())
    assert window_widths(64, 8) == [16, 32, 64]
    # Ends of blocks: 8, 16, ..., 64; the first of 2 lies at 8.
    assert found.width.tolist() == [0, 0, 0, 1, 1, 2, 0, 0]
    assert found.key.tolist() == [0, 8, 8, 8, 8, 0, 48, 48]
    found = of(MaskKind(causal=False))
    assert found.width.tolist() == [0, *[2] * 5, 0, 0]
    found = of(MaskKind(window=4))
    assert found.width.tolist() == [0] * 8
    assert found.key.tolist() == [0, 8, 13, 21, 29, 37, 48, 48]


@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "reference"])
def test_kernels_equal_the_reference_inside_shard_map(backend: str) -> None:
    """Heads on two devices, in a scan with recomputation, with checked types; gradients too."""
    arrays = inputs(TOKENS)
    ids = segments([50, 100], TOKENS)
    heads = P(None, None, "tensor")

    def loss(attend: Attend, axes: tuple[str, ...], arrays: Any, ids: Any) -> jax.Array:
        def layer(q: jax.Array, _: None) -> tuple[jax.Array, None]:
            return ordered(attend)(q, *arrays[1:], ids, True), None

        q = jax.lax.scan(jax.checkpoint(layer, prevent_cse=False), arrays[0], length=2)[0]
        return psum(jnp.sum(jnp.sin(q) * (ids > 0)[:, :, None, None]), axes)

    sharded = jax.shard_map(
        jax.value_and_grad(partial(loss, BACKENDS[backend], ("tensor",))),
        mesh=jax.make_mesh((2,), ("tensor",), (AxisType.Auto,), devices=jax.devices()[:2]),
        in_specs=([heads] * 3, P()),
        out_specs=(P(), [heads] * 3),
        check_vma=True,
    )
    value, gradients = quick(sharded)(arrays, ids)
    expected, wanted = quick(jax.value_and_grad(partial(loss, reference_attention, ())))(
        arrays, ids
    )
    assert float(value) == pytest.approx(float(expected), rel=1e-4, abs=1e-4)
    for a, b in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-4)


@pytest.mark.parametrize(
    ("backend", "mask"),
    [
        ("pallas_gpu", MaskKind()),
        *[("splash", mask) for mask in (MaskKind(), MaskKind(causal=False), MaskKind(window=100))],
    ],
)
def test_kernels_trace_inside_shard_map(backend: str, mask: MaskKind) -> None:
    heads = P(None, None, "tensor")
    arrays = [jax.ShapeDtypeStruct((2, 256, n, 64), jnp.bfloat16) for n in (4, 2, 2)]

    def loss(arrays: Any, ids: jax.Array) -> jax.Array:
        q, k, v = arrays
        out = compute_attention(q, k, v, TokenIds(ids), mask, backend)
        return psum(jnp.sum(out.astype(jnp.float32)), ("tensor",))

    sharded = jax.shard_map(
        jax.grad(loss),
        mesh=jax.make_mesh((2,), ("tensor",), (AxisType.Auto,), devices=jax.devices()[:2]),
        in_specs=([heads] * 3, P()),
        out_specs=[heads] * 3,
        check_vma=True,
    )
    ids = jax.ShapeDtypeStruct((2, 256), jnp.int32)
    traced = jax.jit(sharded).trace(arrays, ids)
    assert "pallas_call" in str(traced.jaxpr)
    if backend == "splash":  # Triton's lowering asks for a GPU from JAX 0.12 on
        assert "tpu_custom_call" in traced.lower(lowering_platforms=("tpu",)).as_text()


@pytest.mark.parametrize(
    ("backend", "platform", "shape", "reason"),
    [
        ("splash", "cpu", {}, "it runs on tpu, not on cpu; valid here: reference"),
        ("splash", "tpu", {"tokens": 100}, "100 tokens.* multiple of 128; valid here: reference"),
        ("cudnn", "gpu", {"head_dim": 20}, "head_dim 20.*; valid here: .*pallas_gpu"),
        ("pallas_gpu", "gpu", {"dtype": "float32"}, "float32.*; valid here: reference"),
        ("flash", "gpu", {}, "not one of reference, blockwise, cudnn, pallas_gpu, splash"),
    ],
)
def test_what_a_backend_cannot_do_is_refused(
    backend: str, platform: str, shape: dict[str, Any], reason: str
) -> None:
    asked = {"tokens": 256, "head_dim": 64, "dtype": "bfloat16", **shape}
    with pytest.raises(AttentionError, match=reason):
        check_backend(backend, platform, **asked)


def test_attention_refuses_shapes_at_the_call() -> None:
    q, k, v = (jnp.asarray(x) for x in inputs(100))
    with pytest.raises(AttentionError, match="100 tokens"):
        compute_attention(q, k, v, TokenIds(jnp.ones((2, 100), jnp.int32)), MaskKind(), "splash")
