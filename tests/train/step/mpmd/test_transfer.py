"""Arrays move between groups of devices, in one process and between two."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mllm_jax.train.step.mpmd.block_rounds import plan_rounds
from mllm_jax.train.step.mpmd.transfer import permute_blocks, transfer_arrays
from tests.train.test_run import finish, free_port, start

#: Shapes of meshes of devices, and layouts on them.
LAYOUTS = {
    "one": ((1, 1), PartitionSpec()),
    "rows": ((3, 1), PartitionSpec("a")),
    "copies": ((3, 1), PartitionSpec()),
    "rows and columns": ((2, 2), PartitionSpec("a", "b")),
    "columns first": ((2, 2), PartitionSpec("b")),
    "both on columns": ((2, 2), PartitionSpec(None, ("b", "a"))),
}


def layout(name: str, first: int) -> NamedSharding:
    shape, spec = LAYOUTS[name]
    devices = jax.devices()[first : first + shape[0] * shape[1]]
    return NamedSharding(Mesh(np.array(devices).reshape(shape), ("a", "b")), spec)


@pytest.mark.parametrize("first", [1, 4])
@pytest.mark.parametrize("target", LAYOUTS)
@pytest.mark.parametrize("source", LAYOUTS)
def test_blocks_arrive_where_the_other_layout_has_them(
    source: str, target: str, first: int
) -> None:
    """On other devices, or with some devices in common."""
    values = np.arange(72, dtype=np.float32).reshape(6, 12)
    before, after = layout(source, 0), layout(target, first)
    array = jax.device_put(values, before)
    (moved,) = permute_blocks([array], [after])
    assert moved.sharding == after
    for shard in moved.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), values[shard.index])


def test_arrays_of_any_kind_move_at_once() -> None:
    values = [np.array(3, np.int32), np.array([True, False]), np.zeros((0, 2), np.float16)]
    arrays = [jax.device_put(value, layout("one", 0)) for value in values]
    moved = permute_blocks(arrays, [layout("copies", 1)] * 3)
    for array, value in zip(moved, values, strict=True):
        assert array.dtype == value.dtype
        np.testing.assert_array_equal(np.asarray(array), value)


def test_a_round_takes_one_block_of_a_device_and_brings_it_one() -> None:
    before, after = layout("rows", 0), layout("copies", 4)
    devices = [*before.mesh.devices.flat, *after.mesh.devices.flat]
    plan = plan_rounds((6,), before, after, devices)
    assert plan.block == (2,)
    assert len(plan.rounds) == 3  # all three devices send all the time
    for moves in plan.rounds:
        assert len({move.source for move in moves}) == len({move.target for move in moves}) == 3


def test_in_one_process_a_layout_may_be_of_a_subtree() -> None:
    after = layout("rows", 4)
    tree = {"x": jax.numpy.ones(3), "y": [jax.numpy.zeros(6)]}
    moved = transfer_arrays(tree, {"x": after, "y": layout("one", 7)})
    assert moved["x"].sharding == after
    assert {*moved["y"][0].devices()} == {jax.devices()[7]}


@pytest.mark.multihost
def test_arrays_move_between_processes_that_have_some_of_the_devices(processes) -> None:
    place = f"127.0.0.1:{free_port()}"
    processes += [
        start("-m", "tests.train.step.mpmd.transfer_pair", str(i), place) for i in range(3)
    ]
    for process in processes:
        assert "arrived" in finish(process)[0]
