"""Schedules of modules on groups of devices: which module runs on which group in which tick.

Every group has devices, or slices of devices, of its own. A module's outputs are read by its
targets; those of modules without targets by the losses. With 3 microbatches, a decoder and an image
encoder that feeds it (F = forward, B = backward; `F0+B0` is one program)::

    tick    0  1     2     3  4     5
    decoder .  F0+B0 F1+B1 .  F2+B2 .
    image   F0 F1    B0    F2 B1    B2

The encoder runs ahead of the decoder by a bounded number of microbatches, as stages do in 1F1B
(Narayanan et al., arXiv 1806.03377). Losses of a step (L), such as contrastive ones, read the
outputs of all microbatches, so that all forwards come before them::

    tick    0  1  2 3  4
    decoder F0 F1 L B0 B1
    image   F0 F1 . B0 B1
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from scheduling.schedules.task_kinds import B, F, TaskKind
from scheduling.schedules.tasks import Task

#: The losses of a step, and their gradients by all outputs; not of stages.
L = TaskKind("L", "losses", (("#8A8A8A",),), forward=False, cost="losses", passes=False)
#: Tasks of a group that are one program: one task, or a forward and its backward; or none.
ProgramTasks = tuple[Task, ...]


@dataclass(frozen=True)
class PlacedModule:
    """A module on a group of devices.

    Attributes:
        name: name of the module, or of a bucket of it.
        group: number of the group, which is its column.
        targets: modules that read its outputs; none if only losses do.
        has_backward: whether it trains, or a module that feeds it.
    """

    name: str
    group: int
    targets: tuple[str, ...] = ()
    has_backward: bool = True


def place_stages(name: str, stages: int, group: int) -> tuple[PlacedModule, ...]:
    """The stages of a module, the last first, each in a column of its own.

    Args:
        name: name of the module; stage s of several is called `name.s`.
        stages: number of stages.
        group: column of the first stage.

    >>> [f"{stage.name} in {stage.group}" for stage in place_stages("decoder", 2, group=0)]
    ['decoder.1 in 1', 'decoder.0 in 0']
    """
    names = [f"{name}.{stage}" for stage in range(stages)] if stages > 1 else [name]
    placed = (
        PlacedModule(name, group + stage, tuple(names[stage + 1 : stage + 2]))
        for stage, name in enumerate(names)
    )
    return tuple(placed)[::-1]


@dataclass(frozen=True)
class ModuleSchedule:
    """The schedule of one step of modules on groups of devices.

    Attributes:
        modules: all modules, each after its targets; the first one's group runs the losses.
        microbatches: number of microbatches of each module.
        waits: whether losses of the step wait for all forwards; else a module without targets runs
            forward, losses and backward of a microbatch as one.
        limits: by group, the most microbatches in flight, see `in_flight`.
        ticks: `ticks[t][g]` are the tasks that group g runs in tick t as one program.
    """

    modules: tuple[PlacedModule, ...]
    microbatches: int
    waits: bool
    limits: tuple[int, ...]
    ticks: tuple[tuple[ProgramTasks, ...], ...] = ()

    def __iter__(self) -> Iterator[tuple[int, int, Task]]:
        """Every task as `(tick, group, task)`, in the order in which the host starts them."""
        for tick, row in enumerate(self.ticks):
            for group, tasks in enumerate(row):
                for task in tasks:
                    yield tick, group, task

    @property
    def losses(self) -> Task:
        """The task of the losses of the step."""
        return Task(L, self.modules[0].name, 0)

    @cached_property
    def tasks(self) -> dict[ProgramTasks, int]:
        """Tasks of each program, by microbatch and module, with the number of its group."""
        groups = {
            tasks: module.group
            for microbatch in range(self.microbatches)
            for module in self.modules
            for tasks in self._programs_of(module, microbatch)
        }
        return groups | ({(self.losses,): self.modules[0].group} if self.waits else {})

    def _programs_of(self, module: PlacedModule, microbatch: int) -> list[ProgramTasks]:
        kinds = [F, B] if module.has_backward else [F]
        tasks = tuple(Task(kind, module.name, microbatch) for kind in kinds)
        return [(task,) for task in tasks] if module.targets or self.waits else [tasks]

    @cached_property
    def needs(self) -> dict[Task, tuple[Task, ...]]:
        """The tasks whose results each task needs."""
        needs = {
            task: tuple(self._needs_of(module, task))
            for microbatch in range(self.microbatches)
            for module in self.modules
            for task in (Task(kind, module.name, microbatch) for kind in (F, B))
        }
        forwards = tuple(task for task in needs if task.kind is F)
        return needs | ({self.losses: forwards} if self.waits else {})

    def _needs_of(self, module: PlacedModule, task: Task) -> Iterator[Task]:
        if task.kind is F:
            for source in self.modules:
                if module.name in source.targets:
                    yield task._replace(module=source.name)
            return
        yield task._replace(kind=F)
        for target in self.modules:
            if target.name in module.targets:
                yield task._replace(module=target.name)
        if self.waits:
            yield self.losses

    @cached_property
    def last_readers(self) -> tuple[tuple[frozenset[Task], ...], ...]:
        """By group and microbatch, the tasks after which nothing of the microbatch is in flight.

        What a module without a backward has left is read by its targets, or by losses.
        """
        return tuple(
            tuple(
                frozenset(
                    task
                    for module in self.modules
                    if module.group == group
                    for task in self._readers_of(module, microbatch)
                )
                for microbatch in range(self.microbatches)
            )
            for group in range(len(self.limits))
        )

    def _readers_of(self, module: PlacedModule, microbatch: int) -> list[Task]:
        if module.has_backward:
            return [Task(B, module.name, microbatch)]
        return [Task(F, target, microbatch) for target in module.targets] or [self.losses]

    @property
    def in_flight(self) -> tuple[int, ...]:
        """By group, the most microbatches in flight: begun, and read again later."""
        begun: list[set[int]] = [set() for _ in self.limits]
        done, most = set[Task](), [0] * len(self.limits)
        for row in self.ticks:
            for group, tasks in enumerate(row):
                begun[group] |= {task.microbatch for task in tasks if task.kind is not L}
                most[group] = max(most[group], len(begun[group]))
            done.update(task for tasks in row for task in tasks)
            for numbers, readers in zip(begun, self.last_readers, strict=True):
                numbers -= {number for number in numbers if readers[number] <= done}
        return tuple(most)

    def __str__(self) -> str:
        """A row per group, a column per tick."""
        names = [
            "+".join(m.name for m in self.modules if m.group == group)
            for group in range(len(self.limits))
        ]
        numbers = [str(tick) for tick in range(len(self.ticks))]
        cells = [[self._format_program(tasks) for tasks in row] for row in self.ticks]
        columns = [["tick", *names]] + [[n, *c] for n, c in zip(numbers, cells, strict=True)]
        widths = [max(map(len, column)) for column in columns]
        lines = zip(*columns, strict=True)
        return "\n".join(
            " ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )

    def _format_program(self, tasks: ProgramTasks) -> str:
        """F3 is a forward of microbatch 3; imaF3 that of the image, beside others in its group."""
        return "+".join(map(self._format_task, tasks)) or "."

    def _format_task(self, task: Task) -> str:
        if task.kind is L:
            return str(L)
        groups = {module.name: module.group for module in self.modules}
        alone = [*groups.values()].count(groups[task.module]) == 1
        return f"{'' if alone else task.module[:3]}{task.kind}{task.microbatch}"
