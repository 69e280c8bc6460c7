"""Times of programs that are compared in groups, in turns over all groups.

The programs of a group run right after each other, so that a slow moment of the machine hits all of
them. Every turn begins with another group, and every group with another of its programs; a group of
long programs takes part in some turns only::

    turn 0   a: x y z   b: x y z   c: x y z
    turn 1   b: y z x   c: y z x              a takes part in every second turn
    turn 2   c: z x y   a: z x y   b: z x y
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import jax

#: A program by the names of its group and its own.
Key = tuple[str, str]
#: Seconds of the programs that have run in a turn.
Turn = Mapping[Key, float]


@dataclass(frozen=True)
class TimedGroup:
    """Programs that are compared with each other.

    Attributes:
        name: name of the group.
        runs: the programs by name.
        every: it takes part in one of so many turns, at least 1; 1.5 means in two of three.
    """

    name: str
    runs: Mapping[str, Callable[[], Any]]
    every: float = 1.0

    def takes_part(self, turn: int) -> bool:
        """Whether its programs run in a turn; they do in the first, which is 0."""
        return ceil((turn + 1) / self.every) > ceil(turn / self.every)


def order_of_turn(groups: Sequence[TimedGroup], turn: int) -> Iterator[tuple[TimedGroup, str]]:
    """The programs of a turn, in their order."""
    for group in rotate_values(groups, turn):
        if group.takes_part(turn):
            for name in rotate_values(list(group.runs), turn):
                yield group, name


def in_turns(
    groups: Sequence[TimedGroup], turns: int, print_line: Callable[[str], None]
) -> list[Turn]:
    """Seconds of the programs of every turn.

    Nothing is run beforehand: programs whose first run is slow should have had it.

    Args:
        print_line: prints a line of progress.
    """
    results: list[Turn] = []
    for turn in range(turns):
        print_line(f"timing: turn {turn + 1} of {turns}")
        seconds: dict[Key, float] = {}
        for group, name in order_of_turn(groups, turn):
            begin = time.perf_counter()
            jax.block_until_ready(group.runs[name]())
            seconds[group.name, name] = time.perf_counter() - begin
        results.append(seconds)
    return results


def median_of(turns: Sequence[Turn], value: Callable[[Turn], float], needs: Key) -> float:
    """The median of what `value` makes of a turn, over the turns in which `needs` has run."""
    return statistics.median(value(turn) for turn in turns if needs in turn)


def rotate_values(values: Sequence[Any], count: int) -> Sequence[Any]:
    """`values` from number `count` on, and then those before it."""
    first = count % len(values) if values else 0
    return [*values[first:], *values[:first]]
