"""The snapshots of a run in the memory of its hosts, and which of them a fault damages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from benchmarks.faults.hosts import EmulatedHosts
from mllm_jax.train.state.snapshots.shard import Shard, ShardError, ShardIndex

#: Shares of all runs of this user below the folder of files in memory.
_SHARES = "mllm_jax-*/*/[0-9]*/[0-9]*/[01]"


def list_shards(hosts: EmulatedHosts, run: Path, origin: int) -> list[tuple[Shard, ShardIndex]]:
    """Whole shares of what process `origin` held, on all hosts, the newest first.

    Args:
        run: folder of the run, as its hosts see it.
    """
    places = dict.fromkeys(hosts.shared_memory(host) for host in range(hosts.count))
    every = (shard for place in places for shard in _complete_shards(place))
    ours = [shard for shard in every if shard[1].origin.folder == str(run)]
    mine = [shard for shard in ours if shard[1].origin.process == origin]
    return sorted(mine, key=lambda shard: -shard[1].origin.step)


def choose_shards(hosts: EmulatedHosts, run: Path, origin: int, choice: float) -> list[Shard]:
    """Shares to damage: the newest one of the process itself, also its copies, or all there are."""
    shards = list_shards(hosts, run, origin)
    newest = [shard for shard in shards if shard[1].origin.step == shards[0][1].origin.step]
    itself = [shard for shard in newest if shard[0].holder == origin]
    few = [itself, newest, shards][int(choice * 3)]
    return [share for share, _ in few]


def _complete_shards(memory: Path) -> Iterator[tuple[Shard, ShardIndex]]:
    for path in sorted(memory.glob(_SHARES)):
        share = Shard(path)
        with suppress(ShardError):  # it is being written, or was damaged before
            yield share, share.index()
