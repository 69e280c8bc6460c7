"""Bounds of a step of groups: seconds that it takes at least, whatever its schedule is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from scheduling.costs.slices import Phase
from scheduling.simulate.groups.costs import GroupCosts
from scheduling.simulate.groups.plan import GroupPlan, PlannedGroup


@dataclass(frozen=True)
class GroupBounds:
    """The least seconds of a step.

    A group runs all of its tasks one after the other: after what the first of them waits for, and
    before what waits for the last. Losses of a step divide it in two.

    Attributes:
        costs: costs of tasks.
        plan: the groups.
    """

    costs: GroupCosts
    plan: GroupPlan

    @property
    def seconds(self) -> float:
        """Seconds that the step takes at least."""
        return self._gradient_seconds + max(self._update_seconds(g) for g in self.plan.groups)

    @cached_property
    def _gradient_seconds(self) -> float:
        graph, groups = self.costs.graph, self.plan.groups
        if not graph.waits:
            return max(
                self._head_of(group) + self._work_of(group) + self._tail_of(group)
                for group in groups
            )
        forward = max(self._head_of(g) + self._tasks_of(g, "forward") for g in groups)
        losses = self._least(graph.names[0], "losses")
        return (
            forward + losses + max(self._tasks_of(g, "backward") + self._tail_of(g) for g in groups)
        )

    def _work_of(self, group: PlannedGroup) -> float:
        return self._tasks_of(group, "forward") + self._tasks_of(group, "backward")

    def _tasks_of(self, group: PlannedGroup, phase: Phase) -> float:
        return self.costs.graph.microbatches * sum(
            self._least(name, phase) for name in group.modules
        )

    def _update_seconds(self, group: PlannedGroup) -> float:
        return sum(self._least(name, "update") for name in group.modules)

    def _least(self, name: str, phase: Phase) -> float:
        if not self._runs(name, phase):
            return 0.0
        return self.costs.least_seconds(self._group_of(name), name, phase)

    def _runs(self, name: str, phase: Phase) -> bool:
        trains = self.costs.graph.by_name[name].has_backward
        return (trains or phase != "backward") and self.costs.has_task(name, phase)

    def _group_of(self, name: str) -> PlannedGroup:
        return self.plan.groups[self.plan.group_of[name]]

    # ---- what a group waits for, and what waits for it -------------------------------------------

    def _head_of(self, group: PlannedGroup) -> float:
        """Seconds before the first task of a group."""
        return min(self._before(name) for name in group.modules)

    def _tail_of(self, group: PlannedGroup) -> float:
        """Seconds after the last backward of a group, or the sum of its gradients."""
        sync = self.costs.sync_seconds(group)
        return max(sync, min(self._after(name) for name in group.modules))

    def _before(self, name: str) -> float:
        return max(
            (
                self._before(source) + self._least(source, "forward") + self._copy(source, name)
                for source in self.costs.graph.sources[name]
            ),
            default=0.0,
        )

    def _after(self, name: str) -> float:
        return max(
            (
                self._copy(source, name) + self._least(source, "backward") + self._after(source)
                for source in self._trained_sources(name)
            ),
            default=0.0,
        )

    def _trained_sources(self, name: str) -> Iterable[str]:
        sources = self.costs.graph.sources[name]
        return (each for each in sources if self.costs.graph.by_name[each].has_backward)

    def _copy(self, source: str, target: str) -> float:
        """Seconds in which outputs of one module, or their gradients, get to another."""
        pair = self._group_of(source), self._group_of(target)
        return 0.0 if pair[0] == pair[1] else self.costs.copy_seconds(source, *pair)
