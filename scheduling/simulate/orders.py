"""Steps without ticks, simulated: every stage has an order of bundles and waits for data only.

This is how asynchronous pipelines work, Megatron-LM's for one. A task begins when its stage has
done all tasks before it and its inputs have arrived; sends run beside compute, one at a time from
one stage to another. Two stages, one microbatch (`s` is a send)::

    stage 0   F0 s                s B0
    stage 1        F0 B0
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from scheduling.costs.times import TaskTime
from scheduling.schedules.schedule import ScheduleError
from scheduling.schedules.task_kinds import B, F
from scheduling.schedules.tasks import BACKBONE, Consumers, FusedTask, ModuleStages, Task
from scheduling.simulate.bundle import BundleClock, BundleTime
from scheduling.simulate.events import EventError, Node, Times, run_cases, run_nodes
from scheduling.simulate.simulation import (
    USUAL,
    Ran,
    Replica,
    ReplicaRun,
    Simulation,
    SimulationOptions,
    StageRun,
    Step,
)

#: A task on its stage.
Placed = tuple[int, Task]
#: `[stages]`, the bundles of each in the order in which it runs them.
Orders = tuple[tuple[FusedTask, ...], ...]


def megatron_orders(stages: int, chunks: int, microbatches: int) -> Orders:
    """1F1B, with virtual chunks interleaved, in the order of Megatron-LM.

    After Narayanan et al., arXiv 2104.04473, section 2.2: stage s begins with 2 (P - s - 1) +
    (V - 1) P forwards, with one chunk with P - s - 1, then forwards and backwards alternate.
    Microbatches go through the chunks in groups of P.

    Raises:
        ScheduleError: a size is below 1, or chunks are interleaved and the stages do not divide
            the microbatches.
    """
    sizes = {"stages": stages, "chunks": chunks, "microbatches": microbatches}
    for name, size in sizes.items():
        if size < 1:
            raise ScheduleError(f"{name}: {size} is refused; valid: 1 or more")
    if chunks > 1 and microbatches % stages:
        raise ScheduleError(
            f"microbatches: {microbatches} cannot be interleaved over {stages} stages; valid: "
            f"multiples of {stages}, or 1 chunk"
        )
    forwards = [_turn(k, stages, chunks) for k in range(microbatches * chunks)]
    return tuple(
        tuple(_alternate(stage, stages, forwards, warm_up(stages, chunks, microbatches, stage)))
        for stage in range(stages)
    )


def _turn(k: int, stages: int, chunks: int) -> tuple[int, int]:
    """Microbatch and chunk of forward number k of a stage."""
    group, place = divmod(k, stages * chunks)
    return group * stages + place % stages, place // stages


def warm_up(stages: int, chunks: int, microbatches: int, stage: int) -> int:
    """Number of forwards of a stage before its first forward that a backward follows."""
    if chunks == 1:
        return min(stages - stage - 1, microbatches)
    if microbatches == stages:
        return microbatches * chunks
    return min(2 * (stages - stage - 1) + (chunks - 1) * stages, microbatches * chunks)


def _alternate(
    stage: int, stages: int, forwards: list[tuple[int, int]], warm_up: int
) -> Iterator[FusedTask]:
    """Warm-up forwards, then forwards and backwards in turn, then the remaining backwards."""
    last = max(loop for _, loop in forwards)
    for k in range(warm_up + len(forwards)):
        if k < len(forwards):
            microbatch, loop = forwards[k]
            yield (Task(F, BACKBONE, microbatch, loop * stages + stage),)
        if k >= warm_up:
            microbatch, loop = forwards[k - warm_up]
            yield (Task(B, BACKBONE, microbatch, (last - loop) * stages + stage),)


def exchanged_in_pairs(orders: Orders) -> Ordered:
    """Interleaved 1F1B whose stages exchange once for each forward and the backward after it.

    The results of both are sent together when the backward is done, and the inputs of the next two
    arrive at the same time, so that the next forward also waits for the gradient of its backward:
    so do interleaved schedules of Megatron-LM with `overlap_p2p_comm` off. The slowest stage of a
    round delays one stage after another.
    """
    plain = Ordered(orders)
    pairs = {
        (stage, forward): (stage, backward)
        for stage, order in enumerate(orders)
        for forward, backward in _pairs([task for (task,) in order])
    }
    after: dict[Placed, tuple[Placed, ...]] = {}
    for stage, task in plain:
        backward = pairs.get((stage, task))
        needs = [*plain.needs(stage, task), *(plain.needs(*backward) if backward else ())]
        others = (pairs.get(need, need) for need in needs if need[0] != stage)
        after[stage, task] = tuple(dict.fromkeys(others))
    return Ordered(orders, after)


def _pairs(order: Sequence[Task]) -> Iterator[tuple[Task, Task]]:
    """Pairs of forwards and backwards that alternate; none if all forwards come first."""
    forwards = [task.kind.forward for task in order]
    if forwards == sorted(forwards, reverse=True):
        return
    for first, second in pairwise(order):
        if (first.kind, second.kind) == (F, B):
            yield first, second


@dataclass(frozen=True)
class OrderTimes:
    """Times of a step without ticks, in seconds.

    Attributes:
        time: time of a task on a stage; chunks may be uneven, and the last one may hold the head.
        send: seconds of moving a task's result to another stage that waits for it, beside compute.
        exchange: seconds of sending and receiving after a task, with no compute beside it.
        gather, scatter, update: as in `StepTimes`.
    """

    time: Callable[[Task, int], TaskTime]
    send: float = 0.0
    exchange: float = 0.0
    gather: float = 0.0
    scatter: float = 0.0
    update: float = 0.0


@dataclass(frozen=True)
class Ordered:
    """A step without ticks.

    Attributes:
        orders: bundles of each stage in order. Tasks of one bundle are co-issued, and begin when
            all of them can. Tasks of other modules than the backbone may stand anywhere.
        after: additional tasks that a task waits for. Without it a task waits for what its kind
            says (`scheduling.schedules.task_kinds`).
        feeds: by module, what its own microbatches feed, see `Feed.consumers`; microbatch for
            microbatch of those that are not named.
        apart: number of the last orders that are no stages of the decoder: devices that run
            encoders alone.
        name: name of the backbone.
    """

    orders: Orders
    after: Mapping[Placed, tuple[Placed, ...]] = field(default_factory=dict)
    feeds: Mapping[str, Consumers] = field(default_factory=dict)
    apart: int = 0
    name: str = BACKBONE

    @property
    def stages(self) -> int:
        """Stages of the decoder."""
        return len(self.orders) - self.apart

    @cached_property
    def stages_of(self) -> Mapping[Task, tuple[int, ...]]:
        """Stages on which a task stands."""
        stages: dict[Task, tuple[int, ...]] = {}
        for stage, task in self:
            stages[task] = (*stages.get(task, ()), stage)
        return stages

    def __iter__(self) -> Iterator[Placed]:
        """All tasks, by stage and order."""
        for stage, order in enumerate(self.orders):
            for bundle in order:
                for task in bundle:
                    yield stage, task

    @cached_property
    def chunks(self) -> int:
        """Virtual chunks of a stage of the backbone."""
        last = max((task.chunk for _, task in self if task.module == self.name), default=0)
        return 1 + last // self.stages

    @cached_property
    def microbatches(self) -> int:
        """Microbatches of the backbone."""
        numbers = (task.microbatch for _, task in self if task.module == self.name)
        return 1 + max(numbers, default=0)

    @cached_property
    def modules(self) -> Mapping[str, int]:
        """The other modules and the number of their chunks."""
        chunks: dict[str, int] = {}
        for task in self.stages_of:
            if task.module != self.name:
                chunks[task.module] = max(chunks.get(task.module, 0), task.chunk + 1)
        return chunks

    @cached_property
    def backbone(self) -> ModuleStages:
        """How the work of the backbone is divided."""
        chunks = self.stages * self.chunks
        return ModuleStages(self.name, self.stages, chunks, looped=True, shared_ends=True)

    def backbone_only(self) -> Ordered:
        """The step without tasks of other modules and without waiting for them."""
        orders = tuple(
            tuple(
                orders_left
                for bundle in order
                if (orders_left := tuple(task for task in bundle if task.module == self.name))
            )
            for order in self.orders
        )
        ordered = set(replace(self, orders=orders))
        after = {
            task: tuple(other for other in others if other in ordered)
            for task, others in self.after.items()
            if task in ordered
        }
        return replace(self, orders=orders, after=after)

    def needs(self, stage: int, task: Task) -> Iterator[Placed]:
        """The tasks that `task` on `stage` waits for."""
        yield from self.after.get((stage, task), ())
        kind = task.kind
        if kind.same_chunk is not None:
            yield stage, task._replace(kind=kind.same_chunk)
        if not kind.passes:
            return
        before = task.chunk + (-1 if kind.forward else 1)
        if not 0 <= before < self._chunks_of(task.module):
            yield from self._entered(task)
        elif task.module == self.name:
            yield before % self.stages, task._replace(chunk=before)
        else:
            yield from self._if_there(task._replace(chunk=before))

    def _chunks_of(self, module: str) -> int:
        return self.backbone.chunks if module == self.name else self.modules[module]

    def _entered(self, task: Task) -> Iterator[Placed]:
        """The tasks that the first task of its kind and microbatch waits for."""
        if not task.kind.forward:
            first = last = task.microbatch
            kind, chunk = F, self.backbone.chunks - 1
            if task.module != self.name:
                kind, chunk = task.kind, 0
                if task.module in self.feeds:
                    first, last = self.feeds[task.module][task.microbatch]
            stage = chunk % self.stages
            yield from ((stage, Task(kind, self.name, m, chunk)) for m in range(first, last + 1))
        elif task.module == self.name:
            for name, chunks in self.modules.items():
                for number in self._feeding(name, task.microbatch):
                    yield from self._if_there(Task(task.kind, name, number, chunks - 1))

    def _feeding(self, name: str, microbatch: int) -> list[int]:
        """Microbatches of a module that feed one of the backbone's."""
        if name not in self.feeds:
            return [microbatch]
        feeds = enumerate(self.feeds[name])
        return [number for number, (first, last) in feeds if first <= microbatch <= last]

    def _if_there(self, task: Task) -> Iterator[Placed]:
        return ((stage, task) for stage in self.stages_of.get(task, ()))


