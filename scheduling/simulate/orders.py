"""Steps without ticks, simulated: every stage has an order of bundles and waits for data only.

This is how asynchronous pipelines work, Megatron-LM's for one. A task begins when its stage has
done all before it and its inputs have arrived; a send runs beside compute, one at a time from one
stage to another. Two stages, one microbatch (`s` is a send)::

    stage 0   F0 s                s B0
    stage 1        F0 B0
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from scheduling.costs.times import TaskTime
from scheduling.schedules.schedule import Bundle, ScheduleError, Task
from scheduling.simulate.bundle import BundleClock, BundleTime
from scheduling.simulate.events import EventError, Node, Times, run
from scheduling.simulate.simulation import (
    USUAL,
    Options,
    Ran,
    Replica,
    Run,
    Simulation,
    StageRun,
    Step,
)

#: A task on its stage.
Placed = tuple[int, Task]
#: `[stages]`, the bundles of each in the order in which it runs them.
Orders = tuple[tuple[Bundle, ...], ...]


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
        tuple(_alternate(forwards, warm_up(stages, chunks, microbatches, stage), chunks))
        for stage in range(stages)
    )


def _turn(k: int, stages: int, chunks: int) -> tuple[int, int]:
    """Microbatch and chunk of the forward number k of a stage."""
    group, place = divmod(k, stages * chunks)
    return group * stages + place % stages, place // stages


def warm_up(stages: int, chunks: int, microbatches: int, stage: int) -> int:
    """Forwards of a stage before its first backward, but for the one right before it."""
    if chunks == 1:
        return min(stages - stage - 1, microbatches)
    if microbatches == stages:
        return microbatches * chunks
    return min(2 * (stages - stage - 1) + (chunks - 1) * stages, microbatches * chunks)


def _alternate(forwards: list[tuple[int, int]], warm_up: int, chunks: int) -> Iterator[Bundle]:
    """Warm-up forwards, then forwards and backwards in turn, then the backwards left."""
    for k in range(warm_up + len(forwards)):
        if k < len(forwards):
            yield (Task("F", *forwards[k]),)
        if k >= warm_up:
            microbatch, chunk = forwards[k - warm_up]
            yield (Task("B", microbatch, chunks - 1 - chunk),)


def exchanged_in_pairs(orders: Orders) -> Ordered:
    """Interleaved 1F1B whose stages exchange once for each forward and the backward after it.

    What both leave goes out together when the backward is done, and what the next two need comes in
    at the same time, so that the next forward waits for the gradient of its backward, too: as
    interleaved schedules of Megatron-LM do with `overlap_p2p_comm` off. The slowest stage of a
    round holds up one stage after another.
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
        others = (pairs.get(own, own) for own in needs if own[0] != stage)
        after[stage, task] = tuple(dict.fromkeys(others))
    return Ordered(orders, after)


def _pairs(order: Sequence[Task]) -> Iterator[tuple[Task, Task]]:
    """Forwards with the backwards that alternate with them; none where all forwards come first."""
    kinds = [task.kind for task in order]
    if kinds == sorted(kinds, reverse=True):
        return
    for first, second in pairwise(order):
        if (first.kind, second.kind) == ("F", "B"):
            yield first, second


