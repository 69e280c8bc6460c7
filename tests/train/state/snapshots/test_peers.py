"""Copies of shards on other machines: they are kept, given back, and refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mllm_jax.runtime.wire import HostAddress
from mllm_jax.train.state.snapshots.array_box import ArrayBox
from mllm_jax.train.state.snapshots.channel import MessageChannel, connect_to
from mllm_jax.train.state.snapshots.peers import (
    RemoteShard,
    ShardLocation,
    ShardServer,
    SnapshotPeer,
    replica_peer,
    send_replica,
)
from mllm_jax.train.state.snapshots.shard import (
    Shard,
    ShardError,
    ShardIndex,
    ShardLeaf,
    ShardOrigin,
    ShardPart,
    lay_out_parts,
    shard_in,
)

SECRET = "of this run"
VALUES = {"a": np.arange(24, dtype=np.float32).reshape(4, 6), "b": np.arange(5, dtype=np.int32)}
HALVES = {"a": [ArrayBox((0, 0), (2, 6)), ArrayBox((2, 0), (4, 6))], "b": [ArrayBox((0,), (5,))]}


def test_copies_go_round_to_the_next_machine():
    somewhere = HostAddress("127.0.0.1", 1)
    peers = [SnapshotPeer(i, machine, somewhere) for i, machine in enumerate("aabc")]
    assert [replica_peer(peers, i).process for i in range(4)] == [2, 2, 3, 0]
    alone = [SnapshotPeer(i, "a", somewhere) for i in range(3)]
    assert replica_peer(alone, 1) is None


@pytest.fixture
def whole(tmp_path: Path) -> tuple[Shard, ShardIndex]:
    """The shard of process 3."""
    leaves = {
        name: ShardLeaf(shape=own.shape, dtype=str(own.dtype), parts=())
        for name, own in VALUES.items()
    }
    parts = {
        name: [ShardPart(start=box.start, stop=box.stop, offset=0) for box in boxes]
        for name, boxes in HALVES.items()
    }
    origin = ShardOrigin(run="r", folder="runs/r", series="s", step=10, process=3)
    index = ShardIndex(
        origin=origin, progress={"x": 1}, config={"y": 2}, leaves=lay_out_parts(leaves, parts)
    )
    own = shard_in(tmp_path / "own", 3, 3, 1)
    own.reserve_memory(index.bytes)
    own.write(
        (part.offset, partial(VALUES[name].__getitem__, part.box.slices_within(_all(name))))
        for name, leaf in index.leaves.items()
        for part in leaf.parts
    )
    return own, own.complete_with(index)


def _all(name: str) -> ArrayBox:
    shape = VALUES[name].shape
    return ArrayBox((0,) * len(shape), shape)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ShardServer]:
    """That of process 4, on another machine."""
    own = ShardServer("127.0.0.1", SECRET, tmp_path / "other", 4, "r", "s")
    yield own
    own.close()


@pytest.fixture
def channel(server: ShardServer) -> Iterator[MessageChannel]:
    own = connect_to(server.address, SECRET)
    yield own
    own.close()


def peer(server: ShardServer) -> SnapshotPeer:
    return SnapshotPeer(4, "other", server.address)


LOCATION = ShardLocation(process=4, holder=4, origin=3, slot=1)


def test_another_machine_keeps_what_is_nowhere_else_and_gives_it_back(whole, server, channel):
    own, index = whole
    copied = index.without_parts({"a": HALVES["a"][:1]})
    assert copied.bytes < index.bytes
    send_replica(peer(server), SECRET, 1, index, own, copied)
    away = RemoteShard(channel, LOCATION)
    assert away.index == copied
    for name, leaf in away.index.leaves.items():
        for part in leaf.parts:
            expected = VALUES[name][part.box.slices_within(_all(name))]
            np.testing.assert_array_equal(away.read(leaf, part), expected)
    assert [part.box for part in away.index.leaves["a"].parts] == HALVES["a"][1:]


def test_a_damaged_copy_is_noticed_by_who_reads_it(whole, server, channel, tmp_path):
    own, index = whole
    send_replica(peer(server), SECRET, 1, index, own, index)
    data = LOCATION.shard_below(tmp_path / "other").folder / "data"
    data.write_bytes(b"\xff" + data.read_bytes()[1:])
    away = RemoteShard(channel, LOCATION)
    leaf = away.index.leaves["a"]
    with pytest.raises(ShardError, match=r"process 4: \[0:2, 0:6\] has changed since it was wr"):
        away.read(leaf, leaf.parts[0])
    np.testing.assert_array_equal(away.read(leaf, leaf.parts[1]), VALUES["a"][2:])


@pytest.mark.parametrize(("run", "series"), [("other", "s"), ("r", "other")])
def test_a_snapshot_of_another_run_or_start_is_refused_by_name(whole, server, run, series):
    own, index = whole
    origin = index.origin.model_copy(update={"run": run, "series": series})
    foreign = index.model_copy(update={"origin": origin})
    with pytest.raises(ConnectionError) as refused:
        send_replica(peer(server), SECRET, 1, foreign, own, foreign)
    assert "the snapshot of step 10 from process 3 is of run " in str(refused.value)
    assert f"{run} (runs/r), series {series}; here are run r, series s" in str(refused.value)


def test_a_share_that_changes_while_it_is_sent_is_not_kept(whole, server, tmp_path):
    own, index = whole
    data = own.folder / "data"
    data.write_bytes(b"\xff" + data.read_bytes()[1:])
    with pytest.raises(OSError):  # the other end closes the connection
        send_replica(peer(server), SECRET, 1, index, own, index)
    with pytest.raises(ShardError, match="cannot be read"):
        LOCATION.shard_below(tmp_path / "other").index()


@pytest.mark.parametrize("slot", ["../../secret", -1.5, None])
def test_a_place_is_a_place(channel, slot):
    channel.send({"kind": "index", "where": {**LOCATION.model_dump(), "slot": slot}})
    answer = channel.receive()
    assert answer["kind"] == "refused"
    assert "slot" in answer["why"]


@pytest.mark.parametrize("message", [{"kind": "index"}, {"kind": "run"}, {}, {"kind": "part"}])
def test_what_is_no_request_is_refused(channel, message):
    channel.send(message)
    assert channel.receive()["kind"] == "refused"
