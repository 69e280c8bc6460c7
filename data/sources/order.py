"""The order in which samples come up: epochs, each shuffled anew, or a mixture by weights.

An order is a pure function of the position, so that any position can be looked up directly.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from math import ceil
from typing import Protocol

import grain
import numpy as np
from numpy.typing import NDArray

from data.sources.source import SampleKey

#: Position in the stream, index in the source, and epoch of a sample.
StreamPlace = tuple[int, int, int]

_ONE = 1 << 32  # weights are whole numbers with this sum, so that counts are exact
_SMALL = 1 << 14  # number of samples up to which permutations are kept in memory
_SHORTEST = 64  # fewest positions of a block


class SampleOrder(Protocol):
    """The sample at every position from 0 on, without end: (index in the source, epoch)."""

    @property
    def epoch_size(self) -> int:
        """A number of positions in which every sample comes up."""

    def epoch_at(self, position: int) -> tuple[int, int]:
        """The member of a mixture at a position, 0 of another source, and the number of its epoch:
        how often all samples of the member have come up before."""

    def __getitem__(self, position: int) -> SampleKey: ...


@dataclass(frozen=True)
class ShuffledOrder:
    """Epoch after epoch of `size` samples, each sample once in each epoch."""

    size: int
    seed: int

    @property
    def epoch_size(self) -> int:
        """See `SampleOrder.epoch_size`."""
        return self.size

    @cached_property
    def _index_dataset(self) -> grain.MapDataset[int]:
        # A data set of indices, not of samples: planning must not read samples.
        return grain.MapDataset.range(self.size).shuffle(seed=self.seed).repeat()

    def epoch_at(self, position: int) -> tuple[int, int]:
        """See `SampleOrder.epoch_at`."""
        return 0, position // self.size

    def __getitem__(self, position: int) -> SampleKey:
        return int(self._index_dataset[position]), position // self.size


@dataclass(frozen=True)
class PermutedOrder:
    """An order like `ShuffledOrder`, for few samples.

    Grain permutes 2^16 numbers at least, and goes on from one that is no sample's to the next: an
    index among 64 samples takes it half a millisecond.
    """

    size: int
    seed: int

    @property
    def epoch_size(self) -> int:
        """See `SampleOrder.epoch_size`."""
        return self.size

    def epoch_at(self, position: int) -> tuple[int, int]:
        """See `SampleOrder.epoch_at`."""
        return 0, position // self.size

    def __getitem__(self, position: int) -> SampleKey:
        epoch, at = divmod(position, self.size)
        return int(_random_permutation(self.seed, epoch, self.size)[at]), epoch


@lru_cache(maxsize=32)
def _random_permutation(seed: int, number: int, size: int) -> NDArray[np.int64]:
    """Permutation `number` of a seed; NumPy guarantees that it never changes."""
    key = np.array([seed, number], np.uint64)
    return np.argsort(np.random.Philox(key=key).random_raw(size), kind="stable")


def shuffle_samples(size: int, seed: int) -> SampleOrder:
    """Epochs of `size` samples in an order that the seed chooses."""
    return PermutedOrder(size, seed) if size <= _SMALL else ShuffledOrder(size, seed)


@dataclass(frozen=True)
class MixedOrder:
    """Members of a mixture by their weights, each in epochs of its own.

    Positions come in blocks. A member of share w has w * t of the first t positions of whole
    blocks, rounded up or down; within a block members follow each other at random. The k-th sample
    of a member is the one at position k of its own order, so that all its samples come up before
    one comes up twice, however small its weight. Example: with weights 3 and 1 and blocks of 64,
    each block has 48 positions of the first member and 16 of the second, whose samples 0 to 15 (of
    its order) are in the first block, 16 to 31 in the second.

    Attributes:
        sizes: numbers of samples of the members, whose samples follow each other in the source.
        weights: weights of the members.
        seed: seed of the order.
    """

    sizes: tuple[int, ...]
    weights: tuple[float, ...]
    seed: int

    @cached_property
    def share_bounds(self) -> tuple[int, ...]:
        """Cumulative sums of the shares of the members; the last one is `_ONE`."""
        sums = list(accumulate(self.weights))
        return (*(round(_ONE * part / sums[-1]) for part in sums[:-1]), _ONE)

    @cached_property
    def block_size(self) -> int:
        """Positions of a block: enough that no member gets a negative number of them."""
        return max(_SHORTEST, ceil(2 * _ONE / min(self._member_shares)))

    @property
    def epoch_size(self) -> int:
        """See `SampleOrder.epoch_size`."""
        needed = (
            ceil(n * _ONE / share) for n, share in zip(self.sizes, self._member_shares, strict=True)
        )
        return max(needed) + 2 * self.block_size

    @property
    def _member_shares(self) -> list[int]:
        return [end - start for start, end in pairwise((0, *self.share_bounds))]

    @cached_property
    def _member_orders(self) -> tuple[SampleOrder, ...]:
        seeds = [_derive_seed(self.seed, member) for member in range(len(self.sizes))]
        return tuple(map(shuffle_samples, self.sizes, seeds))

    def member_at(self, position: int) -> tuple[int, int]:
        """The member at a position, and the number of its samples that came up before."""
        block, at = divmod(position, self.block_size)
        members, numbers = _block_layout(self, block)
        return int(members[at]), int(numbers[at])

    def epoch_at(self, position: int) -> tuple[int, int]:
        """See `SampleOrder.epoch_at`."""
        member, number = self.member_at(position)
        return member, number // self.sizes[member]

    def __getitem__(self, position: int) -> SampleKey:
        member, number = self.member_at(position)
        index, epoch = self._member_orders[member][number]
        return sum(self.sizes[:member]) + index, epoch

    def positions_before(self, block: int) -> NDArray[np.int64]:
        """Number of positions of every member in all blocks before `block`, `[members]`."""
        position = block * self.block_size
        up_to = [(position * bound + _ONE // 2) // _ONE for bound in (0, *self.share_bounds)]
        return np.array([end - start for start, end in pairwise(up_to)], np.int64)

    def block_slots(self, block: int) -> NDArray[np.int64]:
        """The numbers of the positions of a block, shuffled, `[block]`."""
        return _random_permutation(_derive_seed(self.seed, "slots"), block, self.block_size)


@lru_cache(maxsize=4)
def _block_layout(order: MixedOrder, block: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The member at every position of a block, and the number of the member's samples before."""
    done = order.positions_before(block)
    counts = order.positions_before(block + 1) - done
    members = np.searchsorted(np.cumsum(counts), order.block_slots(block), side="right")
    by_member = np.argsort(members, kind="stable")
    firsts = np.cumsum(counts) - counts
    numbers = np.empty_like(by_member)
    numbers[by_member] = np.arange(order.block_size) + np.repeat(done - firsts, counts)
    return members, numbers


def _derive_seed(seed: int, part: object) -> int:
    """A separate seed for a part: Grain adds the epoch to a seed, so seed + 1 would repeat."""
    return int.from_bytes(hashlib.sha256(f"{seed} {part}".encode()).digest()[:4], "big")


def interleave_members(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """All (member, index in it), the members spread evenly over the list."""
    places = [(member, i) for member, size in enumerate(sizes) for i in range(size)]
    return sorted(places, key=lambda place: ((place[1] + 0.5) / sizes[place[0]], place[0]))
