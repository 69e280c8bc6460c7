"""Replicas of snapshots on other hosts of a run: requests between hosts, and their answers.

::

    put    a shard, of which the other host stores a replica
    index  what is in a shard that the other host stores
    part   the bytes of one part of it
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from mllm_jax.runtime.wire import HostAddress, Message
from mllm_jax.train.state.snapshots.channel import MessageChannel, RequestServer, connect_to
from mllm_jax.train.state.snapshots.shard import (
    Shard,
    ShardError,
    ShardIndex,
    ShardLeaf,
    ShardPart,
    shard_in,
    verify_part,
)


@dataclass(frozen=True)
class SnapshotPeer:
    """A process of the run that may store replicas.

    Attributes:
        process: its number.
        machine: its host and the folder of snapshots there; both are lost together.
        address: where it answers requests; None if it does not.
    """

    process: int
    machine: str
    address: HostAddress | None

    @classmethod
    def of_json(cls, process: int, fields: Mapping[str, object]) -> SnapshotPeer:
        """The peer that a process has described."""
        address = fields["address"]
        parsed = HostAddress.parse(address) if isinstance(address, str) else None
        return cls(process, str(fields["machine"]), parsed)


def replica_peer(peers: Sequence[SnapshotPeer], process: int) -> SnapshotPeer | None:
    """The next process on another machine, which stores replicas of this one's shards, or None."""
    ring = [*peers[process + 1 :], *peers[:process]]
    away = [peer for peer in ring if peer.machine != peers[process].machine and peer.address]
    return away[0] if away else None


