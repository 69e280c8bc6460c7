"""The GPU kernels on a GPU, against the reference in bfloat16: `pytest -m gpu`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.cases.attention import LIMIT, AttentionCase
from mllm_jax.layers.config.kinds import MaskKind

CASE = AttentionCase()
BACKENDS = ("cudnn", "pallas_gpu")
#: Whether a row is causal, and its window.
KINDS = ((True, None), (False, None), (True, 100))

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("gpu"),
    # JAX 0.12 says so of every Triton kernel.
    pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated"),
]


def run(backend: str, causal: bool, arrays: list[jax.Array]) -> tuple[jax.Array, list[jax.Array]]:
    return CASE.make_program(backend, MaskKind(causal))(arrays)


@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize(("causal", "window"), KINDS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_outputs_and_gradients_are_those_of_the_reference(
    backend: str, causal: bool, window: int | None, width: int
) -> None:
    case = AttentionCase(width=width)
    ways = (case.make_program(name, MaskKind(causal, window)) for name in (backend, "reference"))
    found, expected = (way(case.inputs()) for way in ways)
    assert max(case.relative_errors(found, expected)) < LIMIT


@pytest.mark.parametrize(("causal", "window"), KINDS)
def test_two_runs_are_equal_bit_by_bit(causal: bool, window: int | None) -> None:
    case = AttentionCase(width=128)
    way = case.make_program("pallas_gpu", MaskKind(causal, window))
    for first, second in zip(*(jax.tree.leaves(way(case.inputs())) for _ in range(2)), strict=True):
        np.testing.assert_array_equal(np.asarray(first), np.asarray(second))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_segment_does_not_reach_others(backend: str, causal: bool) -> None:
    ids = CASE.segment_ids
    before, slopes = run(backend, causal, CASE.inputs())
    for segment in (1, 3, 0):
        inside = (ids == segment)[:, :, None, None]
        changed = [jnp.where(inside, 5 * x + 1, x) for x in CASE.inputs()]
        after, changed_slopes = run(backend, causal, changed)
        others = (ids != segment) & (ids > 0)
        assert np.isfinite(np.asarray(after, np.float32)).all()
        pairs = zip([before, *slopes], [after, *changed_slopes], strict=True)
        for old, new in pairs:
            np.testing.assert_array_equal(np.asarray(old)[others], np.asarray(new)[others])
        if segment:
            assert not np.array_equal(np.asarray(before), np.asarray(after))