@dataclass(frozen=True)
class OrderTimes:
    """What takes time in a step without ticks, in seconds.

    Attributes:
        time: of a task on a stage; chunks may be uneven, and a head part of the last one.
        send: moving the result of a task to another stage that waits for it, beside compute.
        exchange: sending and receiving after a task, with no compute beside it.
        gather, scatter, update: as of `StepTimes`.
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
        orders: what each stage runs. Tasks of one bundle are co-issued, and begin when all of them
            can. Encoder tasks may stand anywhere.
        after: what tasks wait for besides: forwards for the chunk or stage before, and the first
            for all pieces of the encoders; backwards likewise, upwards, and the first of them for
            the last forward; pieces for the piece before; the first backward of a piece for the
            end of the decoder's.
    """

    orders: Orders
    after: Mapping[Placed, tuple[Placed, ...]] = field(default_factory=dict)

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
        """Virtual chunks."""
        return 1 + max((task.part for _, task in self if task.kind == "F"), default=0)

    @cached_property
    def microbatches(self) -> int:
        """Microbatches of the decoder."""
        numbers = (task.microbatch for _, task in self if task.module == "decoder")
        return 1 + max(numbers, default=0)

    @cached_property
    def modules(self) -> Mapping[str, int]:
        """Encoders and the number of their pieces."""
        pieces: dict[str, int] = {}
        for task in self.stages_of:
            if task.module != "decoder":
                pieces[task.module] = max(pieces.get(task.module, 0), task.part + 1)
        return pieces

    def decoder_only(self) -> Ordered:
        """Without encoder tasks, and what waits for them."""
        orders = tuple(
            tuple(
                kept
                for bundle in order
                if (kept := tuple(task for task in bundle if task.module == "decoder"))
            )
            for order in self.orders
        )
        own = set(Ordered(orders))
        after = {
            task: tuple(other for other in others if other in own)
            for task, others in self.after.items()
            if task in own
        }
        return Ordered(orders, after)

    def needs(self, stage: int, task: Task) -> Iterator[Placed]:
        """What `task` on `stage` waits for."""
        yield from self.after.get((stage, task), ())
        m, part = task.microbatch, task.part
        match task.kind:
            case "F":
                yield from self._forward_needs(stage, m, part)
            case "B":
                yield from self._backward_needs(stage, m, part)
            case "EF":
                yield from self._if_there(Task("EF", m, part - 1, task.module))
            case "EB" if part + 1 < self.modules[task.module]:
                yield from self._if_there(Task("EB", m, part + 1, task.module))
            case "EB":
                yield 0, Task("B", m, 0)

    def _forward_needs(self, stage: int, m: int, part: int) -> Iterator[Placed]:
        if stage:
            yield stage - 1, Task("F", m, part)
        elif part:
            yield len(self.orders) - 1, Task("F", m, part - 1)
        else:
            for name, pieces in self.modules.items():
                yield from self._if_there(Task("EF", m, pieces - 1, name))

    def _backward_needs(self, stage: int, m: int, part: int) -> Iterator[Placed]:
        last = len(self.orders) - 1
        if stage < last:
            yield stage + 1, Task("B", m, part)
        elif part < self.chunks - 1:
            yield 0, Task("B", m, part + 1)
        else:
            yield last, Task("F", m, part)

    def _if_there(self, task: Task) -> Iterator[Placed]:
        return ((stage, task) for stage in self.stages_of.get(task, ()))


def simulate_order(step: Ordered, times: OrderTimes, options: Options = USUAL) -> Simulation:
    """Simulates a step without ticks; raises as `run_order`."""
    alone = None
    if step.modules:
        alone = _run(step.decoder_only(), times, options, _replicas(step, options)).makespan
    return run_order(step, times, options).simulation(alone)


def run_order(step: Ordered, times: OrderTimes, options: Options = USUAL) -> Step:
    """Runs a step without ticks.

    With `Options.overlap_gather`, what a stage runs before its first bundle with a decoder task
    does not wait for the parameters, and what it runs after the last one is beside the scatter.

    Raises:
        ScheduleError: a task stands twice on a stage or waits for one that is nowhere, tasks wait
            for each other, or the options name what the step does not have.
    """
    return _run(step, times, options, _replicas(step, options))


#: Replicas that differ, each with its number.
Replicas = Sequence[tuple[Replica, int]]


def _replicas(step: Ordered, options: Options) -> Replicas:
    modules = {"decoder", *step.modules}
    return options.counted(len(step.orders), step.microbatches, modules)