class ShardLocation(BaseModel):
    """The location of a shard.

    Attributes:
        process: the process that can read it.
        holder: number of the process that has written it.
        origin: number of the process whose parts it contains.
        slot: 0 or 1.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    process: int
    holder: int
    origin: int
    slot: int

    @classmethod
    def from_shard(cls, shard: Shard, process: int) -> ShardLocation:
        """The location of a shard that `process` can read."""
        return cls(
            process=process,
            holder=shard.holder,
            origin=shard.origin,
            slot=shard.slot,
        )

    def shard_below(self, folder: Path) -> Shard:
        """The shard in the folder of the process."""
        return shard_in(folder, self.holder, self.origin, self.slot)


class ShardServer:
    """Answers requests of the other hosts of a run.

    Args:
        host: address at which it listens.
        secret: secret of the run.
        folder: folder of the run's snapshots on this machine.
        process: number of this process.
        run: identity of the run.
        series: the snapshots of the present start.

    Raises:
        OSError: the address cannot be listened at.
    """

    def __init__(
        self, host: str, secret: str, folder: Path, process: int, run: str, series: str
    ) -> None:
        self._folder, self._process, self._run, self._series = folder, process, run, series
        self._server = RequestServer(host, secret, self._answer_request)
        self.address = self._server.address

    def close(self) -> None:
        """Stop answering."""
        self._server.close()

    def _answer_request(self, channel: MessageChannel, message: Message) -> None:
        try:
            match message["kind"]:
                case "put":
                    self._store_replica(
                        channel, bool(message["slot"]), ShardIndex(**message["index"])
                    )
                case "index":
                    index = ShardLocation(**message["where"]).shard_below(self._folder).index()
                    channel.send({"kind": "index", "index": index.model_dump()})
                case "part":
                    leaf = ShardLeaf(**message["leaf"])
                    shard = ShardLocation(**message["where"]).shard_below(self._folder)
                    content = shard.raw_bytes(leaf, leaf.parts[0])
                    channel.send({"kind": "bytes"})
                    channel.send_bytes(content.data)
                case _:
                    raise ShardError(f"{message['kind']} is no request")
        except (ShardError, KeyError, TypeError, ValueError) as error:
            channel.send({"kind": "refused", "why": f"process {self._process}: {error}"})

    def _store_replica(self, channel: MessageChannel, slot: bool, index: ShardIndex) -> None:
        """Store a replica of a shard of another host."""
        origin = index.origin
        if (origin.run, origin.series) != (self._run, self._series):
            raise ShardError(
                f"the snapshot of step {origin.step} from process {origin.process} is of run "
                f"{origin.run} ({origin.folder}), series {origin.series}; here are run {self._run},"
                f" series {self._series}"
            )
        shard = shard_in(self._folder, self._process, origin.process, int(slot))
        try:
            shard.reserve_memory(index.bytes)
        except OSError as error:
            raise ShardError(f"there is no room for the copy: {error}") from error
        channel.send({"kind": "go"})
        shard.write(_receive_parts(channel, index))
        shard.write_index(index)
        channel.send({"kind": "stored"})


def _receive_parts(
    channel: MessageChannel, index: ShardIndex
) -> Iterator[tuple[int, Callable[[], np.ndarray]]]:
    """The parts of a shard as they are received, verified."""
    for leaf, part in index.parts:
        content = np.empty(leaf.bytes_of(part.box), np.uint8)
        channel.receive_into(content.data)
        if zlib.crc32(content.data) != part.crc32:
            raise ConnectionError("a part has changed in transfer")
        yield part.offset, partial(np.asarray, content)


def send_replica(
    peer: SnapshotPeer,
    secret: str,
    slot: int,
    complete: ShardIndex,
    shard: Shard,
    index: ShardIndex,
) -> None:
    """Send a shard to another host, which stores a replica.

    Args:
        complete: index of the shard.
        shard: the shard.
        index: index of the parts that are copied.

    Raises:
        OSError: the other host does not answer, or refuses.
        ShardError: the shard has changed meanwhile.
    """
    assert peer.address is not None, "a peer with replicas has an address"
    channel = connect_to(peer.address, secret)
    try:
        channel.send({"kind": "put", "slot": slot, "index": index.model_dump()})
        _expect_answer(channel, "go")
        offsets = {
            (name, part.box): part.offset
            for name, leaf in complete.leaves.items()
            for part in leaf.parts
        }
        for name, leaf in index.leaves.items():
            for part in leaf.parts:
                here = part.model_copy(update={"offset": offsets[name, part.box]})
                channel.send_bytes(shard.raw_bytes(leaf, here).data)
        _expect_answer(channel, "stored")
    finally:
        channel.close()


def _expect_answer(channel: MessageChannel, kind: str) -> Message:
    """The answer of another host, which must be of this kind."""
    answer = channel.receive()
    if answer.get("kind") != kind:
        raise ConnectionError(str(answer.get("why", f"{answer} is no answer")))
    return answer


class RemoteShard:
    """A shard that another host can read.

    Args:
        channel: connection to it.
        where: location of the shard there.

    Raises:
        ShardError: it cannot be read.
    """

    def __init__(self, channel: MessageChannel, where: ShardLocation) -> None:
        self._channel, self._where = channel, where
        try:
            channel.send({"kind": "index", "where": where.model_dump()})
            self.index = ShardIndex(**_expect_answer(channel, "index")["index"])
        except (OSError, KeyError, ValueError) as error:
            raise ShardError(f"process {where.process} does not send its index: {error}") from error

    def read(self, leaf: ShardLeaf, part: ShardPart) -> np.ndarray:
        """Values of a part, verified.

        Raises:
            ShardError: they do not come, or have changed.
        """
        content = np.empty(leaf.bytes_of(part.box), np.uint8)
        only = leaf.model_copy(update={"parts": (part,)})
        request = {"kind": "part", "where": self._where.model_dump(), "leaf": only.model_dump()}
        try:
            self._channel.send(request)
            _expect_answer(self._channel, "bytes")
            self._channel.receive_into(content.data)
        except OSError as error:
            raise ShardError(f"process {self._where.process} does not send: {error}") from error
        return verify_part(content, leaf, part, f"process {self._where.process}")
