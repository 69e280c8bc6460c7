"""What the hosts of a run tell each other of their snapshots, and the copies that they keep.

::

    put    a share, which the other host keeps beside its own
    index  what is in a share that the other host keeps
    piece  the bytes of one piece of it
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
class NeighbourHost:
    """A process of the run.

    Attributes:
        process: its number.
        machine: name of what its memory is lost with: its host, with the folder there.
        address: where it answers; None where it does not.
    """

    process: int
    machine: str
    address: HostAddress | None

    @classmethod
    def of_json(cls, process: int, fields: Mapping[str, object]) -> NeighbourHost:
        """What a process has told of itself."""
        address = fields["address"]
        parsed = HostAddress.parse(address) if isinstance(address, str) else None
        return cls(process, str(fields["machine"]), parsed)


def next_neighbour(members: Sequence[NeighbourHost], process: int) -> NeighbourHost | None:
    """The next process on another machine, which keeps copies of this one; None without one."""
    ring = [*members[process + 1 :], *members[:process]]
    away = [
        member for member in ring if member.machine != members[process].machine and member.address
    ]
    return away[0] if away else None


class ShardPlace(BaseModel):
    """The place of a share.

    Attributes:
        process: the process that can read it.
        holder: number of the process that has written it.
        origin: number of the process whose pieces it has.
        slot: 0 or 1.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    process: int
    holder: int
    origin: int
    slot: int

    @classmethod
    def from_shard(cls, local_share: Shard, process: int) -> ShardPlace:
        """The place of a share that `process` can read."""
        return cls(
            process=process,
            holder=local_share.holder,
            origin=local_share.origin,
            slot=local_share.slot,
        )

    def shard_below(self, folder: Path) -> Shard:
        """The share in the folder of the process."""
        return shard_in(folder, self.holder, self.origin, self.slot)


class ShardServer:
    """Answers the other hosts of a run.

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
        """Answer no more."""
        self._server.close()

    def _answer_request(self, channel: MessageChannel, message: Message) -> None:
        try:
            match message["kind"]:
                case "put":
                    self._keep_copy(channel, bool(message["slot"]), ShardIndex(**message["index"]))
                case "index":
                    index = ShardPlace(**message["where"]).shard_below(self._folder).index()
                    channel.send({"kind": "index", "index": index.model_dump()})
                case "piece":
                    leaf = ShardLeaf(**message["leaf"])
                    own_share = ShardPlace(**message["where"]).shard_below(self._folder)
                    content = own_share.raw_bytes(leaf, leaf.pieces[0])
                    channel.send({"kind": "bytes"})
                    channel.send_bytes(content.data)
                case _:
                    raise ShardError(f"{message['kind']} is no request")
        except (ShardError, KeyError, TypeError, ValueError) as error:
            channel.send({"kind": "refused", "why": f"process {self._process}: {error}"})

    def _keep_copy(self, channel: MessageChannel, slot: bool, index: ShardIndex) -> None:
        """Keep a copy of a share of another host."""
        origin = index.origin
        if (origin.run, origin.series) != (self._run, self._series):
            raise ShardError(
                f"the snapshot of step {origin.step} from process {origin.process} is of run "
                f"{origin.run} ({origin.folder}), series {origin.series}; here are run {self._run},"
                f" series {self._series}"
            )
        local_share = shard_in(self._folder, self._process, origin.process, int(slot))
        try:
            local_share.reserve_memory(index.bytes)
        except OSError as error:
            raise ShardError(f"there is no room for the copy: {error}") from error
        channel.send({"kind": "go"})
        local_share.write(_receive_parts(channel, index))
        local_share.write_index(index)
        channel.send({"kind": "kept"})


def _receive_parts(
    channel: MessageChannel, index: ShardIndex
) -> Iterator[tuple[int, Callable[[], np.ndarray]]]:
    """The pieces of a share as they come, verified."""
    for leaf, piece in index.pieces:
        content = np.empty(leaf.bytes_of(piece.box), np.uint8)
        channel.receive_into(content.data)
        if zlib.crc32(content.data) != piece.crc32:
            raise ConnectionError("a piece has changed on its way")
        yield piece.offset, partial(np.asarray, content)


def send_copy(
    member: NeighbourHost,
    secret: str,
    slot: int,
    complete: ShardIndex,
    local_share: Shard,
    index: ShardIndex,
) -> None:
    """Have another host keep a copy of a share.

    Args:
        complete: what is in the share.
        local_share: the share.
        index: the pieces of it that are copied.

    Raises:
        OSError: the other host does not answer, or refuses.
        ShardError: the share has changed meanwhile.
    """
    assert member.address is not None, "a neighbour answers somewhere"
    channel = connect_to(member.address, secret)
    try:
        channel.send({"kind": "put", "slot": slot, "index": index.model_dump()})
        _expect_answer(channel, "go")
        offsets = {
            (name, piece.box): piece.offset
            for name, leaf in complete.leaves.items()
            for piece in leaf.pieces
        }
        for name, leaf in index.leaves.items():
            for piece in leaf.pieces:
                here = piece.model_copy(update={"offset": offsets[name, piece.box]})
                channel.send_bytes(local_share.raw_bytes(leaf, here).data)
        _expect_answer(channel, "kept")
    finally:
        channel.close()


def _expect_answer(channel: MessageChannel, kind: str) -> Message:
    """The answer of another host, which must be of this kind."""
    answer = channel.receive()
    if answer.get("kind") != kind:
        raise ConnectionError(str(answer.get("why", f"{answer} is no answer")))
    return answer


class RemoteShard:
    """A share that another host can read.

    Args:
        channel: connection to it.
        where: place of the share there.

    Raises:
        ShardError: it cannot be read.
    """

    def __init__(self, channel: MessageChannel, where: ShardPlace) -> None:
        self._channel, self._where = channel, where
        try:
            channel.send({"kind": "index", "where": where.model_dump()})
            self.index = ShardIndex(**_expect_answer(channel, "index")["index"])
        except (OSError, KeyError, ValueError) as error:
            raise ShardError(f"process {where.process} does not tell of it: {error}") from error

    def read(self, leaf: ShardLeaf, piece: ShardPart) -> np.ndarray:
        """Values of a piece, verified.

        Raises:
            ShardError: they do not come, or have changed.
        """
        content = np.empty(leaf.bytes_of(piece.box), np.uint8)
        only = leaf.model_copy(update={"pieces": (piece,)})
        request = {"kind": "piece", "where": self._where.model_dump(), "leaf": only.model_dump()}
        try:
            self._channel.send(request)
            _expect_answer(self._channel, "bytes")
            self._channel.receive_into(content.data)
        except OSError as error:
            raise ShardError(f"process {self._where.process} does not send: {error}") from error
        return verify_part(content, leaf, piece, f"process {self._where.process}")
