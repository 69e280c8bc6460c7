"""Copies of shares on other machines: they are kept, given back, and refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mllm_jax.runtime.wire import HostAddress
from mllm_jax.train.state.snapshots.array_box import ArrayBox
from mllm_jax.train.state.snapshots.channel import MessageChannel, connect_to
from mllm_jax.train.state.snapshots.neighbours import (
    NeighbourHost,
    RemoteShard,
    ShardPlace,
    ShardServer,
    next_neighbour,
    send_copy,
)
from mllm_jax.train.state.snapshots.shard import (
    Shard,
    ShardError,
    ShardIndex,
    ShardLeaf,
    ShardOrigin,
    ShardPart,
    laid_out,
    shard_in,
)

SECRET = "of this run"
VALUES = {"a": np.arange(24, dtype=np.float32).reshape(4, 6), "b": np.arange(5, dtype=np.int32)}
HALVES = {"a": [ArrayBox((0, 0), (2, 6)), ArrayBox((2, 0), (4, 6))], "b": [ArrayBox((0,), (5,))]}


def test_copies_go_round_to_the_next_machine():
    somewhere = HostAddress("127.0.0.1", 1)
    members = [NeighbourHost(i, machine, somewhere) for i, machine in enumerate("aabc")]
    assert [next_neighbour(members, i).process for i in range(4)] == [2, 2, 3, 0]
    alone = [NeighbourHost(i, "a", somewhere) for i in range(3)]
    assert next_neighbour(alone, 1) is None


@pytest.fixture
def whole(tmp_path: Path) -> tuple[Shard, ShardIndex]:
    """The share of process 3."""
    leaves = {
        name: ShardLeaf(shape=own.shape, dtype=str(own.dtype), pieces=())
        for name, own in VALUES.items()
    }
    pieces = {
        name: [ShardPart(start=box.start, stop=box.stop, offset=0) for box in boxes]
        for name, boxes in HALVES.items()
    }
    origin = ShardOrigin(run="r", folder="runs/r", series="s", step=10, process=3)
    index = ShardIndex(
        origin=origin, progress={"x": 1}, config={"y": 2}, leaves=laid_out(leaves, pieces)
    )
    own = shard_in(tmp_path / "own", 3, 3, 1)
    own.reserve_memory(index.bytes)
    own.write(
        (piece.offset, partial(VALUES[name].__getitem__, piece.box.slices_within(_all(name))))
        for name, leaf in index.leaves.items()
        for piece in leaf.pieces
    )
    return own, own.complete_with(index)


def _all(name: str) -> ArrayBox:
    shape = VALUES[name].shape
    return ArrayBox((0,) * len(shape), shape)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[ShardServer]:
    """That of process 4, on another machine."""
    own = ShardServer("127.0.0.1", SECRET, tmp_path / "other", 4, "r", "s")
    yield own
    own.close()


@pytest.fixture
def channel(desk: ShardServer) -> Iterator[MessageChannel]:
    own = connect_to(desk.address, SECRET)
    yield own
    own.close()


def member(desk: ShardServer) -> NeighbourHost:
    return NeighbourHost(4, "other", desk.address)


PLACE = ShardPlace(process=4, holder=4, origin=3, slot=1)


def test_another_machine_keeps_what_is_nowhere_else_and_gives_it_back(whole, desk, channel):
    own, index = whole
    part = index.without_parts({"a": HALVES["a"][:1]})
    assert part.bytes < index.bytes
    send_copy(member(desk), SECRET, 1, index, own, part)
    away = RemoteShard(channel, PLACE)
    assert away.index == part
    for name, leaf in away.index.leaves.items():
        for piece in leaf.pieces:
            expected = VALUES[name][piece.box.slices_within(_all(name))]
            np.testing.assert_array_equal(away.read(leaf, piece), expected)
    assert [piece.box for piece in away.index.leaves["a"].pieces] == HALVES["a"][1:]


def test_a_damaged_copy_is_noticed_by_who_reads_it(whole, desk, channel, tmp_path):
    own, index = whole
    send_copy(member(desk), SECRET, 1, index, own, index)
    data = PLACE.shard_below(tmp_path / "other").folder / "data"
    data.write_bytes(b"\xff" + data.read_bytes()[1:])
    away = RemoteShard(channel, PLACE)
    leaf = away.index.leaves["a"]
    with pytest.raises(ShardError, match=r"process 4: \[0:2, 0:6\] has changed since it was wr"):
        away.read(leaf, leaf.pieces[0])
    np.testing.assert_array_equal(away.read(leaf, leaf.pieces[1]), VALUES["a"][2:])


@pytest.mark.parametrize(("run", "series"), [("other", "s"), ("r", "other")])
def test_a_snapshot_of_another_run_or_start_is_refused_by_name(whole, desk, run, series):
    own, index = whole
    origin = index.origin.model_copy(update={"run": run, "series": series})
    foreign = index.model_copy(update={"origin": origin})
    with pytest.raises(ConnectionError) as refused:
        send_copy(member(desk), SECRET, 1, foreign, own, foreign)
    assert "the snapshot of step 10 from process 3 is of run " in str(refused.value)
    assert f"{run} (runs/r), series {series}; here are run r, series s" in str(refused.value)


def test_a_share_that_changes_while_it_is_sent_is_not_kept(whole, desk, tmp_path):
    own, index = whole
    data = own.folder / "data"
    data.write_bytes(b"\xff" + data.read_bytes()[1:])
    with pytest.raises(OSError):  # the other end closes the connection
        send_copy(member(desk), SECRET, 1, index, own, index)
    with pytest.raises(ShardError, match="cannot be read"):
        PLACE.shard_below(tmp_path / "other").index()


@pytest.mark.parametrize("slot", ["../../secret", -1.5, None])
def test_a_place_is_a_place(channel, slot):
    channel.send({"kind": "index", "where": {**PLACE.model_dump(), "slot": slot}})
    answer = channel.receive()
    assert answer["kind"] == "refused"
    assert "slot" in answer["why"]


@pytest.mark.parametrize("message", [{"kind": "index"}, {"kind": "run"}, {}, {"kind": "piece"}])
def test_what_is_no_request_is_refused(channel, message):
    channel.send(message)
    assert channel.receive()["kind"] == "refused"
