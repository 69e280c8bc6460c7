"""The time of a fused task's tasks on a stage, one after the other or co-issued.

Co-issued tasks share two streams, the device's compute units and its links: under a collective of
one task runs the compute of another. Two tasks of two segments each, `compute | collective`::

    in turn     F0 ff F1 ff B0 bb B1 bb
    co-issued   F0 B0 F1 B1
                   ff bb ff bb
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from scheduling.costs.times import TaskSegment, TaskTime
from scheduling.simulate.events import Node, run_nodes

#: The two streams of a device.
COMPUTE, LINK = "compute", "link"


@dataclass(frozen=True)
class FusedTaskTime:
    """The time of a fused task.

    Attributes:
        ends: end of each task, in seconds from the fused task's start.
        compute: seconds of compute of each task.
    """

    ends: tuple[float, ...]
    compute: tuple[float, ...]

    @property
    def seconds(self) -> float:
        """Until all tasks are done."""
        return max(self.ends, default=0.0)


class FusedTaskClock:
    """Times fused tasks; fused tasks of the same tasks are timed once.

    Args:
        co_issue: whether the tasks of a fused task run side by side.
    """

    def __init__(self, co_issue: bool) -> None:
        self.co_issue = co_issue
        self._known: dict[tuple[tuple[TaskTime, ...], tuple[float, ...], float], FusedTaskTime] = {}

    def time_of(
        self, tasks: tuple[TaskTime, ...], lengths: tuple[float, ...], slow: float
    ) -> FusedTaskTime:
        """The time of a fused task.

        Args:
            tasks: tasks in the order of their priority on the device.
            lengths: factors on each task's compute and collectives.
            slow: factor on compute alone.
        """
        if len(tasks) == 1:
            return _single_time(tasks[0], lengths[0], slow)
        key = tasks, lengths, slow
        known = self._known.get(key)
        if known is None:
            pairs = zip(tasks, lengths, strict=True)
            scaled = [scale_time(task, length, slow) for task, length in pairs]
            known = self._known[key] = fused_task_time(scaled, self.co_issue)
        return known


def _single_time(task: TaskTime, length: float, slow: float) -> FusedTaskTime:
    """`fused_task_time` of one task."""
    compute = task.compute * length * slow
    return FusedTaskTime((compute + task.collective * length,), (compute,))


def scale_time(task: TaskTime, length: float, slow: float = 1.0) -> TaskTime:
    """`task` with `length` times the work on a device whose compute takes `slow` times as long."""
    if length == slow == 1:
        return task
    segments = (
        TaskSegment(segment.compute * length * slow, segment.collective * length)
        for segment in task.segments
    )
    return TaskTime(tuple(segments))


def fused_task_time(tasks: Sequence[TaskTime], co_issue: bool) -> FusedTaskTime:
    """The time of independent `tasks`, of which earlier ones have priority.

    Co-issued they take at most the sum of their seconds, as one of both streams is always busy,
    and at least the compute or the collectives of all.

    >>> task = TaskTime((TaskSegment(compute=2.0, collective=1.0),) * 2)
    >>> fused_task_time([task, task], co_issue=False).ends
    (6.0, 12.0)
    >>> fused_task_time([task, task], co_issue=True).ends
    (7.0, 9.0)
    """
    if co_issue and len(tasks) > 1:
        ends = _co_issued_ends(tasks)
    else:
        ends = tuple(accumulate(task.seconds for task in tasks))
    return FusedTaskTime(ends, tuple(task.compute for task in tasks))


def _co_issued_ends(tasks: Sequence[TaskTime]) -> tuple[float, ...]:
    """Ends of tasks whose segments are list-scheduled on the two streams."""
    nodes: list[Node] = []
    last: list[int] = []
    for priority, task in enumerate(tasks):
        after: tuple[int, ...] = ()
        for segment in task.segments:
            pair = (COMPUTE, segment.compute), (LINK, segment.collective)
            for stream, seconds in pair:
                if seconds:
                    nodes.append(Node(stream, seconds, after, priority))
                    after = (len(nodes) - 1,)
        last.append(after[0] if after else -1)
    end = run_nodes(nodes, listed=(COMPUTE, LINK)).end
    return tuple(end[index] if index >= 0 else 0.0 for index in last)
