"""Schedules of modules on groups of devices, tick by tick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scheduling.schedules.modules.check import check_module_schedule, check_placed_modules
from scheduling.schedules.modules.schedule import L, ModuleSchedule, PlacedModule, ProgramTasks
from scheduling.schedules.task_kinds import F, TaskKind
from scheduling.schedules.tasks import Task


def make_module_schedule(
    modules: Sequence[PlacedModule],
    microbatches: int,
    *,
    waits: bool = False,
    limits: Sequence[int] | None = None,
) -> ModuleSchedule:
    """The schedule that runs backwards as early as it can, and forwards ahead of them.

    Args:
        modules, microbatches, waits: as of `ModuleSchedule`.
        limits: by group, the most microbatches in flight; by default as many as there are modules
            one after the other from one of the group to the losses, or all if losses wait.

    Raises:
        ScheduleError: sizes are impossible, see `check_module_schedule`.

    >>> decoder, image = PlacedModule("decoder", 0), PlacedModule("image", 1, ("decoder",))
    >>> print(make_module_schedule([decoder, image], microbatches=3))
    tick    0  1     2     3  4     5
    decoder .  F0+B0 F1+B1 .  F2+B2 .
    image   F0 F1    B0    F2 B1    B2
    """
    groups = 1 + max((module.group for module in modules), default=0)
    if limits is None:
        limits = [microbatches] * groups if waits else _depths(modules, groups)
    schedule = ModuleSchedule(tuple(modules), microbatches, waits, tuple(limits))
    check_placed_modules(schedule)
    schedule = replace(schedule, ticks=tuple(_TickLoop(schedule).make_ticks()))
    check_module_schedule(schedule)
    return schedule


def _depths(modules: Sequence[PlacedModule], groups: int) -> list[int]:
    """By group, the most modules one after the other from one of the group to the losses."""
    depths = dict[str, int]()
    for module in modules:
        depths[module.name] = 1 + max((depths.get(name, 0) for name in module.targets), default=0)
    return [
        max((depths[module.name] for module in modules if module.group == group), default=1)
        for group in range(groups)
    ]


class _TickLoop:
    """Gives every group the next task that it can run, in every tick."""

    def __init__(self, schedule: ModuleSchedule) -> None:
        self._schedule, self._done = schedule, set[Task]()
        self._waiting: list[list[ProgramTasks]] = [[] for _ in schedule.limits]
        self._begun: list[set[int]] = [set() for _ in schedule.limits]
        self._last: list[tuple[TaskKind, int]] = [(F, -1) for _ in schedule.limits]
        for tasks, group in schedule.tasks.items():
            self._waiting[group].append(tasks)

    def make_ticks(self) -> list[tuple[ProgramTasks, ...]]:
        ticks = []
        while any(self._waiting):
            row = tuple(self._next_of(group) for group in range(len(self._waiting)))
            self._done.update(task for tasks in row for task in tasks)
            for numbers, readers in zip(self._begun, self._schedule.last_readers, strict=True):
                numbers -= {number for number in numbers if readers[number] <= self._done}
            ticks.append(row)
        return ticks

    def _next_of(self, group: int) -> ProgramTasks:
        """Take a group's next task: forwards and backwards in turn, of the first microbatch.

        All modules of the group run the one before any runs the other: who reads their outputs
        needs all of them.
        """
        ready = [tasks for tasks in self._waiting[group] if self._is_ready(group, tasks)]
        if not ready:
            return ()
        kind, microbatch = self._last[group]
        first = min(
            ready,
            key=lambda tasks: (
                _pass_of(tasks) != (kind, microbatch),
                tasks[-1].kind is kind,
                tasks[0].microbatch,
            ),
        )
        self._last[group] = _pass_of(first)
        self._waiting[group].remove(first)
        if first[0].kind is not L:
            self._begun[group].add(first[0].microbatch)
        return first

    def _is_ready(self, group: int, tasks: ProgramTasks) -> bool:
        """Whether all is there that a task needs, and the group has room for its microbatch."""
        needs = {need for task in tasks for need in self._schedule.needs[task]}
        if not needs - {*tasks} <= self._done:
            return False
        begun = self._begun[group] | {task.microbatch for task in tasks}
        return tasks[0].kind is L or len(begun) <= self._schedule.limits[group]


def _pass_of(tasks: ProgramTasks) -> tuple[TaskKind, int]:
    """Which pass of which microbatch a task ends."""
    return tasks[-1].kind, tasks[-1].microbatch
