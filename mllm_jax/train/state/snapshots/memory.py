"""Snapshots in the memory of the hosts, between checkpoints in storage.

Every `checkpoint.local_every` steps each process copies what its devices hold into a file in memory
(`shard.py`), and training goes on. Behind it the copy is summed, and what no other machine has is
sent to a neighbour::

    step 10           step 20           step 30
    slot 0            slot 1            slot 0              copied: a few milliseconds
      `- sums, copy     `- sums, copy     `- ...            beside training

A snapshot counts once all processes have theirs. The one before it is kept until then, so that one
is whole at any moment, and never more than two are there.
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
from mllm_jax.runtime.part import current_peers
from mllm_jax.train.state.snapshots.array_box import ArrayBox
from mllm_jax.train.state.snapshots.channel import MessageChannel, connect_to
from mllm_jax.train.state.snapshots.copying import (
    Named,
    copy_parts,
    leaves_by_name,
    parts_elsewhere,
    plan_parts,
)
from mllm_jax.train.state.snapshots.neighbours import (
    NeighbourHost,
    RemoteShard,
    ShardPlace,
    ShardServer,
    next_neighbour,
    send_copy,
)
from mllm_jax.train.state.snapshots.places import folder_of, make_folder, remove_folder
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

#: What a process tells the others of a copy that is not done yet.
RUNNING = "running"
#: Seconds for the last snapshot to become whole once training has ended.
LAST = 5.0


@dataclass(frozen=True)
class LocalSnapshot:
    """A snapshot of this run that hosts have shares of.

    Attributes:
        step: step after which it was taken.
        series: see `ShardOrigin`.
        places: where its shares are.
    """

    step: int
    series: str
    places: tuple[ShardPlace, ...]

    def __str__(self) -> str:
        return f"the snapshot of step {self.step} in the memory of the hosts"


@dataclass(frozen=True)
class LocalShard:
    """A share in this machine's memory."""

    share: Shard
    index: ShardIndex

    def read(self, leaf: ShardLeaf, piece: ShardPart) -> np.ndarray:
        """See `ShardSource`."""
        return self.share.read(leaf, piece)


