"""Steps without ticks, simulated: every stage runs its tasks in order and waits for data only.

A task begins when its stage has done all tasks before it and its inputs have arrived; sends overlap
with compute, one at a time from one stage to another. Two stages, one microbatch (`s` is a send)::

    stage 0   F0 s                s B0
    stage 1        F0 B0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.systems.orders import StageOrders, StageTask
from scheduling.costs.times import TaskTime
from scheduling.schedules.schedule import ScheduleError
from scheduling.schedules.tasks import FusedTask, Task
from scheduling.simulate.events import EventError, Node, NodeTimes, run_cases, run_nodes
from scheduling.simulate.fused_time import FusedTaskClock, FusedTaskTime
from scheduling.simulate.simulation import (
    DEFAULT_OPTIONS,
    FusedTaskRun,
    Replica,
    ReplicaRun,
    Simulation,
    SimulationOptions,
    StageRun,
    StepRun,
)


@dataclass(frozen=True)
class OrderTimes:
    """Times of a step without ticks, in seconds.

    Attributes:
        time: time of a task on a stage; chunks may be uneven, and the last one may hold the head.
        send: seconds of moving a task's result to another stage that waits for it, while stages
            compute.
        exchange: seconds of sending and receiving after a task, without compute meanwhile.
        gather, scatter, update: as in `StepTimes`.
    """

    time: Callable[[Task, int], TaskTime]
    send: float = 0.0
    exchange: float = 0.0
    gather: float = 0.0
    scatter: float = 0.0
    update: float = 0.0


def simulate_order(
    step: StageOrders, times: OrderTimes, options: SimulationOptions = DEFAULT_OPTIONS
) -> Simulation:
    """Simulates a step without ticks; raises as `run_order`."""
    alone = None
    if step.modules:
        alone = _run(step.backbone_only(), times, options, _count_replicas(step, options)).makespan
    return run_order(step, times, options).summarize(alone)


def run_order(
    step: StageOrders, times: OrderTimes, options: SimulationOptions = DEFAULT_OPTIONS
) -> StepRun:
    """Runs a step without ticks.

    With `SimulationOptions.overlap_gather`, fused tasks before a stage's first decoder task do not
    wait for the parameters, and fused tasks after its last overlap with the scatter.

    Raises:
        ScheduleError: a task stands twice on a stage or waits for one that is nowhere, tasks wait
            for each other, or the options name what the step does not have.
    """
    return _run(step, times, options, _count_replicas(step, options))


def seconds_of_cases(
    step: StageOrders, times: OrderTimes, seconds: Callable[[Task, int], np.ndarray]
) -> np.ndarray:
    """Seconds of a step in several cases, whose tasks take different times, `[cases]`.

    Otherwise as `run_order`, with replicas that are alike in every case.

    Args:
        step: fused tasks of one task task each.
        times: `time` is not used; nothing is sent while stages compute.
        seconds: `[cases]`, seconds of a task on a stage.

    Raises:
        ScheduleError: as `run_order`; or fused tasks have several tasks, or results are sent.
    """
    if times.send or any(len(tasks) > 1 for order in step.orders for tasks in order):
        raise ScheduleError(
            "cases have no sends and no co-issue; valid: exchanges, fused tasks of one task"
        )
    return _CaseGraph(step, times).seconds(seconds)


#: Replicas that differ, each with its number.
CountedReplicas = Sequence[tuple[Replica, int]]


def _count_replicas(step: StageOrders, options: SimulationOptions) -> CountedReplicas:
    counts = dict.fromkeys((step.name, *step.modules), step.microbatches)
    counts |= {name: len(consumers) for name, consumers in step.feeds.items()}
    return options.count_replicas(len(step.orders), counts)


def _run(
    step: StageOrders, times: OrderTimes, options: SimulationOptions, replicas: CountedReplicas
) -> StepRun:
    runs = [_ReplicaGraph(step, times, options, replica).run(count) for replica, count in replicas]
    return StepRun(runs, times.scatter, times.update, step.backbone)


class _ReplicaGraph:
    """The step of one replica up to the scatter, as a graph of nodes.

    Node s is the gather of stage s. A fused task is a node; a fused task of several tasks has a
    node of no time before it, and for each task a node that ends with the task. Sends run in the
    order in
    which they are ready: `sends` holds their streams.
    """

    def __init__(
        self, step: StageOrders, times: OrderTimes, options: SimulationOptions, replica: Replica
    ) -> None:
        self.step, self.times, self.replica = step, times, replica
        self.co_issue, self.overlap = options.co_issue, options.overlap_gather
        self.clock = FusedTaskClock(options.co_issue)
        self.fused_times = [
            [self._time_fused(stage, fused_task) for fused_task in order]
            for stage, order in enumerate(step.orders)
        ]
        self.decoder = [_decoder_range(order, step.name) for order in step.orders]
        self.sends: set[tuple[str, int, int]] = set()
        self.ends: dict[StageTask, int] = {}
        self.starts: dict[tuple[int, int], int] = {}
        self.nodes = [
            Node(None, times.gather, name=f"gather of stage {stage}")
            for stage in range(len(step.orders))
        ]

    def _time_fused(self, stage: int, fused_task: FusedTask) -> FusedTaskTime:
        tasks = tuple([self.times.time(task, stage) for task in fused_task])
        slow = self.replica.slow.get(stage, 1.0)
        return self.clock.time_of(tasks, self.replica.length_factors(fused_task), slow)

    def run(self, count: int) -> ReplicaRun:
        """All nodes."""
        self.build()
        try:
            times = run_nodes(self.nodes, listed=self.sends)
        except EventError as error:
            raise ScheduleError(str(error)) from error
        stages = tuple(self._stage_run(stage, times) for stage in range(len(self.step.orders)))
        end = np.array([max(stage_run.done for stage_run in stages)])
        return ReplicaRun(self.replica, count, stages, np.zeros(1), end, np.zeros(1, int))

    def build(self) -> None:
        """Makes the graph."""
        self._add_nodes()
        self._connect_nodes()

    def _add_nodes(self) -> None:
        """Adds the nodes of all fused tasks; they wait for nothing yet."""
        exchange = self.times.exchange
        for stage, order in enumerate(self.step.orders):
            for place, fused_task in enumerate(order):
                fused = self.fused_times[stage][place]
                name = " + ".join(map(str, fused_task)) + f" on stage {stage}"
                first = self.starts[stage, place] = len(self.nodes)
                if len(fused_task) > 1:
                    self.nodes.append(Node(stage, 0.0, name=name))
                self.nodes.append(Node(stage, fused.seconds + exchange, name=name))
                for task, seconds in zip(fused_task, fused.ends, strict=True):
                    if (stage, task) in self.ends:
                        raise ScheduleError(f"{task} stands twice on stage {stage}; valid: once")
                    self.ends[stage, task] = len(self.nodes) - 1
                    if len(fused_task) > 1:
                        self.ends[stage, task] = len(self.nodes)
                        end = seconds + exchange
                        self.nodes.append(Node(None, end, (first,), name=f"end of {task}"))

    def _connect_nodes(self) -> None:
        """Connects nodes to the nodes that their tasks need, and to the gathers."""
        for stage, order in enumerate(self.step.orders):
            gathered = self.decoder[stage].start if self.overlap else 0
            for place, fused_task in enumerate(order):
                after = [stage] if place == gathered else []
                for task in fused_task:
                    needs = self.step.dependencies(stage, task)
                    after += [self._arrival_node(other, stage, task) for other in needs]
                index = self.starts[stage, place]
                self.nodes[index] = self.nodes[index]._replace(after=tuple(after))

    def _arrival_node(self, other: StageTask, stage: int, task: Task) -> int:
        """The node that ends when the result of `other` is there for `task` on `stage`."""
        end = self.ends.get(other)
        if end is None:
            raise ScheduleError(
                f"{task} on stage {stage} waits for {other[1]} on stage {other[0]}, which no order "
                "holds; valid: orders with all that their tasks wait for"
            )
        if other[0] == stage or not self.times.send:
            return end
        stream = "send", other[0], stage
        self.sends.add(stream)
        self.nodes.append(Node(stream, self.times.send, (end,), name=f"send of {other[1]}"))
        return len(self.nodes) - 1

    def _stage_run(self, stage: int, times: NodeTimes) -> StageRun:
        order, decoder = self.step.orders[stage], self.decoder[stage]
        ran = []
        for place, fused_task in enumerate(order):
            fused = self.fused_times[stage][place]
            start = times.start[self.starts[stage, place]]
            ran.append(FusedTaskRun(0, start, start + fused.seconds, fused_task, fused))
        there = times.end[stage]
        done = max(there, ran[-1].end if ran else 0.0)
        first, last = there, there
        if decoder:
            first, last = ran[decoder.start].start, ran[decoder.stop - 1].end
        ready = last if self.overlap else done
        return StageRun(
            stage, self.step.name, lambda: ran, self.co_issue, there, first, last, ready, done
        )


class _CaseGraph:
    """The graph of a step whose tasks take other times in each of several cases."""

    def __init__(self, step: StageOrders, times: OrderTimes) -> None:
        free = replace(times, time=lambda task, stage: TaskTime())
        self.step, self.times = step, times
        self.graph = _ReplicaGraph(step, free, SimulationOptions(co_issue=False), Replica())
        self.graph.build()

    def seconds(self, seconds: Callable[[Task, int], np.ndarray]) -> np.ndarray:
        """Seconds of the step, `[cases]`."""
        by_index = {
            self.graph.starts[stage, place]: seconds(task, stage)
            for stage, order in enumerate(self.step.orders)
            for place, (task,) in enumerate(order)
        }
        cases = len(next(iter(by_index.values())))
        node_seconds = np.tile([[node.seconds] for node in self.graph.nodes], cases)
        for index, values in by_index.items():
            node_seconds[index] += values
        try:
            ends = run_cases(self.graph.nodes, node_seconds)
        except EventError as error:
            raise ScheduleError(str(error)) from error
        done = [self._end_of_stage(stage, ends) for stage in range(len(self.step.orders))]
        last: np.ndarray = np.max(done, 0)
        return last + self.times.update

    def _end_of_stage(self, stage: int, ends: np.ndarray) -> np.ndarray:
        """When a stage is ready for the optimizer: its gradients, or its last task, `[cases]`."""
        decoder, there = self.graph.decoder[stage], self.times.gather
        count = len(self.step.orders[stage])

        def end(place: int) -> np.ndarray:
            """The end of a task, without the exchange after it."""
            stage_ends: np.ndarray = ends[self.graph.starts[stage, place]] - self.times.exchange
            return stage_ends

        ready = end(decoder.stop - 1) if decoder else np.full(ends.shape[1], there)
        done = np.maximum(there, end(count - 1)) if count else ready
        return np.maximum(done, ready + self.times.scatter)


def _decoder_range(order: tuple[FusedTask, ...], name: str) -> range:
    """The range from the first fused task with a decoder task to the last."""
    places = [i for i, tasks in enumerate(order) if any(task.module == name for task in tasks)]
    return range(places[0], places[-1] + 1) if places else range(0)
