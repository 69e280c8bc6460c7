"""Snapshots in the memory of the hosts, between checkpoints in storage.

Every `checkpoint.local_every` steps each process copies what its devices hold into a file in memory
(`shard.py`), and training goes on. In the background a thread computes checksums, and sends what no
other machine has to a peer, which stores a replica::

    step 10           step 20           step 30
    slot 0            slot 1            slot 0              copied: a few milliseconds
      `- checksums,     `- checksums,     `- ...            in the background
         replica           replica

A snapshot is complete once all processes have finished theirs. The one before it is kept until
then, so that there is always a complete one, and never more than two.
"""

from __future__ import annotations

import logging
import secrets
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mllm_jax.config.sections import ExperimentConfig
from mllm_jax.runtime.folder import ensure_identity
from mllm_jax.runtime.run_peers import current_peers
from mllm_jax.train.state.snapshots.array_box import ArrayBox
from mllm_jax.train.state.snapshots.channel import MessageChannel, connect_to
from mllm_jax.train.state.snapshots.copying import (
    Named,
    copy_parts,
    leaves_by_name,
    parts_elsewhere,
    plan_parts,
)
from mllm_jax.train.state.snapshots.folder import folder_of, make_folder, remove_folder
from mllm_jax.train.state.snapshots.peers import (
    RemoteShard,
    ShardLocation,
    ShardServer,
    SnapshotPeer,
    replica_peer,
    send_replica,
)
from mllm_jax.train.state.snapshots.reading import ShardReader, ShardSource
from mllm_jax.train.state.snapshots.shard import (
    Shard,
    ShardError,
    ShardIndex,
    ShardLeaf,
    ShardOrigin,
    ShardPart,
    complete_shards,
    shard_in,
)
from mllm_jax.train.state.stored_names import StoredNames

logger = logging.getLogger(__name__)

#: State of a snapshot whose replica is not finished, as the other processes receive it.
RUNNING = "running"
#: Seconds for the last snapshot to be finished once training has ended.
LAST_SNAPSHOT_SECONDS = 5.0


@dataclass(frozen=True)
class LocalSnapshot:
    """A snapshot of this run, of which hosts have shards.

    Attributes:
        step: step after which it was taken.
        series: see `ShardOrigin`.
        locations: where its shards are.
    """

    step: int
    series: str
    locations: tuple[ShardLocation, ...]

    def __str__(self) -> str:
        return f"the snapshot of step {self.step} in the memory of the hosts"


@dataclass(frozen=True)
class LocalShard:
    """A shard in this machine's memory."""

    shard: Shard
    index: ShardIndex

    def read(self, leaf: ShardLeaf, part: ShardPart) -> np.ndarray:
        """See `ShardSource`."""
        return self.shard.read(leaf, part)