class SnapshotMemory:
    """The snapshots of one run; all processes call its methods at the same points.

    Args:
        config: configuration of the run.
        folder: folder of the run's snapshots on this machine, see `places.py`.

    Attributes:
        copied: bytes that another machine keeps of the newest snapshot of this process.
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
        self._desk = self._start_server()
        addresses = {
            "machine": f"{socket.gethostname()}:{folder}",
            "address": str(self._desk.address) if self._desk else None,
        }
        everyone = current_peers().gather_values("machines of the snapshots", addresses)
        self._members = [NeighbourHost.of_json(i, identity) for i, identity in enumerate(everyone)]
        self._neighbour = next_neighbour(self._members, self._process)
        self._newest, self._others_there = 1, True
        self._plan: ShardIndex | None = None
        self._elsewhere: dict[str, set[ArrayBox]] = {}
        self._work: _SnapshotWork | None = None
        self._logged_kinds: set[str] = set()

    def list_snapshots(self) -> list[LocalSnapshot]:
        """The snapshots of this run that any host has a share of, the newest first."""
        local_shares = [
            [ShardPlace.from_shard(each, self._process).model_dump(), index.origin.model_dump()]
            for each, index in complete_shards(self._folder)
            if self._is_ours(each, index)
        ]
        places: dict[tuple[int, str], list[ShardPlace]] = {}
        for gathered in current_peers().gather_values("snapshots in memory", local_shares):
            for place, origin in gathered:
                key = origin["step"], origin["series"]
                places.setdefault(key, []).append(ShardPlace(**place))
        return [
            LocalSnapshot(*key, tuple(local_shares))
            for key, local_shares in sorted(places.items(), reverse=True)
        ]

    @contextmanager
    def open_reader(self, snapshot: LocalSnapshot) -> Iterator[ShardReader]:
        """Context in which a snapshot is read.

        Raises:
            ShardError: no share of it can be read.
        """
        machine = self._members[self._process].machine
        near = [p for p in snapshot.places if self._members[p.process].machine == machine]
        here: list[ShardSource] = []
        for local_share in dict.fromkeys(place.shard_below(self._folder) for place in near):
            with suppress(ShardError):  # which was told when it was found
                here.append(LocalShard(local_share, local_share.index()))
        with ExitStack() as connections:
            far = [place for place in snapshot.places if place not in near]
            yield ShardReader(here, lambda: self._remote_shards(far, connections))

    def went_on_from(self, snapshot: LocalSnapshot | None) -> None:
        """The run goes on from this snapshot, or from none of them: others are removed."""
        for local_share, index in list(complete_shards(self._folder)):
            origin = index.origin
            if snapshot is None or (origin.step, origin.series) != (snapshot.step, snapshot.series):
                local_share.remove()
        # The next one goes into the other slot, here and on the machine that has a copy.
        places = snapshot.places if snapshot else ()
        self._newest = next((p.slot for p in places if p.origin == self._process), self._newest)

    def take_snapshot(self, step: int, state: Any, progress: dict[str, Any]) -> None:
        """Copy a state; waits for the devices, and for no other process' copy."""
        if not self._settle_previous(step):
            return
        slot, leaves = 1 - self._newest, leaves_by_name(self._names.to_stored(state))
        local_share = shard_in(self._folder, self._process, self._process, slot)
        if self._plan is None:
            self._plan = self._plan_index(leaves)
        origin = self._plan.origin.model_copy(update={"step": step})
        index = self._plan.model_copy(update={"origin": origin, "progress": progress})
        reason = ""
        try:
            make_folder(self._folder)
            local_share.reserve_memory(index.bytes)
            copy_parts(leaves, index.leaves, local_share)
        except OSError as error:
            reason = str(error)
        self._work = _SnapshotWork(
            step, slot, reason, lambda: self._complete_snapshot(slot, local_share, index)
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
        if self._neighbour is not None:
            machines = [member.machine for member in self._members]
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
        """Wait a little for what is being copied, and answer other hosts no more."""
        self.wait_for_copies(LAST)
        if self._desk is not None:
            self._desk.close()

    def _settle_previous(self, step: int) -> bool:
        """Whether the snapshot before is done with, on all processes; it then is the newest."""
        work = self._work
        states = current_peers().gather_values(
            "the snapshot before", "" if work is None else work.state
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

    def _complete_snapshot(self, slot: int, local_share: Shard, index: ShardIndex) -> None:
        """What is left to do beside training."""
        complete, self.copied = local_share.complete_with(index), 0
        member = self._neighbour
        if member is None:
            return
        part = complete.without_parts(self._elsewhere)
        try:
            send_copy(member, self._secret, slot, complete, local_share, part)
            self.copied = part.bytes
        except (OSError, ShardError) as error:
            self._warn_once(
                f"the snapshot of step {index.origin.step} has no copy on the machine of process "
                f"{member.process} ({member.machine}): {error}; if this machine is lost, the run "
                "goes on from a checkpoint"
            )

    def _remove_others(self) -> None:
        """Once a snapshot of this start is whole, those of earlier ones are of no use."""
        if self._others_there:
            self._others_there = False
            for local_share, index in list(complete_shards(self._folder)):
                if index.origin.series != self._series:
                    local_share.remove()

    def _is_ours(self, local_share: Shard, index: ShardIndex) -> bool:
        origin = index.origin
        if origin.run == self._run:
            return True
        logger.warning(
            "refused: the snapshot of step %d in %s is of run %s (%s), and this run is %s",
            *(origin.step, local_share.folder, origin.run, origin.folder, self._run),
        )
        return False

    def _start_server(self) -> ShardServer | None:
        """Where other processes can ask for shares; None where there are none, or no network."""
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
        self, places: Sequence[ShardPlace], connections: ExitStack
    ) -> list[ShardSource]:
        """Shares that other machines can read."""
        opened: list[ShardSource] = []
        channels: dict[int, MessageChannel] = {}
        for place in places:
            member = self._members[place.process]
            if member.address is None:
                continue
            try:
                if place.process not in channels:
                    channel = connect_to(member.address, self._secret)
                    connections.callback(channel.close)
                    channels[place.process] = channel
                opened.append(RemoteShard(channels[place.process], place))
            except (OSError, ShardError) as error:
                logger.warning(
                    "process %d (%s) does not tell of its snapshots: %s",
                    *(member.process, member.machine, error),
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
    config: ExperimentConfig, over: tuple[type[BaseException], ...]
) -> Iterator[SnapshotMemory | None]:
    """Context with the snapshots of a run; None where it takes none.

    They are removed at the end of the context, unless it ends by an error after which another start
    may go on from them.

    Args:
        over: errors after which no other start will.

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
    except over:
        memory.remove_snapshots()
        raise
    except BaseException:
        memory.close()
        raise
    memory.remove_snapshots()


class _SnapshotWork:
    """What is done beside training for one snapshot.

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
