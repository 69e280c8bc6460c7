"""Which blocks of an array go from which device to which, in rounds.

Shards of both sides are cut into blocks of one shape, so that each block lies in one shard of a
side. In a round a device sends one block at most and receives one at most: a permutation, in which
a device may keep what it has. Here `[4]` on two devices goes to three, each of which gets all::

    source   0: [a b]   1: [c d]
    target   2, 3, 4: [a b c d]
    rounds   0 -> 2, 1 -> 3    0 -> 3, 1 -> 4    0 -> 4, 1 -> 2
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import jax
from jax.sharding import Sharding

Starts = tuple[int, ...]


class BlockMove(NamedTuple):
    """A block on its way.

    Attributes:
        source, target: numbers of the devices.
        read, write: where the block begins in the shard of the source, and of the target.
    """

    source: int
    target: int
    read: Starts
    write: Starts


class BlockRounds(NamedTuple):
    """How an array goes from one layout to another.

    Attributes:
        block: shape of a block.
        rounds: what moves in each round.
    """

    block: tuple[int, ...]
    rounds: tuple[tuple[BlockMove, ...], ...]


def plan_rounds(
    shape: tuple[int, ...], source: Sharding, target: Sharding, devices: Sequence[jax.Device]
) -> BlockRounds:
    """The rounds in which an array of `shape` goes from one layout to another.

    Args:
        devices: the devices of both layouts, by number.
    """
    pairs = zip(source.shard_shape(shape), target.shard_shape(shape), strict=True)
    block = tuple(math.gcd(*sizes) for sizes in pairs)
    numbers = {device: number for number, device in enumerate(devices)}
    holders: dict[Starts, list[tuple[int, Starts]]] = {}
    for device, begin in _shard_starts(shape, source).items():
        for inside in _block_starts(source.shard_shape(shape), block):
            holder = numbers[device], inside
            holders.setdefault(_add_starts(begin, inside), []).append(holder)
    inside_all = [*_block_starts(target.shard_shape(shape), block)]
    missing = [
        (numbers[device], inside, _rotate(holders[_add_starts(begin, inside)], turn))
        for turn, (device, begin) in enumerate(_shard_starts(shape, target).items())
        for inside in _rotate(inside_all, turn)
    ]
    return BlockRounds(block, tuple(_fill_rounds(missing)))


def _rotate(items: list[Any], turn: int) -> list[Any]:
    """The items from another one on, so that devices with the same needs ask different ones."""
    first = turn % max(1, len(items))
    return items[first:] + items[:first]


def _fill_rounds(
    missing: list[tuple[int, Starts, list[tuple[int, Starts]]]],
) -> Iterator[tuple[BlockMove, ...]]:
    """Rounds with all blocks that find a free source and a free target."""
    while missing:
        moves: dict[int, BlockMove] = {}
        sources, left = set[int](), []
        for target, write, holders in missing:
            free = [holder for holder in holders if holder[0] not in sources]
            if target in moves or not free:
                left.append((target, write, holders))
                continue
            source, read = next((holder for holder in free if holder[0] == target), free[0])
            sources.add(source)
            moves[target] = BlockMove(source, target, read, write)
        yield tuple(moves.values())
        missing = left


def _shard_starts(shape: tuple[int, ...], layout: Sharding) -> Mapping[jax.Device, Starts]:
    """Where the shard of each device begins."""
    indices = layout.devices_indices_map(shape)
    return {
        device: tuple(part.indices(size)[0] for part, size in zip(index, shape, strict=True))
        for device, index in indices.items()
    }


def _block_starts(shard: tuple[int, ...], block: tuple[int, ...]) -> Iterator[Starts]:
    """Where the blocks of a shard begin."""
    sizes = zip(shard, block, strict=True)
    return product(*(range(0, size, step) if step else (0,) for size, step in sizes))


def _add_starts(first: Starts, second: Starts) -> Starts:
    return tuple(a + b for a, b in zip(first, second, strict=True))
