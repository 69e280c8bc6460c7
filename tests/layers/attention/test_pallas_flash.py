"""The flash attention of packed rows: which blocks it visits, and its kernels, interpreted."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mllm_jax.layers.attention.blocks import MaskBlocks, cut_padding
from mllm_jax.layers.attention.masks import TokenIds, to_row_positions, visible_keys
from mllm_jax.layers.attention.pallas_flash import (
    SIZES,
    KernelSizes,
    KernelTile,
    pallas_flash_attention,
)
from mllm_jax.layers.attention.reference import reference_attention
from mllm_jax.layers.config.kinds import MaskKind

TOKENS = 256
KINDS = (MaskKind(causal=False), MaskKind(), MaskKind(window=70))
SPANS = (MaskKind(spans=True), MaskKind(window=70, spans=True))
#: Unlike one another, and smaller than a row: every loop has several blocks.
SMALL = KernelSizes(KernelTile(64, 32, 4, 2), KernelTile(32, 64, 4, 2), KernelTile(32, 128, 4, 2))


@st.composite
def rows(draw: st.DrawFn, ordered: bool) -> np.ndarray:
    """A row of segments and padding; `ordered`: every segment is one piece, in order."""
    unit = draw(st.sampled_from([1, 32]))  # whole blocks of one segment are rare otherwise
    cuts = unit * np.array(draw(st.lists(st.integers(0, TOKENS // unit), max_size=9)), int)
    ids = np.searchsorted(np.sort(cuts), np.arange(TOKENS), side="right") + 1
    if ordered:
        return np.where(np.isin(ids, draw(st.lists(st.integers(1, 10), max_size=3))), 0, ids)
    return ids % draw(st.integers(1, 4))


# ---- blocks --------------------------------------------------------------------------------------


@partial(jax.jit, static_argnums=(1, 2, 3))
def _blocks(ids: jax.Array, kind: MaskKind, queries: int, keys: int, spans: Any = None) -> Any:
    """Both arrays of the blocks of queries, and of the blocks of keys, with bounds of loops."""
    blocks = MaskBlocks.of(TokenIds(cut_padding(ids), spans=spans), kind, queries, keys)
    return [(*own, own.loop_bounds) for own in (blocks, blocks.of_keys)]


@settings(max_examples=30)
@given(data=st.data(), ordered=st.booleans(), kind=st.sampled_from(KINDS + SPANS))
@pytest.mark.parametrize(("queries", "keys"), [(128, 64), (32, 128)])
def test_blocks_and_loops_are_those_of_the_mask(
    queries: int, keys: int, data: Any, ordered: bool, kind: MaskKind
) -> None:
    row = data.draw(rows(ordered))
    ids = np.stack([row, row[::-1]]).astype(np.int32)
    # Parts of segments; 0 is outside of spans.
    spans = ids * np.repeat(np.arange(TOKENS // 32) % 5 // 2, 32)
    cut, _ = to_row_positions(
        TokenIds(cut_padding(jnp.asarray(ids)), spans=jnp.asarray(spans)), kind
    )
    pairs = np.asarray(visible_keys(cut, cut, kind))
    pairs = pairs.reshape(2, TOKENS // queries, queries, TOKENS // keys, keys)
    found = _blocks(ids, kind, queries, keys, spans if kind.spans else None)
    visible, full, _ = found[0]
    if kind.spans:  # Order and spans together may show what neither shows alone.
        assert not (np.asarray(full) & ~pairs.all((2, 4))).any()
    else:
        np.testing.assert_array_equal(full, pairs.all((2, 4)))
    assert not (pairs.any((2, 4)) & ~np.asarray(visible)).any()
    if ordered and not kind.spans:
        np.testing.assert_array_equal(visible, pairs.any((2, 4)))
    for own in found:
        _check_spans(*map(np.asarray, own))


def _check_spans(visible: np.ndarray, full: np.ndarray, spans: np.ndarray) -> None:
    visible, full, spans = (x.reshape(-1, x.shape[2]) for x in (visible, full, spans))
    for own, full_row, bounds in zip(visible, full, spans, strict=True):
        first, last, begin, end = bounds.tolist()
        assert [first, last - 1] == np.flatnonzero(own)[[0, -1]].tolist()
        # The run without a mask is the first one, and whole.
        runs = np.flatnonzero(full_row)
        assert begin == (runs[0] if len(runs) else end)
        assert full_row[begin:end].all()
        assert not full_row[end : end + 1].any()


def test_what_needs_no_mask_ends_at_the_first_block_that_does() -> None:
    ids = np.repeat([1, 2, 1], [128, 32, 96])[None]
    _, (_, _, spans) = _blocks(ids, MaskKind(causal=False), 32, 128)
    assert spans[0].tolist() == [[0, 8, 0, 4], [0, 8, 0, 0]]


def _visited(ids: Any, kind: MaskKind) -> int:
    spans = np.asarray(_blocks(ids[None], kind, 128, 128)[0][2])[0]
    return int((spans[:, 1] - spans[:, 0]).sum())


def test_work_grows_with_segments_and_not_with_rows() -> None:
    """Of 32 x 32 blocks: triangles of segments, and one block for each of padding."""
    whole, halves, many = (np.repeat(np.arange(n) + 1, 4096 // n) for n in (1, 2, 32))
    assert [_visited(ids, MaskKind()) for ids in (whole, halves, many)] == [528, 272, 32]
    assert [_visited(ids, MaskKind(causal=False)) for ids in (whole, halves, many)] == [
        1024,
        512,
        32,
    ]
    assert _visited(whole, MaskKind(window=128)) == 1 + 31 * 2
    around = np.repeat([0, 1, 0], [1024, 2048, 1024])
    assert _visited(around, MaskKind(causal=False)) == 256 + 16


# ---- kernels -------------------------------------------------------------------------------------


def _inputs() -> list[np.ndarray]:
    """Three heads of queries for one of keys, of a width that is no power of two."""
    rng = np.random.default_rng(0)
    shapes = [(2, TOKENS, heads, 24) for heads in (6, 2, 2, 6)]
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


@cache
def _program(kind: MaskKind, ours: bool) -> Any:
    """Output and gradients."""

    def attend(q: Any, k: Any, v: Any, ids: Any) -> Any:
        if not ours:
            return reference_attention(q, k, v, *to_row_positions(TokenIds(cut_padding(ids)), kind))
        return pallas_flash_attention(q, k, v, TokenIds(ids), kind, interpret=True, sizes=SMALL)

    def run(q: Any, k: Any, v: Any, gradient: Any, ids: Any) -> Any:
        out, pull = jax.vjp(lambda q, k, v: attend(q, k, v, ids), q, k, v)
        return out, *pull(gradient)

    return jax.jit(run)


@settings(max_examples=6)
@given(data=st.data(), ordered=st.booleans())
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_outputs_and_gradients_are_those_of_the_reference(
    kind: MaskKind, data: Any, ordered: bool
) -> None:
    """Padding too, which sees the padding of its 128 tokens."""
    row = data.draw(rows(ordered))
    ids = np.stack([row, row[::-1]]).astype(np.int32)
    found, expected = (_program(kind, ours)(*_inputs(), ids) for ours in (True, False))
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, other, atol=2e-5)


@pytest.mark.parametrize("size", [8, 48, 256])
def test_blocks_of_other_sizes_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"a block of {size} tokens: .*powers of two from 16"):
        KernelTile(queries=size, keys=64, warps=4, stages=2)


# ---- lowering ------------------------------------------------------------------------------------

#: JAX 0.12 lowers Triton kernels for a device that is named.
H100 = jax.sharding.AbstractMesh(
    (1,),
    ("x",),
    abstract_device=jax.sharding.AbstractDevice(
        device_kind="NVIDIA H100 80GB HBM3", num_cores=None, platform="gpu"
    ),
)


@pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated")
@pytest.mark.parametrize("width", SIZES)
def test_triton_has_a_rule_for_every_operation(width: int) -> None:
    """Those of every field that kernels compute, as the others are ids."""

    def run(q: Any, k: Any, v: Any, ids: Any) -> Any:
        rest = TokenIds(ids, spans=ids), MaskKind(window=200, spans=True)
        out, pull = jax.vjp(lambda q, k, v: pallas_flash_attention(q, k, v, *rest), q, k, v)
        return out, *pull(out)

    arrays = [jax.ShapeDtypeStruct((2, 256, heads, width), jnp.bfloat16) for heads in (4, 2, 2)]
    ids = jax.ShapeDtypeStruct((2, 256), jnp.int32)
    with jax.sharding.use_abstract_mesh(H100):
        lowered = jax.jit(run).trace(*arrays, ids).lower(lowering_platforms=("cuda",))
    text = lowered.as_text()
    assert text.count("xla.gpu.triton") == 3
