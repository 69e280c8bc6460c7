"""The space of plans of groups: partitions of modules, ranges of devices, quotas of slices.

Modules are in groups, and groups are on *islands*: ranges of devices that have no device in common.
Several groups of an island are slices of its devices. Three modules on four devices::

    ((A, B, C),)        one group, as without groups     ABCABC
    ((A,), (B, C))      two islands, disjoint devices    A | BC
    ((A,), (B, C)),     one island of two slices         A / BC
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import inf, isclose
from typing import TypeVar

from scheduling.simulate.groups.graph import ModuleGraph
from scheduling.simulate.groups.plan import GroupPlan, PlannedGroup, single_group
from sharding.plan import divisors_of

#: Names of the modules of a group.
Members = tuple[str, ...]
#: Islands, and their groups of modules, in the order of the modules.
Division = tuple[tuple[Members, ...], ...]

Item = TypeVar("Item")


@dataclass(frozen=True)
class GroupSpace:
    """What plans of groups may be.

    Attributes:
        devices: number of devices.
        quotas: quotas that a slice may have; none: no slices.
        equal: whether slices of a device have equal quotas, as emulated devices of CPUs do.
        ranges: whether groups may have ranges of devices.
        mixed: whether some groups may have slices while others have devices of their own.
        replicas: numbers of slices of each device over which the rows of all modules in one group
            may be divided.
        memory: bytes of a device that a step may take.
        least: least number of groups.
    """

    devices: int
    quotas: tuple[float, ...] = ()
    equal: bool = False
    ranges: bool = True
    mixed: bool = False
    replicas: tuple[int, ...] = ()
    memory: float = inf
    least: int = 1

    def allows(self, division: Division) -> bool:
        """Whether groups may be on islands so."""
        if sum(map(len, division)) < self.least:
            return False
        shared = [island for island in division if len(island) > 1]
        if len(division) > 1 and (not self.ranges or (shared and not self.mixed)):
            return False
        return len(division) <= self.devices and all(
            self.split_quotas(len(island)) for island in shared
        )

    def split_quotas(self, slices: int) -> tuple[tuple[float, ...], ...]:
        """All quotas of so many slices of a device."""
        return _split_quotas(self.quotas, slices, self.equal)

    def single_plans(self, graph: ModuleGraph) -> list[GroupPlan]:
        """Plans with all modules in one group, that of a run without groups first."""
        if self.least > 1:
            return []
        names, rows = graph.names, graph.rows
        serial = [single_group(names, count) for count in sorted(self._degrees(rows), reverse=True)]
        return serial + [
            single_group(names, self.devices, slices)
            for slices in self.replicas
            if rows % (slices * self.devices) == 0
        ]

    def plans_of(self, graph: ModuleGraph, division: Division) -> Iterator[GroupPlan]:
        """All plans whose groups are on islands so."""
        if len(division) == 1 and len(division[0]) == 1:
            yield from self.single_plans(graph)
            return
        quotas = [
            self.split_quotas(len(island)) if len(island) > 1 else ((1.0,),) for island in division
        ]
        for counts in self._split_devices(len(division), graph.rows):
            for chosen in product(*quotas):
                yield _place_groups(division, counts, chosen)

    def _degrees(self, rows: int) -> list[int]:
        """Numbers of devices that divide the rows of a microbatch."""
        return [n for n in divisors_of(rows) if n <= self.devices]

    def _split_devices(self, islands: int, rows: int) -> Iterator[tuple[int, ...]]:
        """Numbers of devices of each island; slices are of all devices unless plans are mixed."""
        degrees = self._degrees(rows)
        if islands == 1:
            yield from ((n,) for n in degrees if n == self.devices or self.mixed)
            return
        for counts in product(degrees, repeat=islands):
            if sum(counts) <= self.devices:
                yield counts


@lru_cache(maxsize=256)
def _split_quotas(
    quotas: tuple[float, ...], slices: int, equal: bool
) -> tuple[tuple[float, ...], ...]:
    combinations = (
        each for each in product(quotas, repeat=slices) if isclose(sum(each), 1, abs_tol=1e-6)
    )
    return tuple(each for each in combinations if not equal or len({*each}) == 1)


def _place_groups(
    division: Division, counts: Sequence[int], quotas: Sequence[Sequence[float]]
) -> GroupPlan:
    groups, first = list[PlannedGroup](), 0
    for island, count, of_island in zip(division, counts, quotas, strict=True):
        devices = first, first + count - 1
        groups += [
            PlannedGroup(members, devices, quota)
            for members, quota in zip(island, of_island, strict=True)
        ]
        first += count
    return GroupPlan(tuple(groups))


# ---- divisions -----------------------------------------------------------------------------------


def list_divisions(graph: ModuleGraph, space: GroupSpace) -> Iterator[Division]:
    """All divisions of the modules into groups, and of groups into islands."""
    for groups in list_partitions(units_of(graph)):
        joined = [sum(group, ()) for group in groups]
        for islands in _list_islands(joined, space):
            division = order_division(graph, islands)
            if space.allows(division):
                yield division


def _list_islands(groups: list[Members], space: GroupSpace) -> Iterator[list[list[Members]]]:
    if space.mixed:
        yield from list_partitions(groups)
        return
    yield [groups]
    if len(groups) > 1:
        yield [[group] for group in groups]


def units_of(graph: ModuleGraph) -> list[Members]:
    """Modules that are in one group together."""
    bound = {name for names in graph.together for name in names}
    alone = [(name,) for name in graph.names if name not in bound]
    return [*alone, *graph.together]


def list_partitions(items: Sequence[Item]) -> Iterator[list[list[Item]]]:
    """All partitions of a set.

    >>> [*list_partitions("ab")]
    [[['a', 'b']], [['a'], ['b']]]
    """
    if not items:
        yield []
        return
    for parts in list_partitions(items[:-1]):
        for number in range(len(parts)):
            yield [*parts[:number], [*parts[number], items[-1]], *parts[number + 1 :]]
        yield [*parts, [items[-1]]]


def order_division(graph: ModuleGraph, islands: Sequence[Sequence[Sequence[str]]]) -> Division:
    """Islands, groups and modules in the order of the graph; empty ones are left out."""
    order = {name: number for number, name in enumerate(graph.names)}

    def first_of(group: Members) -> int:
        return order[group[0]]

    ordered = [
        sorted(
            (tuple(sorted(group, key=order.__getitem__)) for group in island if group), key=first_of
        )
        for island in islands
    ]
    return tuple(
        sorted((tuple(island) for island in ordered if island), key=lambda x: first_of(x[0]))
    )