def simulate_order(
    step: Ordered, times: OrderTimes, options: SimulationOptions = USUAL
) -> Simulation:
    """Simulates a step without ticks; raises as `run_order`."""
    alone = None
    if step.modules:
        alone = _run(step.backbone_only(), times, options, _replicas(step, options)).makespan
    return run_order(step, times, options).simulation(alone)


def run_order(step: Ordered, times: OrderTimes, options: SimulationOptions = USUAL) -> Step:
    """Runs a step without ticks.

    With `Options.overlap_gather`, bundles before a stage's first decoder task do not wait for the
    parameters, and bundles after its last run beside the scatter.

    Raises:
        ScheduleError: a task stands twice on a stage or waits for one that is nowhere, tasks wait
            for each other, or the options name what the step does not have.
    """
    return _run(step, times, options, _replicas(step, options))


def seconds_of_cases(
    step: Ordered, times: OrderTimes, seconds: Callable[[Task, int], np.ndarray]
) -> np.ndarray:
    """Seconds of a step in several cases, whose tasks take different times, `[cases]`.

    Otherwise as `run_order`, with replicas that are alike in every case.

    Args:
        step: bundles of one task each.
        times: `time` is not used; nothing is sent beside compute.
        seconds: `[cases]`, seconds of a task on a stage.

    Raises:
        ScheduleError: as `run_order`; or bundles have several tasks, or results are sent.
    """
    if times.send or any(len(tasks) > 1 for order in step.orders for tasks in order):
        raise ScheduleError("cases have no sends and no co-issue; valid: exchanges, bundles of one")
    return _Cases(step, times).seconds(seconds)