class SnapshotMemory:
    """The snapshots of one run; all processes call its methods at the same points.

    Args:
        config: configuration of the run.
        folder: folder of the run's snapshots on this machine, see `folder.py`.

    Attributes:
        copied: bytes of this process' newest snapshot that a peer stores.
    """

    copied = 0

    def __init__(self, config: ExperimentConfig, folder: Path) -> None:
        self._config, self._folder, self._process = config, folder, current_peers().index
        self._names = StoredNames.from_model(config.model)
        identity = [
            ensure_identity(config.run.path) if self._process == 0 else "",
            *_draw_secrets(),
        ]
        self._run, self._series, self._secret = current_peers().gather_values(
            "this start of the run", identity
        )[0]
        self._server = self._start_server()
        addresses = {
            "machine": f"{socket.gethostname()}:{folder}",
            "address": str(self._server.address) if self._server else None,
        }
        everyone = current_peers().gather_values("machines of the snapshots", addresses)
        self._peers = [SnapshotPeer.of_json(i, identity) for i, identity in enumerate(everyone)]
        self._replica_peer = replica_peer(self._peers, self._process)
        self._newest, self._others_there = 1, True
        self._plan: ShardIndex | None = None
        self._elsewhere: dict[str, set[ArrayBox]] = {}
        self._work: _SnapshotWork | None = None
        self._logged_kinds: set[str] = set()

    def list_snapshots(self) -> list[LocalSnapshot]:
        """The snapshots of this run that any host has a shard of, the newest first."""
        shards = [
            [ShardLocation.from_shard(each, self._process).model_dump(), index.origin.model_dump()]
            for each, index in complete_shards(self._folder)
            if self._is_ours(each, index)
        ]
        locations: dict[tuple[int, str], list[ShardLocation]] = {}
        for gathered in current_peers().gather_values("snapshots in memory", shards):
            for location, origin in gathered:
                key = origin["step"], origin["series"]
                locations.setdefault(key, []).append(ShardLocation(**location))
        return [
            LocalSnapshot(*key, tuple(shards))
            for key, shards in sorted(locations.items(), reverse=True)
        ]

    @contextmanager
    def open_reader(self, snapshot: LocalSnapshot) -> Iterator[ShardReader]:
        """Context in which a snapshot is read.

        Raises:
            ShardError: no shard of it can be read.
        """
        machine = self._peers[self._process].machine
        near = [p for p in snapshot.locations if self._peers[p.process].machine == machine]
        here: list[ShardSource] = []
        for shard in dict.fromkeys(location.shard_below(self._folder) for location in near):
            with suppress(ShardError):  # which was told when it was found
                here.append(LocalShard(shard, shard.index()))
        with ExitStack() as connections:
            far = [location for location in snapshot.locations if location not in near]
            yield ShardReader(here, lambda: self._remote_shards(far, connections))

    def resume_from(self, snapshot: LocalSnapshot | None) -> None:
        """Continue from this snapshot, or from none: the others are removed."""
        for shard, index in list(complete_shards(self._folder)):
            origin = index.origin
            if snapshot is None or (origin.step, origin.series) != (snapshot.step, snapshot.series):
                shard.remove()
        # The next one goes into the other slot, here and on the peer with the replica.
        locations = snapshot.locations if snapshot else ()
        self._newest = next((p.slot for p in locations if p.origin == self._process), self._newest)

    def take_snapshot(self, step: int, state: Any, progress: dict[str, Any]) -> None:
        """Copy a state; waits for the devices, and for no other process' copy."""
        if not self._settle_previous(step):
            return
        slot, leaves = 1 - self._newest, leaves_by_name(self._names.to_stored(state))
        shard = shard_in(self._folder, self._process, self._process, slot)
        if self._plan is None:
            self._plan = self._plan_index(leaves)
        origin = self._plan.origin.model_copy(update={"step": step})
        index = self._plan.model_copy(update={"origin": origin, "progress": progress})
        reason = ""
        try:
            make_folder(self._folder)
            shard.reserve_memory(index.bytes)
            copy_parts(leaves, index.leaves, shard)
        except OSError as error:
            reason = str(error)
        self._work = _SnapshotWork(
            step, slot, reason, lambda: self._complete_snapshot(slot, shard, index)
        )

    def _plan_index(self, leaves: Named) -> ShardIndex:
        """What all snapshots of this start have in common."""
        origin = ShardOrigin(
            run=self._run,
            folder=str(self._config.run.path),
            series=self._series,
            step=0,
            process=self._process,
        )
        if self._replica_peer is not None:
            machines = [peer.machine for peer in self._peers]
            self._elsewhere = parts_elsewhere(leaves, machines, self._process)
        config = self._config.model_dump(mode="json")
        return ShardIndex(origin=origin, progress={}, config=config, leaves=plan_parts(leaves))

    def remove_snapshots(self) -> None:
        """Remove all snapshots of the run from this machine: nothing will go on from them."""
        self.close()
        remove_folder(self._folder)

    def wait_for_copies(self, seconds: float) -> None:
        """Wait for what is being copied, at most so long."""
        if self._work is not None:
            self._work.wait_for_end(seconds)

    def close(self) -> None:
        """Wait a little for what is being copied, and stop answering other hosts."""
        self.wait_for_copies(LAST_SNAPSHOT_SECONDS)
        if self._server is not None:
            self._server.close()

    def _settle_previous(self, step: int) -> bool:
        """Whether all processes have finished the previous snapshot, which then is the newest."""
        work = self._work
        states = current_peers().gather_values(
            "the previous snapshot", "" if work is None else work.state
        )
        if work is None:
            return True
        if RUNNING in states:
            self._warn_once(
                f"the snapshot of step {step} is left out: that of step {work.step} is still being "
                f"copied by process {states.index(RUNNING)}; a larger checkpoint.local_every leaves"
                " it more time"
            )
            return False
        self._work = None
        failed = [(i, why) for i, why in enumerate(states) if why]
        if not failed:
            self._newest = work.slot
            self._remove_others()
            return True
        process, why = failed[0]
        shard_in(self._folder, self._process, self._process, work.slot).remove()
        self._warn_once(
            f"the snapshot of step {work.step} is not kept: process {process}: {why}; training goes"
            " on, and after a fault from an older snapshot or checkpoint (checkpoint.local_folder)"
        )
        return True

    def _complete_snapshot(self, slot: int, shard: Shard, index: ShardIndex) -> None:
        """Write checksums and send the replica, in the background."""
        complete, self.copied = shard.complete_with(index), 0
        peer = self._replica_peer
        if peer is None:
            return
        copied = complete.without_parts(self._elsewhere)
        try:
            send_replica(peer, self._secret, slot, complete, shard, copied)
            self.copied = copied.bytes
        except (OSError, ShardError) as error:
            self._warn_once(
                f"the snapshot of step {index.origin.step} has no copy on the machine of process "
                f"{peer.process} ({peer.machine}): {error}; if this machine is lost, the run "
                "goes on from a checkpoint"
            )

    def _remove_others(self) -> None:
        """Remove snapshots of earlier starts once one of this start is complete."""
        if self._others_there:
            self._others_there = False
            for shard, index in list(complete_shards(self._folder)):
                if index.origin.series != self._series:
                    shard.remove()

    def _is_ours(self, shard: Shard, index: ShardIndex) -> bool:
        origin = index.origin
        if origin.run == self._run:
            return True
        logger.warning(
            "refused: the snapshot of step %d in %s is of run %s (%s), and this run is %s",
            *(origin.step, shard.folder, origin.run, origin.folder, self._run),
        )
        return False

    def _start_server(self) -> ShardServer | None:
        """The server of this process' shards; None without other processes or a network."""
        host = current_peers().host
        if current_peers().count == 1:
            return None
        if host is None:
            logger.warning(
                "snapshots have no copies on other machines: processes that JAX has found by "
                "itself cannot connect to each other here"
            )
            return None
        identity = self._folder, self._process, self._run, self._series
        return ShardServer(host, self._secret, *identity)

    def _remote_shards(
        self, locations: Sequence[ShardLocation], connections: ExitStack
    ) -> list[ShardSource]:
        """Shards that other machines can read."""
        opened: list[ShardSource] = []
        channels: dict[int, MessageChannel] = {}
        for location in locations:
            peer = self._peers[location.process]
            if peer.address is None:
                continue
            try:
                if location.process not in channels:
                    channel = connect_to(peer.address, self._secret)
                    connections.callback(channel.close)
                    channels[location.process] = channel
                opened.append(RemoteShard(channels[location.process], location))
            except (OSError, ShardError) as error:
                logger.warning(
                    "process %d (%s) does not send its snapshots: %s",
                    *(peer.process, peer.machine, error),
                )
        return opened

    def _warn_once(self, text: str) -> None:
        """Warn of what may happen at every snapshot once for each kind."""
        kind = "".join(c for c in text if not c.isdigit())
        if kind not in self._logged_kinds:
            self._logged_kinds.add(kind)
            logger.warning("%s", text)


