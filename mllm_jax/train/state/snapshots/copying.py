"""What a snapshot copies: the parts of a state that devices of this process hold, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from mllm_jax.train.state.regroup import leaf_name
from mllm_jax.train.state.snapshots.array_box import ArrayBox, local_parts, processes_by_part
from mllm_jax.train.state.snapshots.shard import Shard, ShardLeaf, ShardPart, lay_out_parts

#: The leaves of a state by name.
Named = dict[str, jax.Array]


def leaves_by_name(state: Any) -> Named:
    """The leaves of a state by their dotted names."""
    return {leaf_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(state)}


def plan_parts(state: Named) -> dict[str, ShardLeaf]:
    """The parts of this process, one after the other, without their checksums."""
    leaves = {
        name: ShardLeaf(shape=leaf.shape, dtype=str(leaf.dtype), parts=())
        for name, leaf in state.items()
    }
    parts = {
        name: [
            ShardPart(start=box.start, stop=box.stop, offset=0) for box in sorted(local_parts(leaf))
        ]
        for name, leaf in state.items()
    }
    return lay_out_parts(leaves, parts)


def parts_elsewhere(
    state: Named, machines: Sequence[str], process: int
) -> dict[str, set[ArrayBox]]:
    """The parts that need not be copied to another machine, as they are there, or as another
    process of this machine copies them.

    Args:
        machines: machine of every process.
    """
    machine = machines[process]

    def has_replica(processes: set[int]) -> bool:
        return {machines[other] for other in processes} != {machine} or min(processes) != process

    return {
        name: {box for box, processes in processes_by_part(leaf).items() if has_replica(processes)}
        for name, leaf in state.items()
    }


def copy_parts(state: Named, leaves: dict[str, ShardLeaf], into: Shard) -> None:
    """Copy the parts of this process; waits for the devices.

    Raises:
        OSError: there is no room for them.
    """
    into.write(_part_values(state, leaves))


def _part_values(
    state: Named, leaves: dict[str, ShardLeaf]
) -> Iterator[tuple[int, Callable[[], np.ndarray]]]:
    """Offset and values of every part; all copies from devices begin before the first ends."""
    parts_by_leaf = {name: local_parts(leaf) for name, leaf in state.items()}
    for parts in parts_by_leaf.values():
        for values in parts.values():
            values.copy_to_host_async()
    for name, leaf in leaves.items():
        for part in leaf.parts:
            yield part.offset, partial(np.asarray, parts_by_leaf[name][part.box])
