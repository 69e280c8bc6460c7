"""Search of the fastest plan of groups: all of them, or from plan to better plan.

Both simulate a plan only if its bound (`GroupBounds`) is below the fastest that is known. Results
do not depend on chance, nor on the order of what is equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from math import inf

from scheduling.search.groups.bounds import GroupBounds
from scheduling.search.groups.space import (
    Division,
    GroupSpace,
    Members,
    list_divisions,
    order_division,
    units_of,
)
from scheduling.simulate.groups.costs import GroupCosts
from scheduling.simulate.groups.plan import GroupPlan, single_group
from scheduling.simulate.groups.step import GroupRun, schedule_groups, simulate_groups

#: With more modules, plans are improved rather than listed: there are 203 partitions of six.
MOST_LISTED = 6
#: Divisions without a faster neighbour, one after the other, after which improvement ends.
PATIENCE = 4
#: Share by which plans on the way to a faster one may be slower than the fastest.
DETOUR = 0.1
#: Seconds that differ by so small a share are the same; the plan that comes first is kept.
EQUAL = 1e-9


@dataclass
class GroupSearch:
    """Searches plans of groups.

    Attributes:
        costs: costs of the graph's tasks.
        space: what plans may be.
        best: the fastest step so far; None if none fits the memory.
        bounded, simulated: number of plans whose bound was computed, and that were simulated.
        refused: number of plans that need more memory than there is.
    """

    costs: GroupCosts
    space: GroupSpace
    best: GroupRun | None = None
    bounded: int = 0
    simulated: int = 0
    refused: int = 0
    _seconds: dict[Division, float] = field(default_factory=dict)

    def search_plans(self) -> GroupRun | None:
        """The fastest plan: of all for few modules, else of those that improving ones lead to."""
        few = len(units_of(self.costs.graph)) <= MOST_LISTED
        return self.search_all() if few else self.improve_plans()

    def search_all(self) -> GroupRun | None:
        """The fastest of all plans."""
        graph = self.costs.graph
        self.try_plans(self.space.single_plans(graph))
        divisions = list_divisions(graph, self.space)
        self.try_plans(plan for each in divisions for plan in self.space.plans_of(graph, each))
        return self.best

    def improve_plans(self) -> GroupRun | None:
        """The fastest plan that changes of one group or module at a time lead to."""
        self.try_plans(self.space.single_plans(self.costs.graph))
        for start in self._starts():
            self._improve_division(start)
        return self.best

    def try_plans(self, plans: Iterable[GroupPlan], detour: float = 0.0) -> float:
        """Simulate plans that may be the fastest, the most promising first.

        Args:
            detour: share by which bounds of plans may exceed the fastest that is known.

        Returns:
            Seconds of the fastest of the plans; of those that were not simulated the bound.
        """
        fastest, lean = inf, partial(self.fit_plan, memory=self.space.memory)
        bounded = [(GroupBounds(self.costs, plan).seconds, plan) for plan in plans]
        self.bounded += len(bounded)
        for bound, plan in sorted(bounded, key=lambda pair: pair[0]):
            if bound >= min(fastest, self._known_seconds * (1 + detour)):
                return min(bound, fastest)
            fitted = lean(plan)
            if fitted is None:
                self.refused += 1
                continue
            run = simulate_groups(self.costs, fitted)
            self.simulated += 1
            fastest = min(fastest, run.seconds)
            if run.seconds < self._known_seconds * (1 - EQUAL):
                self.best = run
        return fastest

    def fit_plan(self, plan: GroupPlan, memory: float) -> GroupPlan | None:
        """The plan with states shared where they have to be; None if it does not fit so either."""
        if memory == inf:
            return plan
        in_flight = schedule_groups(self.costs.graph, plan).in_flight
        fitted = self.costs.fit_memory(plan, in_flight, memory)
        return fitted if self.costs.device_bytes(fitted, in_flight) <= memory else None

    @property
    def _known_seconds(self) -> float:
        return inf if self.best is None else self.best.seconds

    # ---- from plan to better plan ----------------------------------------------------------------

    def _starts(self) -> list[Division]:
        """Divisions from which improvement starts."""
        graph, units = self.costs.graph, units_of(self.costs.graph)
        groups = [[units[0], sum(units[1:], ())]]
        groups += [self._even_groups(number) for number in range(1, len(units) + 1)]
        islands = [form for each in groups for form in ([each], [[group] for group in each])]
        starts = (order_division(graph, each) for each in islands)
        return [*dict.fromkeys(each for each in starts if self.space.allows(each))]

    def _even_groups(self, number: int) -> list[Members]:
        """Groups of about equal work, the longest modules first (LPT)."""
        groups: list[Members] = [()] * number
        loads = [0.0] * number
        for unit in sorted(units_of(self.costs.graph), key=self._unit_seconds, reverse=True):
            least = loads.index(min(loads))
            groups[least] += unit
            loads[least] += self._unit_seconds(unit)
        return groups

    def _unit_seconds(self, unit: Members) -> float:
        single = single_group(self.costs.graph.names, 1).groups[0]
        return sum(
            self.costs.least_seconds(single, name, phase)
            for name in unit
            for phase in self.costs.slices.modules[name].tasks
        )

    def _improve_division(self, start: Division) -> None:
        """Go to the fastest division whose neighbours are not known yet, again and again.

        It ends once `PATIENCE` of them have brought no faster one.
        """
        waiting = {start: self._seconds_of(start)}
        fastest, left = waiting[start], PATIENCE
        while waiting and left:
            division = min(waiting, key=lambda each: (waiting[each], each))
            del waiting[division]
            candidates = {*self._neighbours(division)} - self._seconds.keys()
            waiting |= {each: self._seconds_of(each) for each in sorted(candidates)}
            faster = min(waiting.values(), default=inf) < fastest * (1 - EQUAL)
            fastest = min((fastest, *waiting.values()))
            left = PATIENCE if faster else left - 1

    def _seconds_of(self, division: Division) -> float:
        """Seconds of the fastest plan of a division, or a bound if it is far from the best."""
        if division not in self._seconds:
            plans = self.space.plans_of(self.costs.graph, division)
            self._seconds[division] = self.try_plans(plans, DETOUR)
        return self._seconds[division]

    def _neighbours(self, division: Division) -> Iterator[Division]:
        graph = self.costs.graph
        for islands in _changes(division, units_of(graph)):
            changed = order_division(graph, islands)
            if changed != division and self.space.allows(changed):
                yield changed


_Islands = list[list[Members]]


def _changes(division: Division, units: list[Members]) -> Iterator[_Islands]:
    """Divisions that differ in one thing."""
    groups = [group for island in division for group in island]
    yield [groups]
    yield [[group] for group in groups]
    for unit in units:
        without = [[_without(group, unit) for group in island] for island in division]
        yield from _inserted(without, unit)
    for group in groups:
        yield from _inserted([[g for g in island if g != group] for island in division], group)
    for one in units:
        for other in units:
            if one < other:
                yield [[_swapped(group, one, other) for group in island] for island in division]


def _inserted(islands: _Islands, members: Members) -> Iterator[_Islands]:
    """Members in each group, in a new group of each island, and on an island of their own."""
    for i, island in enumerate(islands):
        for g, group in enumerate(island):
            changed = [*island[:g], (*group, *members), *island[g + 1 :]]
            yield [*islands[:i], changed, *islands[i + 1 :]]
        yield [*islands[:i], [*island, members], *islands[i + 1 :]]
    yield [*islands, [members]]


def _without(group: Members, unit: Members) -> Members:
    return tuple(name for name in group if name not in unit)


def _swapped(group: Members, one: Members, other: Members) -> Members:
    """The group with the other of two units in place of one that it has."""
    remaining = _without(_without(group, one), other)
    added = [b for a, b in ((one, other), (other, one)) if {*a} <= {*group}]
    return sum(added, remaining)
