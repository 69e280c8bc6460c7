"""What one replica reads of a checkpoint is, to the bit, what all replicas get."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mllm_jax.train.state import replicas
from mllm_jax.train.state.replicas import ReplicaReads
from tests.train.test_run import finish, free_port, start

#: NaNs with a payload, the negative zero and a denormal number, which sums of floats would change.
ODD = np.array([0x7FC01234, 0x80000000, 0x00000001, 0xFF800000], np.uint32).view(np.float32)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "SMALLEST", 16)


def values() -> dict[str, Any]:
    odd = np.tile(ODD, 12).reshape(12, 4)
    return {
        "odd": odd,
        "half": jnp.asarray(np.tile(ODD, 2)).astype(jnp.bfloat16),
        "whole": np.arange(24, dtype=np.int32).reshape(2, 12) - 12,
        "split": np.random.default_rng(0).normal(size=(8, 2)).astype(np.float32),
        "step": np.int32(7),
    }


SPECS = {
    "odd": PartitionSpec("b"),
    "half": PartitionSpec(),
    "whole": PartitionSpec(None, ("a", "b")),
    "split": PartitionSpec(("a", "b", "c")),
    "step": PartitionSpec(),
}


def target() -> Any:
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("a", "b", "c"))
    return {
        name: jax.ShapeDtypeStruct(
            np.shape(own), own.dtype, sharding=NamedSharding(mesh, SPECS[name])
        )
        for name, own in values().items()
    }


def test_all_replicas_get_what_one_has_read():
    reading = ReplicaReads.from_target(target(), crosses=lambda leaf: True)
    # What is split over all devices has one replica, and the step is small.
    assert {name: own.axes for name, own in reading.shared.items()} == {
        "odd": ("a", "c"),
        "half": ("a", "b", "c"),
        "whole": ("c",),
    }
    assert len({own.turn for own in reading.shared.values()}) > 1
    read = jax.tree.map(
        lambda own, leaf: jax.device_put(own, leaf.sharding), values(), reading.local_target
    )
    assert len(read["odd"].sharding.device_set) == 2
    sent = reading.send_to_all(read)
    for name, leaf in target().items():
        assert sent[name].sharding == leaf.sharding
        for shard in sent[name].addressable_shards:
            expected = np.asarray(values()[name])[shard.index]
            np.testing.assert_array_equal(bits(shard.data), bits(expected))


def bits(values: Any) -> np.ndarray:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def test_a_process_reads_all_of_what_no_other_holds():
    reading = ReplicaReads.from_target(target())
    assert reading.shared == {}
    assert reading.local_target is not None
    read = values()
    assert reading.send_to_all(read) is read


@pytest.mark.slow
@pytest.mark.multihost
def test_two_processes_read_each_byte_once(tmp_path, processes):
    place = [f"127.0.0.1:{free_port()}", str(tmp_path / "checkpoints")]
    processes += [start("-m", "tests.train.state.pair", str(i), *place) for i in (0, 1)]
    read = [int(finish(process)[0].split()[-1]) for process in processes]
    whole = 3 * 1024 * 512 * 4
    # Compressed noise is a little smaller; beside the arrays, indices are read.
    assert 0.8 * whole < sum(read) < 1.2 * whole
    assert max(read) < 0.7 * whole


def leaf(shape: tuple[int, ...], dtype: Any, spec: PartitionSpec) -> jax.ShapeDtypeStruct:
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4, 1), ("a", "b", "c"))
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))


def test_replicas_take_turns_leaf_by_leaf():
    shapes = {f"x{n}": leaf((8, 4), np.float32, PartitionSpec("b")) for n in range(4)}
    shapes |= {f"y{n}": leaf((8, 4), np.float32, PartitionSpec("a")) for n in range(6)}
    shared = ReplicaReads.from_target(shapes, crosses=lambda leaf: True).shared
    assert [own.turn for own in shared.values()] == [0, 1, 0, 1, 0, 1, 2, 3, 0, 1]
    for own in shared.values():
        assert own.count == (2 if own.axes == ("a",) else 4)
        place = own.mesh.devices.take(own.turn, axis=own.mesh.axis_names.index(own.axes[0]))
        assert own.reading_target.sharding.device_set == {*place.flat}


@pytest.mark.parametrize(
    ("shape", "dtype", "spec", "axes"),
    [
        ((4,), np.float32, PartitionSpec(), ("a", "b")),  # as small as may be sent
        ((3,), np.float32, PartitionSpec(), None),
        ((8,), np.float32, PartitionSpec("a"), ("b",)),
        ((8,), np.float32, PartitionSpec(("a", "b")), None),  # no replicas
        ((8, 8), np.float32, PartitionSpec(None, ("b",)), ("a",)),
        ((8,), np.int16, PartitionSpec("b"), ("a",)),
        ((8,), np.float64, PartitionSpec("b"), None),  # sums have 32 bits
    ],
)
def test_a_leaf_is_sent_that_is_large_repeated_and_of_at_most_32_bits(shape, dtype, spec, axes):
    own = leaf(shape, dtype, spec)
    found = ReplicaReads.from_target({"x": own}, crosses=lambda leaf: True).shared
    assert [one.axes for one in found.values()] == ([] if axes is None else [axes])
    assert ReplicaReads.from_target({"x": own}, crosses=lambda leaf: False).shared == {}


@pytest.mark.parametrize(
    ("holders", "crosses"),
    [([{0}], False), ([{0, 1}], True), ([{0}, {1}], False), ([{0}, {1, 2}], True)],
)
def test_a_leaf_crosses_where_two_processes_hold_the_same_piece(monkeypatch, holders, crosses):
    monkeypatch.setattr(replicas, "processes_by_part", lambda leaf: dict(enumerate(holders)))
    found = ReplicaReads.from_target({"x": leaf((8,), np.float32, PartitionSpec("b"))})
    assert bool(found.shared) == crosses