@contextmanager
def open_snapshots(
    config: ExperimentConfig, final_errors: tuple[type[BaseException], ...]
) -> Iterator[SnapshotMemory | None]:
    """Context with the snapshots of a run; None where it takes none.

    They are removed at the end of the context, unless it ends by an error after which another start
    may go on from them.

    Args:
        final_errors: errors after which no other start will.

    Raises:
        RunError: as of `folder_of`.
    """
    folder = folder_of(config)
    if folder is None:
        yield None
        return
    memory = SnapshotMemory(config, folder)
    try:
        yield memory
    except final_errors:
        memory.remove_snapshots()
        raise
    except BaseException:
        memory.close()
        raise
    memory.remove_snapshots()


class _SnapshotWork:
    """The background work for one snapshot.

    Args:
        step: step of the snapshot.
        slot: slot of the snapshot.
        reason: why it has failed already; empty if it has not.
        finish: what is left to do.
    """

    def __init__(self, step: int, slot: int, reason: str, finish: Callable[[], None]) -> None:
        self.step, self.slot, self._reason, self._finish = step, slot, reason, finish
        # A daemon: a process that ends with an error waits for no other machine.
        self._thread = threading.Thread(target=self._finish_work, name="snapshot", daemon=True)
        self._thread.start()

    @property
    def state(self) -> str:
        """`running`, why it has failed, or nothing."""
        return RUNNING if self._thread.is_alive() else self._reason

    def wait_for_end(self, seconds: float) -> None:
        """Wait for it."""
        self._thread.join(seconds)

    def _finish_work(self) -> None:
        if self._reason:
            return
        try:
            self._finish()
        except OSError as error:
            self._reason = str(error)


def _draw_secrets() -> tuple[str, str]:
    """A name for the snapshots of a start, and its secret."""
    return secrets.token_hex(4), secrets.token_hex(16)