def _run(step: Ordered, times: OrderTimes, options: Options, replicas: Replicas) -> Step:
    runs = [_Asynchronous(step, times, options, own).run(count) for own, count in replicas]
    return Step(runs, times.scatter, times.update)


class _Asynchronous:
    """One replica's step up to the scatter, as a graph of nodes.

    Node s is the gather of stage s. A bundle is a node; one of several tasks has a node of no time
    before it, and for each task one that ends with it. Sends go in the order in which they are
    ready: `sends` holds their streams.
    """

    def __init__(
        self, step: Ordered, times: OrderTimes, options: Options, replica: Replica
    ) -> None:
        self.step, self.times, self.replica = step, times, replica
        self.co_issue, self.overlap = options.co_issue, options.overlap_gather
        self.clock = BundleClock(options.co_issue)
        self.bundles = [
            [self._time(stage, bundle) for bundle in order]
            for stage, order in enumerate(step.orders)
        ]
        self.decoder = [_decoder_range(order) for order in step.orders]
        self.sends: set[tuple[str, int, int]] = set()
        self.ends: dict[Placed, int] = {}
        self.starts: dict[tuple[int, int], int] = {}
        self.nodes = [
            Node(None, times.gather, name=f"gather of stage {stage}")
            for stage in range(len(step.orders))
        ]

    def _time(self, stage: int, bundle: Bundle) -> BundleTime:
        tasks = tuple([self.times.time(task, stage) for task in bundle])
        slow = self.replica.slow.get(stage, 1.0)
        return self.clock.time(tasks, self.replica.lengths_of(bundle), slow)

    def run(self, count: int) -> Run:
        """All nodes."""
        self._number()
        self._connect()
        try:
            times = run(self.nodes, listed=self.sends)
        except EventError as error:
            raise ScheduleError(str(error)) from error
        stages = tuple(self._stage(stage, times) for stage in range(len(self.step.orders)))
        end = np.array([max(own.done for own in stages)])
        return Run(self.replica, count, stages, np.zeros(1), end, np.zeros(1, int))

    def _number(self) -> None:
        """Adds the nodes of all bundles; they wait for nothing yet."""
        exchange = self.times.exchange
        for stage, order in enumerate(self.step.orders):
            for place, bundle in enumerate(order):
                own = self.bundles[stage][place]
                name = " + ".join(map(str, bundle)) + f" on stage {stage}"
                first = self.starts[stage, place] = len(self.nodes)
                if len(bundle) > 1:
                    self.nodes.append(Node(stage, 0.0, name=name))
                self.nodes.append(Node(stage, own.seconds + exchange, name=name))
                for task, seconds in zip(bundle, own.ends, strict=True):
                    if (stage, task) in self.ends:
                        raise ScheduleError(f"{task} stands twice on stage {stage}; valid: once")
                    self.ends[stage, task] = len(self.nodes) - 1
                    if len(bundle) > 1:
                        self.ends[stage, task] = len(self.nodes)
                        end = seconds + exchange
                        self.nodes.append(Node(None, end, (first,), name=f"end of {task}"))

    def _connect(self) -> None:
        """Lets the nodes wait for what their tasks need, and for the parameters."""
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
            own = self.bundles[stage][place]
            start = times.start[self.starts[stage, place]]
            ran.append(Ran(0, start, start + own.seconds, bundle, own))
        there = times.end[stage]
        done = max(there, ran[-1].end if ran else 0.0)
        first, last = there, there
        if decoder:
            first, last = ran[decoder.start].start, ran[decoder.stop - 1].end
        ready = last if self.overlap else done
        return StageRun(stage, lambda: ran, self.co_issue, there, first, last, ready, done)


def _decoder_range(order: tuple[Bundle, ...]) -> range:
    """From the first bundle with a decoder task to the last."""
    places = [i for i, own in enumerate(order) if any(task.module == "decoder" for task in own)]
    return range(places[0], places[-1] + 1) if places else range(0)
