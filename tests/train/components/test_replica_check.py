"""Replicas make the same bits of the same rows, and a bit that flips is found with its device."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh

from mllm_jax.check.synthetic import synthetic_batch
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.train.components.replica_check import (
    ReplicaCheck,
    ReplicaDifference,
    _digest_leaf,
)
from mllm_jax.train.step.batch_placement import place_microbatches
from mllm_jax.train.step.build import build_gradient_step, build_step
from mllm_jax.train.step.gradient_program import Batch
from mllm_jax.train.step.step import TrainStep
from sharding.mesh import rolled_mesh
from sharding.plan import ParallelPlan
from tests.train.models import small_model

#: Four replicas of the decoder; the encoder's rows come from other devices.
FOUR = {"decoder": ParallelPlan(data=4), "vision": ParallelPlan(data=2, tensor=2)}


def drawn(step: TrainStep) -> Any:
    """Parameters at random, without a program that makes them."""
    random = np.random.default_rng(0)

    def leaf(like: jax.ShapeDtypeStruct) -> jax.Array:
        whole = random.normal(0, 0.2, like.shape).astype(np.float32)
        return jax.make_array_from_callback(like.shape, like.sharding, whole.__getitem__)

    return jax.tree.map(leaf, step.abstract_state["params"])


@pytest.fixture(scope="module")
def model() -> ModelConfig:
    whole = small_model().model_dump(mode="json")
    whole["decoder"]["layers"] = whole["encoders"]["vision"]["layers"] = 1
    encoders = {"vision": whole["encoders"]["vision"]}
    return ModelConfig.model_validate(whole | {"encoders": encoders})


@pytest.fixture(scope="module")
def step(model: ModelConfig) -> TrainStep:
    return build_step(model, FOUR)


@pytest.fixture(scope="module")
def check(step: TrainStep) -> ReplicaCheck:
    return ReplicaCheck(step)


@pytest.fixture(scope="module")
def params(step: TrainStep) -> Any:
    return drawn(step)


@pytest.fixture(scope="module")
def batch(model: ModelConfig, step: TrainStep) -> Any:
    return place_microbatches(
        [synthetic_batch(model, 4, 16, {"vision": 16}, seed) for seed in (0, 1)], step
    )


def flipped(leaf: jax.Array, number: int) -> jax.Array:
    """A copy of an array whose copy on one device has one other bit."""
    parts = [np.array(shard.data) for shard in leaf.addressable_shards]
    parts[number].reshape(-1).view(np.uint32)[3] ^= 1 << 20
    arrays = [
        jax.device_put(part, shard.device)
        for part, shard in zip(parts, leaf.addressable_shards, strict=True)
    ]
    return jax.make_array_from_single_device_arrays(leaf.shape, leaf.sharding, arrays)


def test_replicas_make_the_same_bits(check: ReplicaCheck, params: Any, batch: Batch) -> None:
    assert check(params, batch) is None


@pytest.mark.parametrize("number", [0, 3])
def test_a_flipped_bit_is_found_with_its_device(
    check: ReplicaCheck, params: Any, batch: Batch, number: int
) -> None:
    leaves, tree = jax.tree.flatten(params)
    at = next(i for i, leaf in enumerate(leaves) if leaf.ndim > 2 and leaf.is_fully_replicated)
    leaves[at] = flipped(leaves[at], number)
    found = check(jax.tree.unflatten(tree, leaves), batch)
    assert found is not None
    assert [device.id for device in found.suspects] == [number]
    assert str(found).startswith(f"device {number} of process 0 computes wrongly: what ranks ")


WORDS = 96
#: Digests of `[cases, WORDS]`, in one program.
digests = jax.jit(jax.vmap(_digest_leaf))


@given(
    seed=st.integers(0, 2**32 - 1),
    bit=st.integers(0, 31),
    places=st.sets(st.integers(0, WORDS - 1), min_size=1, max_size=16),
)
def test_a_digest_tells_that_the_same_bit_has_flipped_in_some_places(
    seed: int, bit: int, places: set[int]
) -> None:
    """Also an even number of times, of which a sum of products would see nothing."""
    words = np.random.default_rng(seed).normal(size=WORDS).astype(np.float32)
    other = words.copy()
    other.view(np.uint32)[sorted(places)] ^= np.uint32(1 << bit)
    first, second = np.asarray(digests(np.stack([words, other])))
    assert (first != second).all()


def test_a_digest_tells_values_that_have_changed_their_places_and_all_signs() -> None:
    words = np.random.default_rng(0).normal(size=WORDS).astype(np.float32)
    swapped = words[[1, 0, *range(2, WORDS)]]
    found = np.asarray(digests(np.stack([words, swapped, -words, words[::-1]])))
    assert len({*map(tuple, found.tolist())}) == len(found)


def test_each_rank_lies_on_the_devices_of_the_next_one() -> None:
    devices = np.array(jax.devices()).reshape(2, 2, 2)
    mesh = Mesh(devices, ("data", "stage", "fsdp"))
    one = rolled_mesh(mesh, ("data",)).devices
    assert [device.id for device in one.flat] == [4, 5, 6, 7, 0, 1, 2, 3]
    two = rolled_mesh(mesh, ("data", "fsdp")).devices
    # Ranks 0 to 3 of stage 0 have devices 0, 1, 4 and 5.
    assert [device.id for device in two[:, 0].flat] == [1, 4, 5, 0]
    assert [device.id for device in two[:, 1].flat] == [3, 6, 7, 2]


def difference(
    check: ReplicaCheck, first: list[int], second: list[int]
) -> ReplicaDifference | None:
    """What is found where these ranks are wrong on their own devices, and on the next ones."""
    made = np.zeros((4, 3, 2), np.uint32)
    again = made.copy()
    made[first, 1, 1] = 7
    again[second, 1, 0] = 9
    return check._find_difference(made, again)


def test_a_device_that_is_wrong_both_times_is_told_from_its_neighbours(check: ReplicaCheck) -> None:
    found = difference(check, [2], [1])
    assert found
    assert (found.ranks, [device.id for device in found.suspects]) == ((1, 2), [2])
    assert difference(check, [], []) is None


def test_of_one_that_is_wrong_once_both_devices_are_told(check: ReplicaCheck) -> None:
    found = difference(check, [2], [])
    assert found
    assert str(found) == (
        "device 2 of process 0 or device 3 of process 0 computes wrongly: what rank 2 "
        "computed from the same rows differs between replicas"
    )


@pytest.mark.slow
def test_replicas_of_a_pipeline_are_compared_as_a_whole(small_config: Any) -> None:
    changes = {
        "parallel__decoder": {"data": 2, "stage": 2},
        "parallel__encoders": {"vision": {"data": 4}, "audio": {"data": 4}},
        "model__decoder__layers": 2,
        "train__accumulate": 4,
    }
    own = small_config(**changes)
    step = build_gradient_step(own)
    budgets = {name: own.data.budgets[name] for name in own.model.buckets}
    microbatches = [
        synthetic_batch(own.model, own.data.rows, own.data.budgets["tokens"], budgets, seed)
        for seed in range(4)
    ]
    params = drawn(step)
    batch = step.prime_batch(params, place_microbatches(microbatches, step))
    check = ReplicaCheck(step)
    assert check(params, batch) is None
    leaves, tree = jax.tree.flatten(params)
    at = next(i for i, leaf in enumerate(leaves) if "stage" in str(leaf.sharding.spec))
    leaves[at] = flipped(leaves[at], 1)
    found = check(jax.tree.unflatten(tree, leaves), batch)
    assert found is not None
    # Of two replicas it cannot be told which one is wrong; the stage can.
    assert 1 in [device.id for device in found.suspects]
