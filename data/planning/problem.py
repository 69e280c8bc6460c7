"""The problem of balancing: items, ranks, and the cost of each rank.

The cost of a rank's items depends on how its module computes:

    packed        sum(linear) + sum(attention)              no padding, segments side by side
    padded        count * (linear + attention of longest)   all padded to the longest
    convolution   count * linear of longest + sum(attention)

Costs are counted in integers, so that every host, whatever its processor, finds the same
assignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from data.sample import DataError

Ints = NDArray[np.int64]
CostKind = Literal["packed", "padded", "convolution"]


class WorkModel(Protocol):
    """Work of a module on a segment of n input positions: `linear * n + attention(n)`."""

    @property
    def linear(self) -> float:
        """Work per position."""

    def attention(self, lengths: NDArray[np.float64]) -> NDArray[np.float64]:
        """Work with pairs of positions, of segments of `lengths`."""


#: Costs are whole multiples of the most expensive item's cost divided by this.
RESOLUTION = 2**30


@dataclass(frozen=True, eq=False)
class BalanceProblem:
    """Items to distribute over ranks.

    Attributes:
        lengths: `[items]`: lengths of the items, in input positions.
        ranks: number of ranks; in training every row of a batch counts as one.
        work: work of the module on an item.
        kind: how a rank's cost is computed from its items.
        needs: `[items, resources]`: needs of the items.
        limits: `[resources]`: what a rank has room for, in training the length of a row first.
        names: names of the items, for errors; by default their numbers.
    """

    lengths: Ints
    ranks: int
    work: WorkModel
    kind: CostKind = "packed"
    needs: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    limits: tuple[int, ...] = ()
    names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Refuse a problem that is inconsistent.

        Raises:
            DataError: there is no rank, a length is negative, or needs do not fit items and limits.
        """
        if self.ranks < 1:
            raise DataError(f"balancing over {self.ranks} ranks is refused; valid: 1 or more")
        object.__setattr__(self, "lengths", np.array(self.lengths, np.int64))
        self.lengths.setflags(write=False)
        if self.limits:
            needs = np.asarray(self.needs, np.int64)
            if needs.shape != (len(self.lengths), len(self.limits)):
                raise DataError(
                    f"needs {needs.shape} are not for {len(self.lengths)} items and "
                    f"{len(self.limits)} limits"
                )
            object.__setattr__(self, "needs", needs)
        else:
            object.__setattr__(self, "needs", np.zeros((len(self.lengths), 0), np.int64))
        if self.lengths.min(initial=0) < 0:
            raise DataError(f"length {self.lengths.min()} of an item is refused; valid: 0 or more")

    @cached_property
    def cost_parts(self) -> tuple[Ints, Ints]:
        """Linear part of every item's cost, and that of attention, as integers, `[items]`."""
        n = self.lengths.astype(np.float64)
        linear, attention = self.work.linear * n, self.work.attention(n)
        largest = float((linear + attention).max(initial=0.0))
        unit = largest / RESOLUTION if largest else 1.0
        return np.rint(linear / unit).astype(np.int64), np.rint(attention / unit).astype(np.int64)

    @cached_property
    def costs(self) -> Ints:
        """Cost of every item alone, `[items]`."""
        linear, attention = self.cost_parts
        return linear + attention

    def name(self, item: int) -> str:
        """Name of an item."""
        return str(item) if self.names is None else self.names[item]

    def loads(self, rank: Ints) -> Ints:
        """Cost of every rank, `[ranks]`.

        Args:
            rank: `[items]`: rank of every item, -1 for items without a rank.
        """
        here = rank >= 0
        linear, attention = (part[here] for part in self.cost_parts)
        count = np.bincount(rank[here], minlength=self.ranks)
        a = _of_ranks(linear, rank[here], count, padded=self.kind != "packed")
        return a + _of_ranks(attention, rank[here], count, padded=self.kind == "padded")

    @property
    def bound(self) -> float:
        """A lower bound of any assignment's heaviest rank: the mean, or the most expensive item."""
        return max(self.costs.sum() / self.ranks, float(self.costs.max(initial=0)))


def _of_ranks(part: Ints, rank: Ints, count: Ints, padded: bool) -> Ints:
    """A part of the cost of every rank."""
    loads = np.zeros(len(count), np.int64)
    if padded:
        np.maximum.at(loads, rank, part)
        return loads * count
    np.add.at(loads, rank, part)
    return loads
