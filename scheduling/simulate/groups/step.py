"""A step of modules on groups of devices, simulated: who runs beside whom, and for how long.

Groups run the tasks of their columns (`scheduling.schedules.modules.schedule`) in order, each as
soon as its inputs are there. Tasks on slices of the same devices slow each other down for as long
as both run (`scheduling.costs.slices`)::

    slice 0   F0 F1  L B0 B1  u
    slice 1   F0 F1    B0 B1  u

Updates wait for the norm of all gradients, and thus for all groups.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from typing import NamedTuple

from scheduling.costs.slices import Phase, RunningTask
from scheduling.schedules.modules.make import make_module_schedule
from scheduling.schedules.modules.schedule import L, ModuleSchedule, PlacedModule, ProgramTasks
from scheduling.schedules.task_kinds import B, F, TaskKind
from scheduling.schedules.tasks import Task
from scheduling.simulate.groups.costs import GroupCosts
from scheduling.simulate.groups.graph import ModuleGraph
from scheduling.simulate.groups.plan import GroupPlan

_PHASES: Mapping[TaskKind, Phase] = {F: "forward", L: "losses", B: "backward"}


class TaskRun(NamedTuple):
    """A task that has run: in a group, from one second of the step to another."""

    group: int
    module: str
    phase: Phase
    start: float
    end: float


@dataclass(frozen=True)
class GroupRun:
    """A simulated step.

    Attributes:
        plan: its groups.
        schedule: the order of its tasks.
        tasks: all tasks, updates at the end.
        seconds: seconds of the step.
    """

    plan: GroupPlan
    schedule: ModuleSchedule
    tasks: tuple[TaskRun, ...]
    seconds: float

    @property
    def busy(self) -> tuple[float, ...]:
        """By group, the share of the step in which it computes."""
        seconds = [0.0] * len(self.plan.groups)
        for task in self.tasks:
            seconds[task.group] += task.end - task.start
        return tuple(each / self.seconds for each in seconds)


def schedule_groups(graph: ModuleGraph, plan: GroupPlan) -> ModuleSchedule:
    """The order of a step's programs; modules beside the backbone are part of the backbone's."""
    return _make_schedule(graph, tuple(plan.group_of[name] for name in graph.names))


@lru_cache(maxsize=4096)
def _make_schedule(graph: ModuleGraph, groups: tuple[int, ...]) -> ModuleSchedule:
    backbone, home = graph.names[0], groups[0]
    local = {name for name, group in zip(graph.names, groups, strict=True) if group == home}
    placed = [
        PlacedModule(
            module.name,
            group,
            tuple(dict.fromkeys(backbone if t in local else t for t in module.targets)),
            module.has_backward,
        )
        for module, group in zip(graph.modules, groups, strict=True)
        if module.name == backbone or group != home
    ]
    return make_module_schedule(placed, graph.microbatches, waits=graph.waits)


def simulate_groups(costs: GroupCosts, plan: GroupPlan) -> GroupRun:
    """The step of a graph of modules under a plan."""
    schedule = schedule_groups(costs.graph, plan)
    loop = _TaskLoop(costs, plan)
    done = loop.run_tasks(_StepPrograms(costs, plan, schedule).order_tasks())
    synced = max(
        max((task.end for task in done if task.group == number), default=0.0)
        + costs.sync_seconds(group)
        for number, group in enumerate(plan.groups)
    )
    updates = loop.run_tasks(_order_updates(costs, plan, synced))
    seconds = max((synced, *(task.end for task in updates)))
    return GroupRun(plan, schedule, (*done, *updates), seconds)


class _QueuedTask(NamedTuple):
    """A task in the order of a group.

    Attributes:
        task: what runs.
        started: second in which the host has started its program.
        needs: by task whose results it needs, the seconds until they are there.
        ends: tasks whose results are there at its end.
        added: seconds that the host takes of the group's cores.
    """

    task: RunningTask
    started: float = 0.0
    needs: Mapping[Task, float] = {}
    ends: ProgramTasks = ()
    added: float = 0.0


_Orders = Sequence[deque[_QueuedTask]]


@dataclass(frozen=True)
class _StepPrograms:
    """The programs of a step, and the tasks of modules in each."""

    costs: GroupCosts
    plan: GroupPlan
    schedule: ModuleSchedule

    def order_tasks(self) -> _Orders:
        """The tasks of every group, in the order in which the host starts their programs."""
        orders: _Orders = [deque() for _ in self.plan.groups]
        host = 0.0
        for row in self.schedule.ticks:
            for number, program in enumerate(row):
                tasks = [task for each in program for task in self._parts_of(number, each)]
                needs = self._arrivals(number, program)
                starting = self._host_seconds(tasks, needs)
                added = starting if self.costs.slices.host_on_slices else 0.0
                for task in tasks:
                    first, last = task is tasks[0], task is tasks[-1]
                    ends = program if last else ()
                    queued = _QueuedTask(task, host, needs, ends, added)
                    orders[number].append(queued if first else _QueuedTask(task, host, ends=ends))
                host += starting
        return orders

    def _host_seconds(self, tasks: Sequence[RunningTask], needs: Mapping[Task, float]) -> float:
        """Seconds in which the host starts a program, and the copies of what it needs."""
        if self.plan.is_single or not tasks:
            return 0.0
        slices = self.costs.slices
        copies = sum(1 for seconds in needs.values() if seconds > 0)
        return max(map(slices.host_seconds, tasks)) + copies * slices.slice_link.latency

    def _parts_of(self, number: int, task: Task) -> list[RunningTask]:
        """What runs one after the other: modules beside the backbone before it, and after it."""
        phase, names = _PHASES[task.kind], [task.module]
        if task.module == self.costs.graph.names[0] and phase != "losses":
            names = [*self.plan.groups[number].modules]
        if phase == "backward" and self._runs_twice:
            return [
                *self._parts_in(number, names[::-1], "forward"),
                *self._parts_in(number, names, phase),
            ]
        return self._parts_in(number, names[::-1] if phase == "forward" else names, phase)

    def _parts_in(self, number: int, names: Sequence[str], phase: Phase) -> list[RunningTask]:
        group = self.plan.groups[number]
        return [self.costs.running(group, name, phase) for name in names if self._runs(name, phase)]

    @property
    def _runs_twice(self) -> bool:
        """Whether forwards run a second time before backwards."""
        graph = self.costs.graph
        return graph.waits and graph.gradient_caching and self.plan.is_single

    def _runs(self, name: str, phase: Phase) -> bool:
        trains = phase != "backward" or self.costs.graph.by_name[name].has_backward
        return trains and self.costs.has_task(name, phase)

    def _arrivals(self, number: int, program: ProgramTasks) -> dict[Task, float]:
        """Tasks of other programs whose results are needed, and the seconds until these arrive."""
        arrivals: dict[Task, float] = {}
        for task in program:
            for need in self._needs_of(task):
                if need not in program:
                    # Gradients are those of the module that has made the outputs.
                    name = task.module if task.kind is B else need.module
                    later = self._copy_seconds(name, self.plan.group_of[need.module], number)
                    arrivals[need] = max(later, arrivals.get(need, 0.0))
        return arrivals

    def _needs_of(self, task: Task) -> Iterator[Task]:
        """What a task needs; of losses that take no time, what they need."""
        for need in self.schedule.needs[task]:
            if need.kind is L and not self.costs.has_task(need.module, "losses"):
                yield from self.schedule.needs[need]
            else:
                yield need

    def _copy_seconds(self, name: str, source: int, target: int) -> float:
        if source == target:
            return 0.0
        return self.costs.copy_seconds(name, self.plan.groups[source], self.plan.groups[target])


def _order_updates(costs: GroupCosts, plan: GroupPlan, start: float) -> _Orders:
    return [
        deque(
            _QueuedTask(costs.running(group, name, "update"), start)
            for name in group.modules
            if costs.has_task(name, "update")
        )
        for group in plan.groups
    ]


@dataclass
class _StartedTask:
    """A task that runs, and the share of it that is left."""

    queued: _QueuedTask
    start: float
    left: float = 1.0


@dataclass
class _TaskLoop:
    """Runs the tasks of all groups side by side."""

    costs: GroupCosts
    plan: GroupPlan
    now: float = 0.0
    ends: dict[Task, float] = field(default_factory=dict)
    running: dict[int, _StartedTask] = field(default_factory=dict)

    def run_tasks(self, orders: _Orders) -> list[TaskRun]:
        """Run all tasks, each group's in its order."""
        done: list[TaskRun] = []
        while self.running or any(orders):
            soonest = self._start_tasks(orders)
            seconds = {number: self._seconds(number) for number in self.running}
            ends = {n: self.now + self.running[n].left * each for n, each in seconds.items()}
            after = min((soonest, *ends.values()))
            assert after < inf, "tasks wait for each other"
            for number, each in seconds.items():
                self.running[number].left -= (after - self.now) / each
            self.now = after
            done += [self._end_task(number) for number, end in ends.items() if end <= after]
        return done

    def _start_tasks(self, orders: _Orders) -> float:
        """Start what can start now; the second in which the next task can, if known."""
        soonest = inf
        for number, order in enumerate(orders):
            if number in self.running or not order:
                continue
            ready = self._ready_second(order[0])
            if ready <= self.now:
                self.running[number] = _StartedTask(order.popleft(), self.now)
            else:
                soonest = min(soonest, ready)
        return soonest

    def _ready_second(self, queued: _QueuedTask) -> float:
        arrivals = (self.ends.get(need, inf) + later for need, later in queued.needs.items())
        return max((queued.started, *arrivals))

    def _seconds(self, number: int) -> float:
        """Seconds of all of a group's task, beside what runs now."""
        concurrent = [
            self.running[other].queued.task
            for other in self.plan.neighbours[number]
            if other != number and other in self.running
        ]
        queued = self.running[number].queued
        return queued.added + self.costs.seconds(self.plan.groups[number], queued.task, concurrent)

    def _end_task(self, number: int) -> TaskRun:
        each = self.running.pop(number)
        self.ends.update(dict.fromkeys(each.queued.ends, self.now))
        task = each.queued.task
        return TaskRun(number, task.module, task.phase, each.start, self.now)
