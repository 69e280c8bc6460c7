"""Which samples of a pool a step may take, so that an epoch is an epoch for data of any size.

A step takes samples of one epoch alone, in a mixture of one epoch of each member. So no sample
comes again before all of its source, or of its member, have come, and none comes twice in a step;
the last step of an epoch has what is left, and padding where it has room for more. Five samples,
and steps with room for three::

    stream    a b c d e | c a e b d | ...
    step      0 0 0 1 1   2 2 2 3 3

In a mixture the pool may hold the next epoch of small members as well, whose samples wait, so that
it has enough samples of the others::

    stream    A1 b A2 c | A3 b ...       member with the samples b and c, next to a large one
    step      0  0 0  0   0  1
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

#: Member of a mixture (0 of a source that is none), and the number of its epoch.
Epoch = tuple[int, int]


class Pooled(Protocol):
    """A sample of the pool."""

    @property
    def epoch(self) -> Epoch:
        """The epoch that it belongs to."""


def list_offered(pool: Iterable[Pooled]) -> list[int]:
    """Places in a pool, oldest first, of the samples of every member's oldest epoch."""
    first: dict[int, int] = {}
    return [
        place
        for place, (member, number) in enumerate(item.epoch for item in pool)
        if first.setdefault(member, number) == number
    ]


def list_readable(
    pool: Iterable[Pooled],
    positions: Iterable[int],
    epoch_at: Callable[[int], Epoch],
    epochs: int,
) -> list[int]:
    """The first of the next stream positions, up to epochs that are too far ahead of a pool's.

    Args:
        pool: samples of the pool, oldest first.
        positions: stream positions after those of the pool, ascending.
        epoch_at: the epoch of the sample at a position.
        epochs: number of epochs that a member's newest sample may be ahead of its oldest one.
    """
    first: dict[int, int] = {}
    for member, number in (item.epoch for item in pool):
        first.setdefault(member, number)
    indices = []
    for position in positions:
        member, number = epoch_at(position)
        if number > first.setdefault(member, number) + epochs:
            break
        indices.append(position)
    return indices
