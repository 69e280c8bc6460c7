"""Collectives over runs of axes against what they are on whole arrays."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from mllm_jax.compile.target import CompileTarget
from sharding import collectives
from sharding.collectives import (
    all_gather,
    all_gather_as,
    cut_slices,
    join_slices,
    parts_of_a_slice,
    reduce_scatter,
    shard_slice,
)

AXES = ("outer", "tensor")


def both(x: jax.Array, dim: int) -> tuple[jax.Array, jax.Array]:
    """The gathered `x`, and the scattered sum of a different multiple of it on every rank."""
    gathered = all_gather(x, AXES, dim)
    rank = jax.lax.axis_index(AXES)
    return gathered, reduce_scatter(gathered * (1 + rank), AXES, dim)


@pytest.mark.parametrize(
    ("shape", "dim"), [((1, 8, 3), 1), ((2, 8, 3), 1), ((8, 3), 0), ((1, 1, 4, 2), 2), ((3, 4), 1)]
)
def test_shards_are_joined_and_sums_distributed_with_their_gradients(shape, dim):
    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), AXES)
    x = jnp.arange(np.prod(shape), dtype=jnp.float32).reshape(shape)
    spec = P(*[None] * dim, AXES)

    def local(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        gathered, scattered = both(x, dim)
        return gathered[None], scattered

    run = jax.jit(jax.shard_map(local, mesh=mesh, in_specs=spec, out_specs=(P(AXES), spec)))
    gathered, scattered = run(x)
    assert gathered.shape == (4, *shape)
    np.testing.assert_array_equal(gathered, np.broadcast_to(x, gathered.shape))
    np.testing.assert_array_equal(scattered, 10 * x)
    # Each gathered copy counts by rank, as does each term of the sum: (1 + 2 + 3 + 4) * 2.
    weights = jnp.arange(1.0, 5.0).reshape(4, *[1] * len(shape))

    def total(x: jax.Array) -> jax.Array:
        gathered, scattered = run(x)
        return jnp.sum(weights * gathered) + jnp.sum(scattered)

    gradient = jax.grad(total)(x)
    np.testing.assert_array_equal(gradient, np.full(shape, 20.0))


@pytest.mark.parametrize("axes", [(), ("outer",), AXES])
@pytest.mark.parametrize(("shape", "dim"), [((8, 3), 0), ((2, 8, 3), 1), ((3, 4), 1)])
def test_slices_of_what_all_ranks_have_are_joined_again(shape, dim, axes):
    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), AXES)
    x = jnp.arange(np.prod(shape), dtype=jnp.float32).reshape(shape)

    def local(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        part = shard_slice(x, axes, dim)
        return part, join_slices(part, axes, dim)

    specs = P(*[None] * dim, axes or None), P()
    slices, complete = jax.jit(jax.shard_map(local, mesh=mesh, in_specs=P(), out_specs=specs))(x)
    np.testing.assert_array_equal(slices, x)
    np.testing.assert_array_equal(complete, x)


def test_gradients_of_what_is_gathered_in_bfloat16_are_added_in_float32():
    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), AXES)
    # 256, 1, -256 and 1 of the ranks: in bfloat16, 257 is 256 and their sum depends on the order.
    weights = jnp.array([256.0, 1.0, -256.0, 1.0]).reshape(4, 1)

    def local(x: jax.Array, weight: jax.Array) -> jax.Array:
        complete = all_gather_as(x, AXES, 0, jnp.dtype("bfloat16"))
        assert complete.dtype == jnp.bfloat16
        return jnp.sum(complete * weight[0, 0].astype(complete.dtype))[None].astype(jnp.float32)

    run = jax.shard_map(local, mesh=mesh, in_specs=(P(AXES), P(AXES)), out_specs=P(AXES))
    x = 1 + 2.0**-9 * jnp.arange(8.0)
    gradient = jax.jit(jax.grad(lambda x: jnp.sum(run(x, weights))))(x)
    assert gradient.dtype == jnp.float32
    np.testing.assert_array_equal(gradient, np.full(8, 2.0))
    rounded = x.astype(jnp.bfloat16).astype(jnp.float32)
    complete = jax.jit(run)(x, jnp.array([1.0, 0.0, 0.0, 0.0]).reshape(4, 1))[0]
    assert float(complete) == float(jnp.sum(rounded).astype(jnp.bfloat16))


@pytest.mark.slow
@pytest.mark.tpu_compile
def test_a_tpu_scatters_the_sums_of_one_row_and_does_not_reduce_them_whole():
    pytest.importorskip("libtpu")
    devices = CompileTarget.parse("tpu:v5p:4x4x2").devices()
    mesh = Mesh(np.array(devices).reshape(4, 8), AXES)

    def local(x: jax.Array, w: jax.Array) -> jax.Array:
        return reduce_scatter(all_gather(x, ("tensor",), 1) @ w, ("tensor",), 1)

    specs = P(*AXES), P(None, "tensor")
    run = jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=P(*AXES))
    # Each rank has a product of its own: of equal ones the compiler makes no sum.
    shapes = [((4, 4096, 1024), P(*AXES)), ((1024, 8192), P(None, "tensor"))]
    arguments = [
        jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=NamedSharding(mesh, spec))
        for shape, spec in shapes
    ]
    text = jax.jit(run).lower(*arguments).compile().as_text()
    assert re.search(r"\breduce-scatter\(", text)
    assert not re.search(r"\ball-reduce\(", text)


LENGTHS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=4)


@given(LENGTHS, st.integers(1, 9))
def test_parts_of_slices_are_the_slices(pairs, parts):
    sent, received = np.array(pairs, np.int32).T
    begins, output_offsets = np.cumsum(sent) - sent, 100 * np.arange(len(sent))
    result = np.asarray(cut_slices(jnp.asarray([begins, sent, output_offsets, received]), parts))
    assert result.shape == (4, len(sent) * parts)
    cut = result.reshape(4, len(sent), parts)
    for rank, (begin, length, target, arriving) in enumerate(
        zip(begins, sent, output_offsets, received, strict=True)
    ):
        for starts, first in ((cut[0, rank], begin), (cut[2, rank], target)):
            at = [
                i
                for start, n in zip(starts, cut[1, rank], strict=True)
                for i in range(start, start + n)
            ]
            assert at == [*range(first, first + length)]
            assert starts.max() <= first + length
        # The parts that arrive are as long as those that the other rank sends.
        other = np.asarray(cut_slices(jnp.full((4, 1), arriving, jnp.int32), parts))
        np.testing.assert_array_equal(cut[3, rank], other[1])


@pytest.mark.parametrize(
    ("platform", "host", "axes", "parts"),
    [
        ("gpu", 8, ("outer",), 256),
        ("gpu", 8, ("tensor",), 128),
        ("gpu", 8, ("outer", "tensor"), 64),
        ("gpu", 4, ("outer",), 1),
        ("gpu", 4, ("tensor",), 128),
        ("gpu", 6, ("tensor",), 1),
        ("tpu", 8, ("tensor",), 1),
    ],
)
def test_slices_are_cut_between_gpus_of_one_host(monkeypatch, platform, host, axes, parts):
    monkeypatch.setattr(collectives, "traced_platform", lambda: platform)
    monkeypatch.setattr(collectives, "GPUS_OF_A_HOST", host)
    results = []

    def local(x: jax.Array) -> jax.Array:
        results.append(parts_of_a_slice(axes))
        return x

    mesh = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), AXES)
    jax.eval_shape(jax.shard_map(local, mesh=mesh, in_specs=P(), out_specs=P()), jnp.zeros(1))
    assert results == [parts]
