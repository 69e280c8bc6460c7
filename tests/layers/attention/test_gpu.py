"""The GPU kernels on a GPU: `pytest -m gpu`.

The cases of `mask_cases`, of every field of a mask, and longer rows against the reference, both in
bfloat16.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.cases.attention import LIMIT, AttentionCase
from mllm_jax.layers.attention.dispatch import compute_attention
from mllm_jax.layers.config.kinds import MaskKind
from tests.layers.attention.mask_cases import MASKS, check_mask, name_of

CASE = AttentionCase()
BACKENDS = ("cudnn", "pallas_gpu")
#: Masks of rows of several blocks.
LONG = (
    MaskKind(),
    MaskKind(causal=False),
    MaskKind(window=100),
    MaskKind(chunk=100),
    MaskKind(window=100, spans=True),
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("gpu"),
    # JAX 0.12 says so of every Triton kernel.
    pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated"),
]


def run(backend: str, mask: MaskKind, arrays: list[jax.Array]) -> tuple[jax.Array, list[jax.Array]]:
    return CASE.make_program(backend, mask)(arrays)


@pytest.mark.parametrize("mask", MASKS, ids=name_of)
@pytest.mark.parametrize("backend", BACKENDS)
def test_outputs_and_gradients_are_those_of_the_written_mask(backend: str, mask: MaskKind) -> None:
    check_mask(partial(compute_attention, backend=backend), mask, LIMIT, "bfloat16")


@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("mask", LONG, ids=name_of)
@pytest.mark.parametrize("backend", BACKENDS)
def test_outputs_and_gradients_are_those_of_the_reference(
    backend: str, mask: MaskKind, width: int
) -> None:
    case = AttentionCase(width=width)
    ways = (case.make_program(name, mask) for name in (backend, "reference"))
    found, expected = (way(case.inputs()) for way in ways)
    assert max(case.relative_errors(found, expected)) < LIMIT


@pytest.mark.parametrize("mask", LONG, ids=name_of)
def test_two_runs_are_equal_bit_by_bit(mask: MaskKind) -> None:
    case = AttentionCase(width=128)
    way = case.make_program("pallas_gpu", mask)
    for first, second in zip(*(jax.tree.leaves(way(case.inputs())) for _ in range(2)), strict=True):
        np.testing.assert_array_equal(np.asarray(first), np.asarray(second))


@pytest.mark.parametrize("mask", LONG[:2], ids=name_of)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_segment_does_not_reach_others(backend: str, mask: MaskKind) -> None:
    ids = CASE.segment_ids
    before, slopes = run(backend, mask, CASE.inputs())
    for segment in (1, 3, 0):
        inside = (ids == segment)[:, :, None, None]
        changed = [jnp.where(inside, 5 * x + 1, x) for x in CASE.inputs()]
        after, changed_slopes = run(backend, mask, changed)
        others = (ids != segment) & (ids > 0)
        assert np.isfinite(np.asarray(after, np.float32)).all()
        pairs = zip([before, *slopes], [after, *changed_slopes], strict=True)
        for old, new in pairs:
            np.testing.assert_array_equal(np.asarray(old)[others], np.asarray(new)[others])
        if segment:
            assert not np.array_equal(np.asarray(before), np.asarray(after))
