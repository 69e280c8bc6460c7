"""Checks of schedules of modules on groups of devices; nothing runs that has not passed them.

::

    F(m)           after F(s) of every module s that feeds the module
    L              after all forwards, if there are losses of the step
    B(m)           after F(m), L, and B(t) of every target t

"After" is a later tick, or later in what runs as one. Microbatches of one module and kind are in
their order, in which gradients are summed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from scheduling.schedules.check import raise_first
from scheduling.schedules.modules.schedule import ModuleSchedule
from scheduling.schedules.tasks import Task


def check_module_schedule(schedule: ModuleSchedule) -> None:
    """Check a schedule against every rule.

    Raises:
        ScheduleError: modules or sizes are impossible, a task is missing, appears twice or is in a
            wrong place, runs before what it needs, or more microbatches are in flight than the
            limit. The message lists the first problems of the first kind that occurs.
    """
    check_placed_modules(schedule)
    raise_first(_find_wrong_rows(schedule))
    raise_first(_find_wrong_tasks(schedule))
    raise_first(_find_early(schedule))
    raise_first(_find_disorder(schedule))
    raise_first(_find_crowded(schedule))


def check_placed_modules(schedule: ModuleSchedule) -> None:
    """Check modules and sizes, before there are ticks.

    Raises:
        ScheduleError: as of `check_module_schedule`.
    """
    raise_first(_find_wrong_sizes(schedule))
    raise_first(_find_wrong_modules(schedule))


def _find_wrong_sizes(schedule: ModuleSchedule) -> Iterator[str]:
    count = schedule.microbatches
    if not schedule.modules:
        yield "no modules; valid: one or more"
    if count < 1:
        yield f"microbatches: {count} is refused; valid: 1 or more"
    least = max(count, 1) if schedule.waits else 1
    for group, limit in enumerate(schedule.limits):
        if limit < least:
            reason = "as losses wait for all forwards" if schedule.waits else "as none could run"
            yield f"group {group}: a limit of {limit} is refused, {reason}; valid: {least} or more"


def _find_wrong_modules(schedule: ModuleSchedule) -> Iterator[str]:
    known, groups = dict[str, bool](), range(len(schedule.limits))
    for module in schedule.modules:
        name = module.name
        if name in known:
            yield f"module {name!r}: the name is taken; valid: a name that no other module has"
        if module.group not in groups:
            valid = f"valid: 0 to {groups[-1]}" if groups else "valid: none"
            yield f"{name}: there is no group {module.group}; {valid}"
        for target in module.targets:
            if target not in known:
                listed = ", ".join(known) or "none"
                yield f"{name}: target {target!r} is no module before it; valid: {listed}"
            elif module.has_backward and not known[target]:
                yield f"{name} has a backward, but {target} has none; valid: one for both"
        if not module.targets and known and not schedule.waits:
            first = schedule.modules[0].name
            yield f"{name} has no target and no losses wait for it; valid: {first} as a target"
        known[name] = module.has_backward


def _find_wrong_rows(schedule: ModuleSchedule) -> Iterator[str]:
    groups = len(schedule.limits)
    for tick, row in enumerate(schedule.ticks):
        if len(row) != groups:
            yield f"tick {tick} has {len(row)} tasks; valid: {groups}, one per group"


def _find_wrong_tasks(schedule: ModuleSchedule) -> Iterator[str]:
    """Tasks that are missing, that there are not, or that are of another group or twice there."""
    expected, counts = schedule.tasks, Counter(f for row in schedule.ticks for f in row if f)
    for tick, row in enumerate(schedule.ticks):
        for group, tasks in enumerate(row):
            place, listed = f"tick {tick}, group {group}", " + ".join(map(_name_of, tasks))
            if tasks and tasks not in expected:
                yield f"{place}: {listed} is no task of the step; valid: tasks as they run as one"
            elif tasks and expected[tasks] != group:
                yield f"{place}: {listed} is of group {expected[tasks]}; valid: that group"
    for tasks in expected:
        if counts[tasks] != 1:
            listed = " + ".join(map(_name_of, tasks))
            yield f"{listed} appears {counts[tasks]} times; valid: once"


def _find_early(schedule: ModuleSchedule) -> Iterator[str]:
    """Tasks before what they need."""
    ticks = {task: tick for tick, _, task in schedule}
    together = {task: tasks for tasks in schedule.tasks for task in tasks}
    for tick, group, task in schedule:
        for need in schedule.needs[task]:
            if ticks[need] >= tick and need not in together[task]:
                reason = f"{_name_of(task)} needs {_name_of(need)} (tick {ticks[need]})"
                valid = f"valid: tick {ticks[need] + 1} or later"
                yield f"tick {tick}, group {group}: {reason}; {valid}"


def _find_disorder(schedule: ModuleSchedule) -> Iterator[str]:
    """Microbatches of a module and kind that are not in their order."""
    last = dict[tuple[str, str], int]()
    for tick, group, task in schedule:
        before = last.get((task.module, task.kind.name), -1)
        if task.microbatch < before:
            reason = f"{_name_of(task)} is after that of microbatch {before}"
            yield f"tick {tick}, group {group}: {reason}; valid: microbatches in their order"
        last[task.module, task.kind.name] = task.microbatch


def _find_crowded(schedule: ModuleSchedule) -> Iterator[str]:
    for group, (most, limit) in enumerate(zip(schedule.in_flight, schedule.limits, strict=True)):
        if most > limit:
            yield f"group {group}: {most} microbatches are in flight; valid: {limit} or fewer"


def _name_of(task: Task) -> str:
    return f"{task.module} {task.kind}({task.microbatch})"