#: Replicas that differ, each with its number.
Replicas = Sequence[tuple[Replica, int]]


def _replicas(step: Ordered, options: SimulationOptions) -> Replicas:
    counts = dict.fromkeys((step.name, *step.modules), step.microbatches)
    counts |= {name: len(consumers) for name, consumers in step.feeds.items()}
    return options.counted(len(step.orders), counts)


def _run(step: Ordered, times: OrderTimes, options: SimulationOptions, replicas: Replicas) -> Step:
    runs = [_Asynchronous(step, times, options, replica).run(count) for replica, count in replicas]
    return Step(runs, times.scatter, times.update, step.backbone)


class _Asynchronous:
    """The step of one replica up to the scatter, as a graph of nodes.

    Node s is the gather of stage s. A bundle is a node; a bundle of several tasks has a node of no
    time before it, and for each task a node that ends with the task. Sends run in the order in
    which they are ready: `sends` holds their streams.
    """

    def __init__(
        self, step: Ordered, times: OrderTimes, options: SimulationOptions, replica: Replica
    ) -> None:
        self.step, self.times, self.replica = step, times, replica
        self.co_issue, self.overlap = options.co_issue, options.overlap_gather
        self.clock = BundleClock(options.co_issue)
        self.bundles = [
            [self._time(stage, bundle) for bundle in order]
            for stage, order in enumerate(step.orders)
        ]
        self.decoder = [_decoder_range(order, step.name) for order in step.orders]
        self.sends: set[tuple[str, int, int]] = set()
        self.ends: dict[Placed, int] = {}
        self.starts: dict[tuple[int, int], int] = {}
        self.nodes = [
            Node(None, times.gather, name=f"gather of stage {stage}")
            for stage in range(len(step.orders))
        ]

    def _time(self, stage: int, bundle: FusedTask) -> BundleTime:
        tasks = tuple([self.times.time(task, stage) for task in bundle])
        slow = self.replica.slow.get(stage, 1.0)
        return self.clock.time_of(tasks, self.replica.lengths_of(bundle), slow)

    def run(self, count: int) -> ReplicaRun:
        """All nodes."""
        self.build()
        try:
            times = run_nodes(self.nodes, listed=self.sends)
        except EventError as error:
            raise ScheduleError(str(error)) from error
        stages = tuple(self._stage(stage, times) for stage in range(len(self.step.orders)))
        end = np.array([max(stage_run.done for stage_run in stages)])
        return ReplicaRun(self.replica, count, stages, np.zeros(1), end, np.zeros(1, int))

    def build(self) -> None:
        """Makes the graph."""
        self._number()
        self._connect()

    def _number(self) -> None:
        """Adds the nodes of all bundles; they wait for nothing yet."""
        exchange = self.times.exchange
        for stage, order in enumerate(self.step.orders):
            for place, bundle in enumerate(order):
                fused = self.bundles[stage][place]
                name = " + ".join(map(str, bundle)) + f" on stage {stage}"
                first = self.starts[stage, place] = len(self.nodes)
                if len(bundle) > 1:
                    self.nodes.append(Node(stage, 0.0, name=name))
                self.nodes.append(Node(stage, fused.seconds + exchange, name=name))
                for task, seconds in zip(bundle, fused.ends, strict=True):
                    if (stage, task) in self.ends:
                        raise ScheduleError(f"{task} stands twice on stage {stage}; valid: once")
                    self.ends[stage, task] = len(self.nodes) - 1
                    if len(bundle) > 1:
                        self.ends[stage, task] = len(self.nodes)
                        end = seconds + exchange
                        self.nodes.append(Node(None, end, (first,), name=f"end of {task}"))

    def _connect(self) -> None:
        """Connects nodes to the nodes that their tasks need, and to the gathers."""
        for stage, order in enumerate(self.step.orders):
            gathered = self.decoder[stage].start if self.overlap else 0
            for place, bundle in enumerate(order):
                after = [stage] if place == gathered else []
                for task in bundle:
                    needs = self.step.needs(stage, task)
                    after += [self._arrival(other, stage, task) for other in needs]
                index = self.starts[stage, place]
                self.nodes[index] = self.nodes[index]._replace(after=tuple(after))

    def _arrival(self, other: Placed, stage: int, task: Task) -> int:
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

    def _stage(self, stage: int, times: Times) -> StageRun:
        order, decoder = self.step.orders[stage], self.decoder[stage]
        ran = []
        for place, bundle in enumerate(order):
            fused = self.bundles[stage][place]
            start = times.start[self.starts[stage, place]]
            ran.append(Ran(0, start, start + fused.seconds, bundle, fused))
        there = times.end[stage]
        done = max(there, ran[-1].end if ran else 0.0)
        first, last = there, there
        if decoder:
            first, last = ran[decoder.start].start, ran[decoder.stop - 1].end
        ready = last if self.overlap else done
        return StageRun(
            stage, self.step.name, lambda: ran, self.co_issue, there, first, last, ready, done
        )


class _Cases:
    """The graph of a step whose tasks take other times in each of several cases."""

    def __init__(self, step: Ordered, times: OrderTimes) -> None:
        free = replace(times, time=lambda task, stage: TaskTime())
        self.step, self.times = step, times
        self.graph = _Asynchronous(step, free, SimulationOptions(co_issue=False), Replica())
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
        done = [self._done(stage, ends) for stage in range(len(self.step.orders))]
        last: np.ndarray = np.max(done, 0)
        return last + self.times.update

    def _done(self, stage: int, ends: np.ndarray) -> np.ndarray:
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
    """The range from the first bundle with a decoder task to the last."""
    places = [i for i, tasks in enumerate(order) if any(task.module == name for task in tasks)]
    return range(places[0], places[-1] + 1) if places else range(0)
