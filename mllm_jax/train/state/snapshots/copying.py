"""What a snapshot copies: the pieces of a state that devices of this process hold, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from mllm_jax.train.state.regroup import leaf_name
from mllm_jax.train.state.snapshots.array_box import ArrayBox, own_pieces, part_holders
from mllm_jax.train.state.snapshots.shard import Shard, ShardLeaf, ShardPart, laid_out

#: The leaves of a state by name.
Named = dict[str, jax.Array]


def leaves_by_name(state: Any) -> Named:
    """The leaves of a state by their dotted names."""
    return {leaf_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(state)}


def plan_parts(state: Named) -> dict[str, ShardLeaf]:
    """The pieces of this process, one behind the other, without their checksums."""
    leaves = {
        name: ShardLeaf(shape=leaf.shape, dtype=str(leaf.dtype), pieces=())
        for name, leaf in state.items()
    }
    pieces = {
        name: [
            ShardPart(start=box.start, stop=box.stop, offset=0) for box in sorted(own_pieces(leaf))
        ]
        for name, leaf in state.items()
    }
    return laid_out(leaves, pieces)


def parts_elsewhere(
    state: Named, machines: Sequence[str], process: int
) -> dict[str, set[ArrayBox]]:
    """The pieces that need not be copied to another machine, as they are there, or as another
    process of this machine copies them.

    Args:
        machines: machine of every process.
    """
    machine = machines[process]

    def cared_for(box_holders: set[int]) -> bool:
        return {machines[other] for other in box_holders} != {machine} or min(
            box_holders
        ) != process

    return {
        name: {
            box for box, holders_of_box in part_holders(leaf).items() if cared_for(holders_of_box)
        }
        for name, leaf in state.items()
    }


def copy_parts(state: Named, leaves: dict[str, ShardLeaf], into: Shard) -> None:
    """Copy the pieces of this process; waits for the devices.

    Raises:
        OSError: there is no room for them.
    """
    into.write(_part_values(state, leaves))


def _part_values(
    state: Named, leaves: dict[str, ShardLeaf]
) -> Iterator[tuple[int, Callable[[], np.ndarray]]]:
    """Offset and values of every piece; all copies from devices begin before the first ends."""
    local_pieces = {name: own_pieces(leaf) for name, leaf in state.items()}
    for pieces in local_pieces.values():
        for values in pieces.values():
            values.copy_to_host_async()
    for name, leaf in leaves.items():
        for piece in leaf.pieces:
            yield piece.offset, partial(np.asarray, local_pieces[name][piece.box])
