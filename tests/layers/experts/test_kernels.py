"""Products by groups of every platform: kernels interpreted on a CPU, and compiled for others."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mllm_jax.compile.hlo import instruction_flops, parse_hlo
from mllm_jax.compile.target import CompileTarget
from mllm_jax.layers.experts import tiles, tpu, triton
from mllm_jax.layers.experts.grouped import grouped_product

WAYS = {"cpu": (tiles, {}), "gpu": (triton, {"interpret": True}), "tpu": (tpu, {"interpret": True})}
GROUPS, ROWS, INPUTS, OUTPUTS = 5, 300, 40, 24


@cache
def all_three(platform: str) -> Any:
    """Results, and gradients of rows and of kernels, as one compiled program."""
    module, options = WAYS[platform]

    def run(rows: Any, kernels: Any, gradient: Any, counts: Any) -> Any:
        return (
            module.product(rows, kernels, counts, transposed=False, **options),
            module.product(gradient, kernels, counts, transposed=True, **options),
            module.of_kernels(rows, gradient, counts, **options),
        )

    return jax.jit(run)


def by_hand(rows: Any, kernels: Any, gradient: Any, counts: Any) -> list[np.ndarray]:
    """The same, one product for each group."""
    made, of_rows = np.zeros((ROWS, OUTPUTS), "f4"), np.zeros((ROWS, INPUTS), "f4")
    of_kernels, end = np.zeros_like(kernels), 0
    for group, count in enumerate(counts):
        own, end = slice(end, end + count), end + count
        made[own] = rows[own] @ kernels[group]
        of_rows[own] = gradient[own] @ kernels[group].T
        of_kernels[group] = rows[own].T @ gradient[own]
    return [made, of_rows, of_kernels]


@pytest.mark.parametrize("platform", WAYS)
@settings(max_examples=25)
@given(st.lists(st.integers(0, ROWS // GROUPS), min_size=GROUPS, max_size=GROUPS))
@example([0] * GROUPS)
@example([0, 0, ROWS, 0, 0])
@example([128, 0, 128, 1, ROWS - 257])
def test_products_are_those_of_one_product_for_each_group(platform: str, counts: list[int]) -> None:
    make = np.random.default_rng(sum(counts))
    shapes = (ROWS, INPUTS), (GROUPS, INPUTS, OUTPUTS), (ROWS, OUTPUTS)
    rows, kernels, gradient = (make.normal(size=shape).astype("f4") for shape in shapes)
    trailing = sum(counts)
    expected = by_hand(rows, kernels, gradient, counts)
    # The gradient of rows after the groups is zero, as their results are; on CPUs it has to be.
    rows[trailing:], gradient[trailing:] = np.nan, 0 if platform == "cpu" else np.nan
    found = all_three(platform)(rows, kernels, gradient, np.array(counts, np.int32))
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("module", [triton, tpu], ids=["gpu", "tpu"])
def test_widths_of_several_blocks(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 128 columns, so that all dimensions have several."""
    monkeypatch.setattr(tpu, "WIDTH", 512)
    make = np.random.default_rng(0)
    shapes = (48, 384), (2, 384, 256), (48, 256)
    rows, kernels, gradient = (make.normal(size=shape).astype("f4") for shape in shapes)
    given = partial(module.product, counts=np.array([19, 25], np.int32), interpret=True)
    made, of_rows = (
        given(rows, kernels, transposed=False),
        given(gradient, kernels, transposed=True),
    )
    of_kernels = module.of_kernels(rows, gradient, np.array([19, 25], np.int32), interpret=True)
    for group, own in enumerate((slice(0, 19), slice(19, 44))):
        close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4)
        close(made[own], rows[own] @ kernels[group])
        close(of_rows[own], gradient[own] @ kernels[group].T)
        close(of_kernels[group], rows[own].T @ gradient[own])
    assert not np.any(made[44:])


@pytest.mark.parametrize("groups", [4, 64])
def test_kernels_multiply_at_most_twice_the_rows(groups: int) -> None:
    """Blocks times visits, for groups of 128 rows and more in the mean, not alike."""
    rows = 8192
    share = np.random.default_rng(groups).dirichlet([4.0] * groups)
    counts = np.random.default_rng(0).multinomial(rows, share).astype(np.int32)
    size = tpu.block_rows(rows, groups)
    _, after = tpu._BlockVisits.of(jnp.asarray(counts), rows, size)
    assert rows <= int(after[-2]) * size <= 2 * rows
    size = triton.block_rows(rows, groups)
    assert rows <= int(np.sum(-(-counts // size))) * size <= 2 * rows


# ---- compiled ------------------------------------------------------------------------------------

TARGETS = CompileTarget.parse("tpu:v5p:2x2x1"), CompileTarget.parse("gpu:h100:1x1")


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(TARGETS[0], marks=pytest.mark.tpu_compile),
        pytest.param(TARGETS[1], marks=pytest.mark.gpu_compile),
    ],
    ids=str,
)
def test_work_of_accelerators_is_that_of_the_rows_and_not_of_the_groups(
    target: CompileTarget,
) -> None:
    """Forward and backward, in FLOPs of the compiled program and in bytes that it holds."""
    pytest.importorskip(target.compiler.module)
    rows, inputs, outputs = 1024, 256, 128
    active = 3 * 2 * rows * inputs * outputs
    for groups in (4, 64):
        program = compiled(target, rows, groups, inputs, outputs)
        module = parse_hlo(program.as_text())
        entry = module[module.entry]
        assert sum(instruction_flops(module, entry, i) for i in entry.instructions) == active
        for costs in [program.cost_analysis() or {}]:  # of TPUs alone
            assert active <= costs.get("flops", active) < 1.3 * active
        # Compilers bring rows and gradients into fast memory. One copy of the rows for every group,
        # or a copy of 64 kernels, would take more.
        held = 2 * rows * (inputs + outputs)
        assert program.memory_analysis().temp_size_in_bytes < held


def compiled(target: CompileTarget, rows: int, groups: int, inputs: int, outputs: int) -> Any:
    """A product and its gradients, compiled for one device of `target`."""
    mesh = Mesh(np.array(target.devices()[:1]), "x")

    def run(rows: Any, kernels: Any, gradient: Any, counts: Any) -> Any:
        made, pull = jax.vjp(lambda x, w: grouped_product(x, w, counts), rows, kernels)
        return made, *pull(gradient)

    whole = PartitionSpec()
    shapes = (rows, inputs), (groups, inputs, outputs), (rows, outputs)
    place = partial(jax.ShapeDtypeStruct, sharding=NamedSharding(mesh, whole))
    given = [place(shape, jnp.bfloat16) for shape in shapes]
    mapped = jax.jit(jax.shard_map(run, mesh=mesh, in_specs=whole, out_specs=whole))
    lowered = mapped.lower(*given, place((groups,), jnp.int32))
    return lowered.compile(compiler_options=dict(target.compiler.options))
